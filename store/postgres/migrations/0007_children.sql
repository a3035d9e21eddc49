-- What a child run may do at most (rule B4), and when it ends.
ALTER TABLE runs ADD COLUMN granted TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN until BIGINT NOT NULL DEFAULT 0;
CREATE INDEX runs_until ON runs (until) WHERE until > 0 AND state <> 'terminated';
