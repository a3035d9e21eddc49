-- What the servers of one store share beside the records.

-- The oldest program that may go on using the schema once this migration ran, by the
-- number of the last migration that it knows: 0 for any, after one that only adds.
ALTER TABLE migrations ADD COLUMN oldest INTEGER NOT NULL DEFAULT 0;

-- Which keys they have: digests, so that a server with others is noticed.
CREATE TABLE agreed (
  name   TEXT COLLATE "C" PRIMARY KEY,
  digest BYTEA NOT NULL
);

-- Sign-ins at the console, sealed; names and owners are digests.
CREATE TABLE sessions (
  name    BYTEA PRIMARY KEY,
  owner   BYTEA NOT NULL,
  began   BIGINT NOT NULL,
  used    BIGINT NOT NULL,
  version BIGINT NOT NULL,
  sealed  BYTEA NOT NULL
);
CREATE INDEX sessions_owner ON sessions (owner, began);
CREATE INDEX sessions_used ON sessions (used);
