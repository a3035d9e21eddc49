-- How far the log was sealed (rule J4). A checkpoint is of the whole log, so it has no
-- tenant. The salt is that of the leaves which it added.
CREATE TABLE checkpoints (
  size  INTEGER PRIMARY KEY,
  seq   INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  at    INTEGER NOT NULL,
  salt  BLOB NOT NULL,
  note  TEXT NOT NULL
);
CREATE UNIQUE INDEX checkpoints_seq ON checkpoints (seq);

-- The hashes of the log's tree, 256 of one level in a row. Only the last row of a level grows.
CREATE TABLE log_tiles (
  level INTEGER NOT NULL,
  n     INTEGER NOT NULL,
  data  BLOB NOT NULL,
  PRIMARY KEY (level, n)
);
