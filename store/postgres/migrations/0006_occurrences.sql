-- The same for equal calls that answer equal requests of a lineage (rule A7).
ALTER TABLE emissions ADD COLUMN occurrence TEXT COLLATE "C" NOT NULL DEFAULT '';
