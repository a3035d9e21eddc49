-- Of an attempt that was handed to its caller: the digest of what its holder shows
-- to extend its lease and to report (rule E6). Empty for all others.
ALTER TABLE calls ADD COLUMN holder BYTEA NOT NULL DEFAULT ''::bytea;
