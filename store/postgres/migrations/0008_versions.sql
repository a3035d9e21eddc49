-- What decides, by digest, so that every server can load it without files (rule H2). A
-- row never changes. Like activations it belongs to no tenant. parts and needs are JSON.
CREATE TABLE versions (
  digest  TEXT COLLATE "C" PRIMARY KEY,
  content BYTEA NOT NULL,
  sum     BYTEA NOT NULL,               -- of content
  parts   TEXT COLLATE "C" NOT NULL,
  needs   TEXT COLLATE "C" NOT NULL,
  who     TEXT COLLATE "C" NOT NULL,    -- JSON
  at      BIGINT NOT NULL
);
ALTER TABLE activations ADD COLUMN origin TEXT COLLATE "C" NOT NULL DEFAULT '';  -- where the files came from
ALTER TABLE activations ADD COLUMN plan TEXT COLLATE "C" NOT NULL DEFAULT '';    -- what it changed, as JSON
ALTER TABLE activations ADD COLUMN sum BYTEA;                                    -- of the files; NULL: they were not stored
