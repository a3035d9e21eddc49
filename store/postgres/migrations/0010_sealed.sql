-- How far the log was sealed (rule J4). A checkpoint is of the whole log, so it has no
-- tenant. The salt is that of the leaves which it added.
CREATE TABLE checkpoints (
  size  BIGINT PRIMARY KEY,
  seq   BIGINT NOT NULL,
  epoch BIGINT NOT NULL,
  at    BIGINT NOT NULL,
  salt  BYTEA NOT NULL,
  note  TEXT COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX checkpoints_seq ON checkpoints (seq);

-- The hashes of the log's tree, 256 of one level in a row. Only the last row of a level grows.
CREATE TABLE log_tiles (
  level BIGINT NOT NULL,
  n     BIGINT NOT NULL,
  data  BYTEA NOT NULL,
  PRIMARY KEY (level, n)
);
