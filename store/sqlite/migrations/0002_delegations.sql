-- A run's delegation (rule C2), as JSON; '' for none. Its secret part is sealed:
-- only the process that has the key can ask the source with it.
ALTER TABLE runs ADD COLUMN delegation TEXT NOT NULL DEFAULT '';
CREATE INDEX runs_delegated ON runs (tenant, id) WHERE delegation <> '';
