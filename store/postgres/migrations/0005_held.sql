-- The alert that holds a lineage, as JSON (rule C3); empty: it is not held.
ALTER TABLE lineages ADD COLUMN hold TEXT COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX lineages_held ON lineages (tenant, id) WHERE hold <> '';
