-- Authority that operators withdrew (rule C3). An empty tenant is all of them.
CREATE TABLE revocations (
  tenant  TEXT COLLATE "C" NOT NULL,
  id      TEXT COLLATE "C" NOT NULL,
  live    BOOLEAN NOT NULL,           -- false: undone, or known to have expired
  expires BIGINT NOT NULL,            -- 0: when it is undone
  body    TEXT COLLATE "C" NOT NULL,  -- JSON
  PRIMARY KEY (tenant, id)
);
CREATE INDEX revocations_live ON revocations (tenant, id) WHERE live;
SELECT isolate('revocations');

-- How many were made and undone: what a reservation was decided under.
CREATE TABLE fences (
  tenant TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  moves  BIGINT NOT NULL
);
SELECT isolate('fences');

-- The login that an answer was given in; empty: its issuer names none.
ALTER TABLE answers ADD COLUMN session TEXT COLLATE "C" NOT NULL DEFAULT '';

-- The runs below a run.
CREATE INDEX runs_parent ON runs (tenant, parent, id) WHERE parent <> '';
