-- What protects a lineage beside its calls (rules B1, B5, F1): its labels, and how
-- often what its user typed has paid for an effect. A lineage that has read and
-- been told nothing has no row.
CREATE TABLE lineages (
  tenant  TEXT NOT NULL,
  id      TEXT NOT NULL,
  version INTEGER NOT NULL,
  seq     INTEGER NOT NULL,  -- of its newest material
  salt    BLOB NOT NULL,
  marks   TEXT NOT NULL,     -- JSON
  paid    TEXT NOT NULL,     -- JSON
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

-- What a lineage has read and been told, in its order: of results only salted
-- digests, of what the user typed the text.
CREATE TABLE materials (
  tenant  TEXT NOT NULL,
  lineage TEXT NOT NULL,
  seq     INTEGER NOT NULL,
  kind    TEXT NOT NULL,
  at      INTEGER NOT NULL,
  call    TEXT NOT NULL,
  body    TEXT NOT NULL,     -- JSON
  PRIMARY KEY (tenant, lineage, seq)
) WITHOUT ROWID;
