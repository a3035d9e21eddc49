-- What a child run may do at most (rule B4), and when it ends.
ALTER TABLE runs ADD COLUMN granted TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN until INTEGER NOT NULL DEFAULT 0;
CREATE INDEX runs_until ON runs (until) WHERE until > 0 AND state <> 'terminated';
