-- Calls that the LLM edge saw a model make (rules A2, G2), by tool and digest. One
-- counts while it is open and its run is alive in its turn.
CREATE TABLE emissions (
  tenant   TEXT NOT NULL,
  id       TEXT NOT NULL,
  issuer   TEXT NOT NULL,
  subject  TEXT NOT NULL,
  agent    TEXT NOT NULL,
  run      TEXT NOT NULL,
  lineage  TEXT NOT NULL,
  turn     INTEGER NOT NULL,
  provider TEXT NOT NULL,
  request  BLOB NOT NULL,
  response TEXT NOT NULL,
  position INTEGER NOT NULL,
  label    TEXT NOT NULL,
  tool     TEXT NOT NULL,
  digest   BLOB NOT NULL,
  occurrence TEXT NOT NULL,
  state    TEXT NOT NULL CHECK (state = 'open' OR state = 'consumed' OR state = 'retired'),
  call     TEXT NOT NULL,
  at       INTEGER NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
CREATE INDEX emissions_match ON emissions (tenant, lineage, tool, digest, at) WHERE state = 'open';
CREATE INDEX emissions_run ON emissions (tenant, run) WHERE state = 'open';
CREATE INDEX emissions_label ON emissions (tenant, lineage, label) WHERE label <> '';

-- What a run asked models, the newest of equal requests: an equal one is the same
-- question asked again.
CREATE TABLE model_requests (
  tenant   TEXT NOT NULL,
  run      TEXT NOT NULL,
  digest   BLOB NOT NULL,
  id       TEXT NOT NULL,
  provider TEXT NOT NULL,
  at       INTEGER NOT NULL,
  PRIMARY KEY (tenant, run, digest)
) WITHOUT ROWID;
CREATE INDEX model_requests_newest ON model_requests (tenant, run, at, id);

-- What a provider keeps for a run (rule G1). Naming what another run owns is refused.
CREATE TABLE model_objects (
  tenant   TEXT NOT NULL,
  provider TEXT NOT NULL,
  id       TEXT NOT NULL,
  run      TEXT NOT NULL,
  PRIMARY KEY (tenant, provider, id)
) WITHOUT ROWID;

-- A call that was witnessed, found by its effect when it is sent again without a label.
CREATE INDEX calls_witnessed ON calls (tenant, lineage, effect, id)
  WHERE read_only = 0 AND source = 'witnessed' AND (state = 'proposed' OR state = 'approval_pending' OR state = 'dispatch_authorized' OR state = 'executing' OR state = 'unknown');
