-- What decides, by digest, so that it can be loaded without files (rule H2). A row
-- never changes. parts and needs are JSON.
CREATE TABLE versions (
  digest  TEXT PRIMARY KEY,
  content BLOB NOT NULL,
  sum     BLOB NOT NULL,  -- of content
  parts   TEXT NOT NULL,
  needs   TEXT NOT NULL,
  who     TEXT NOT NULL,  -- JSON
  at      INTEGER NOT NULL
);
-- Where an activation took its files from, what it changed as JSON, and the sum of the
-- files; NULL: they were not stored.
ALTER TABLE activations ADD COLUMN origin TEXT NOT NULL DEFAULT '';
ALTER TABLE activations ADD COLUMN plan TEXT NOT NULL DEFAULT '';
ALTER TABLE activations ADD COLUMN sum BLOB;
