-- Histories that callers imported, for display. Nothing here is a record of a call.
CREATE TABLE transcripts (
  tenant   TEXT COLLATE "C" NOT NULL,
  id       TEXT COLLATE "C" NOT NULL,
  issuer   TEXT COLLATE "C" NOT NULL,
  subject  TEXT COLLATE "C" NOT NULL,
  agent    TEXT COLLATE "C" NOT NULL,
  label    TEXT COLLATE "C" NOT NULL,
  format   TEXT COLLATE "C" NOT NULL,
  digest   BYTEA NOT NULL,
  size     BIGINT NOT NULL,
  messages BIGINT NOT NULL,
  items    TEXT COLLATE "C" NOT NULL,  -- JSON, bounded
  version  BIGINT NOT NULL,
  imported BIGINT NOT NULL,
  changed  BIGINT NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX transcripts_owner ON transcripts (tenant, issuer, subject, agent, id);
SELECT isolate('transcripts');

-- Who may read what is somebody else's, until when. The reader is a principal.
CREATE TABLE shares (
  tenant     TEXT COLLATE "C" NOT NULL,
  id         TEXT COLLATE "C" NOT NULL,
  issuer     TEXT COLLATE "C" NOT NULL,
  subject    TEXT COLLATE "C" NOT NULL,
  agent      TEXT COLLATE "C" NOT NULL,
  to_issuer  TEXT COLLATE "C" NOT NULL,
  to_subject TEXT COLLATE "C" NOT NULL,
  run        TEXT COLLATE "C" NOT NULL,
  transcript TEXT COLLATE "C" NOT NULL,
  given      BIGINT NOT NULL,
  until      BIGINT NOT NULL,
  ended      BIGINT NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX shares_by ON shares (tenant, issuer, subject, agent, id);
CREATE INDEX shares_to ON shares (tenant, to_issuer, to_subject, id);
SELECT isolate('shares');

-- The ended run that an operator's replay is of; '' for none.
ALTER TABLE runs ADD COLUMN replays TEXT COLLATE "C" NOT NULL DEFAULT '';
