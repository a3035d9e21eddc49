-- Histories that callers imported, for display. Nothing here is a record of a call.
CREATE TABLE transcripts (
  tenant   TEXT NOT NULL,
  id       TEXT NOT NULL,
  issuer   TEXT NOT NULL,
  subject  TEXT NOT NULL,
  agent    TEXT NOT NULL,
  label    TEXT NOT NULL,
  format   TEXT NOT NULL,
  digest   BLOB NOT NULL,
  size     INTEGER NOT NULL,
  messages INTEGER NOT NULL,
  items    TEXT NOT NULL,  -- JSON, bounded
  version  INTEGER NOT NULL,
  imported INTEGER NOT NULL,
  changed  INTEGER NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX transcripts_owner ON transcripts (tenant, issuer, subject, agent, id);

-- Who may read what is somebody else's, until when. The reader is a principal.
CREATE TABLE shares (
  tenant     TEXT NOT NULL,
  id         TEXT NOT NULL,
  issuer     TEXT NOT NULL,
  subject    TEXT NOT NULL,
  agent      TEXT NOT NULL,
  to_issuer  TEXT NOT NULL,
  to_subject TEXT NOT NULL,
  run        TEXT NOT NULL,
  transcript TEXT NOT NULL,
  given      INTEGER NOT NULL,
  until      INTEGER NOT NULL,
  ended      INTEGER NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
CREATE INDEX shares_by ON shares (tenant, issuer, subject, agent, id);
CREATE INDEX shares_to ON shares (tenant, to_issuer, to_subject, id);

-- The ended run that an operator's replay is of; '' for none.
ALTER TABLE runs ADD COLUMN replays TEXT NOT NULL DEFAULT '';
