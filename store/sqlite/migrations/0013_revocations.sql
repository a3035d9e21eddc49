-- Authority that operators withdrew (rule C3). An empty tenant is all of them.
CREATE TABLE revocations (
  tenant  TEXT NOT NULL,
  id      TEXT NOT NULL,
  live    INTEGER NOT NULL,  -- 0: undone, or known to have expired
  expires INTEGER NOT NULL,  -- 0: when it is undone
  body    TEXT NOT NULL,     -- JSON
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
CREATE INDEX revocations_live ON revocations (tenant, id) WHERE live <> 0;

-- How many were made and undone: what a reservation was decided under.
CREATE TABLE fences (
  tenant TEXT NOT NULL PRIMARY KEY,
  moves  INTEGER NOT NULL
) WITHOUT ROWID;

-- The login that an answer was given in; empty: its issuer names none.
ALTER TABLE answers ADD COLUMN session TEXT NOT NULL DEFAULT '';

-- The runs below a run.
CREATE INDEX runs_parent ON runs (tenant, parent, id) WHERE parent <> '';
