-- Runs, calls, approvals, answers, events: the authoritative records. Times are
-- microseconds since 1970 in UTC; 0 is "not set". Every table but that of activations
-- carries its tenant. Texts compare by their bytes, as on every store.

CREATE TABLE migrations (
  version INTEGER PRIMARY KEY,
  at      TIMESTAMPTZ NOT NULL DEFAULT now()
);

-- Raises when something that was to be there was not: the whole batch fails.
CREATE FUNCTION held(have BIGINT, want BIGINT) RETURNS BIGINT LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF have <> want THEN
    RAISE EXCEPTION 'a guard did not hold: % of % rows', have, want USING ERRCODE = 'PL001';
  END IF;
  RETURN have;
END $$;

-- The tenants whose rows a transaction may see and write, as it named them, and
-- whether it named everyone. One that named nobody has none.
CREATE FUNCTION tenants() RETURNS TEXT[] LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN current_setting('placet.tenants', true) LIKE '{%' THEN current_setting('placet.tenants', true)::text[] END
$$;
CREATE FUNCTION everyone() RETURNS BOOLEAN LANGUAGE sql STABLE AS $$
  SELECT current_setting('placet.tenants', true) IS NOT DISTINCT FROM '*'
$$;

-- Lets a transaction see and write the rows of a table whose tenants it named, and no
-- others; the owner of the table is held to it as well.
CREATE FUNCTION isolate(name TEXT) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
  EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
  EXECUTE format('CREATE POLICY tenants ON %I USING (tenant = ANY ((SELECT tenants())::text[]) OR (SELECT everyone()))', name);
END $$;

CREATE TABLE runs (
  tenant   TEXT COLLATE "C" NOT NULL,
  id       TEXT COLLATE "C" NOT NULL,
  lineage  TEXT COLLATE "C" NOT NULL,
  parent   TEXT COLLATE "C" NOT NULL,
  issuer   TEXT COLLATE "C" NOT NULL,
  subject  TEXT COLLATE "C" NOT NULL,
  agent    TEXT COLLATE "C" NOT NULL,
  label    TEXT COLLATE "C" NOT NULL,
  vouched BOOLEAN NOT NULL,
  turn    BIGINT NOT NULL,
  turns   BOOLEAN NOT NULL,
  state   TEXT COLLATE "C" NOT NULL CHECK (state IN ('awaiting_user', 'model_pending', 'terminated')),
  version BIGINT NOT NULL,
  opened  BIGINT NOT NULL,
  active  BIGINT NOT NULL,
  ended   BIGINT NOT NULL,
  why     TEXT COLLATE "C" NOT NULL,
  delegation TEXT COLLATE "C" NOT NULL,  -- JSON, its secret part sealed; '' for none (rule C2)
  PRIMARY KEY (tenant, id)
);
CREATE INDEX runs_owner ON runs (tenant, issuer, subject, agent, label, opened) WHERE state <> 'terminated';
CREATE INDEX runs_delegated ON runs (tenant, id) WHERE delegation <> '';

CREATE TABLE calls (
  tenant   TEXT COLLATE "C" NOT NULL,
  id       TEXT COLLATE "C" NOT NULL,
  run      TEXT COLLATE "C" NOT NULL,
  lineage  TEXT COLLATE "C" NOT NULL,
  turn       BIGINT NOT NULL,
  kept       BIGINT NOT NULL,
  issuer   TEXT COLLATE "C" NOT NULL,
  subject  TEXT COLLATE "C" NOT NULL,
  agent    TEXT COLLATE "C" NOT NULL,
  tool     TEXT COLLATE "C" NOT NULL,
  server   TEXT COLLATE "C" NOT NULL,
  tool_version BYTEA NOT NULL,
  pin        BYTEA NOT NULL,
  read_only  BOOLEAN NOT NULL,
  arguments TEXT COLLATE "C" NOT NULL,
  input    TEXT COLLATE "C" NOT NULL,
  digest     BYTEA NOT NULL,
  effect     BYTEA NOT NULL,
  occurrence TEXT COLLATE "C" NOT NULL,
  source   TEXT COLLATE "C" NOT NULL,
  route    TEXT COLLATE "C" NOT NULL,
  purpose  TEXT COLLATE "C" NOT NULL,
  details    TEXT COLLATE "C" NOT NULL,  -- JSON
  state      TEXT COLLATE "C" NOT NULL CHECK (state IN ('proposed', 'approval_pending', 'dispatch_authorized', 'executing', 'unknown', 'succeeded', 'failed', 'denied', 'expired', 'canceled', 'revoked')),
  version    BIGINT NOT NULL,
  decision   TEXT COLLATE "C" NOT NULL,  -- JSON
  binding    BYTEA NOT NULL,
  approval   TEXT COLLATE "C" NOT NULL,
  attempt    BIGINT NOT NULL,
  attempts   BIGINT NOT NULL,
  key        TEXT COLLATE "C" NOT NULL,
  lease      BIGINT NOT NULL,
  holds      TEXT COLLATE "C" NOT NULL,  -- JSON
  outcome    TEXT COLLATE "C" NOT NULL,  -- JSON without the result
  result     BYTEA,           -- byte for byte what the tool returned
  proposed   BIGINT NOT NULL,
  changed    BIGINT NOT NULL,
  expires    BIGINT NOT NULL,
  due        BIGINT,          -- NULL: the clock has nothing to do
  PRIMARY KEY (tenant, id)
) WITH (fillfactor = 80);

CREATE INDEX calls_occurrence ON calls (tenant, lineage, occurrence) WHERE NOT read_only AND occurrence <> '';
CREATE INDEX calls_effect ON calls (tenant, effect) WHERE NOT read_only AND state IN ('executing', 'unknown', 'succeeded');
CREATE INDEX calls_run ON calls (tenant, run) WHERE state IN ('proposed', 'approval_pending', 'dispatch_authorized', 'executing', 'unknown');
CREATE INDEX calls_due ON calls (due) WHERE due IS NOT NULL;
CREATE INDEX calls_made ON calls (tenant, run, id);
CREATE INDEX calls_denied ON calls (tenant, lineage, effect, id) WHERE state = 'denied';
CREATE INDEX calls_witnessed ON calls (tenant, lineage, effect, id)
  WHERE NOT read_only AND source = 'witnessed' AND state IN ('proposed', 'approval_pending', 'dispatch_authorized', 'executing', 'unknown');

-- Rule A6: one open call for an effect and an occurrence in a lineage. A read's
-- occurrence is its own (rule A5), so that reads are never merged. It is the last of the
-- table's: of indexes that seem equal while the table is small the planner takes that.
CREATE UNIQUE INDEX calls_equal ON calls (tenant, lineage, effect, occurrence)
  WHERE NOT read_only AND state IN ('proposed', 'approval_pending', 'dispatch_authorized', 'executing', 'unknown');

-- One row for each effect that was ever asked for, and for each occurrence: its version rises with every
-- call made for it, which guards decisions that read the calls before (rule C4).
CREATE TABLE effects (
  tenant  TEXT COLLATE "C" NOT NULL,
  effect  BYTEA NOT NULL,
  version BIGINT NOT NULL,
  PRIMARY KEY (tenant, effect)
);

-- The audience is a digest of the question's rule: who is asked is found out once for each.
CREATE TABLE approvals (
  tenant   TEXT COLLATE "C" NOT NULL,
  id       TEXT COLLATE "C" NOT NULL,
  call     TEXT COLLATE "C" NOT NULL,
  run      TEXT COLLATE "C" NOT NULL,
  lineage  TEXT COLLATE "C" NOT NULL,
  issuer   TEXT COLLATE "C" NOT NULL,
  subject  TEXT COLLATE "C" NOT NULL,
  agent    TEXT COLLATE "C" NOT NULL,
  binding  BYTEA NOT NULL,
  rule     TEXT COLLATE "C" NOT NULL,  -- JSON
  code     TEXT COLLATE "C" NOT NULL,
  state    TEXT COLLATE "C" NOT NULL CHECK (state IN ('pending', 'approved', 'rejected', 'expired', 'void', 'consumed')),
  version  BIGINT NOT NULL,
  replaces TEXT COLLATE "C" NOT NULL,
  asked    BIGINT NOT NULL,
  expires  BIGINT NOT NULL,
  changed  BIGINT NOT NULL,
  audience BIGINT NOT NULL,
  tool     TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX approvals_state ON approvals (tenant, state, id) INCLUDE (audience, issuer, subject, agent, tool);
CREATE INDEX approvals_run ON approvals (tenant, run, id) INCLUDE (audience, issuer, subject, agent, tool) WHERE state = 'pending';
CREATE INDEX approvals_given ON approvals (tenant, issuer, subject, agent, id) WHERE state IN ('approved', 'consumed');
CREATE INDEX approvals_unused ON approvals (tenant, lineage, id) WHERE state = 'approved';
CREATE INDEX approvals_pending ON approvals (id) WHERE state = 'pending';

-- One answer of a person to a question; a second row would be a second vote.
CREATE TABLE answers (
  tenant   TEXT COLLATE "C" NOT NULL,
  approval TEXT COLLATE "C" NOT NULL,
  issuer   TEXT COLLATE "C" NOT NULL,
  subject  TEXT COLLATE "C" NOT NULL,
  word     TEXT COLLATE "C" NOT NULL CHECK (word IN ('approved', 'rejected')),
  note     TEXT COLLATE "C" NOT NULL,
  groups   TEXT COLLATE "C" NOT NULL,  -- JSON
  binding  BYTEA NOT NULL,
  at       BIGINT NOT NULL,
  proof    TEXT COLLATE "C" NOT NULL,  -- JSON; '' for none
  PRIMARY KEY (tenant, approval, issuer, subject)
);

CREATE TABLE rejections (
  tenant   TEXT COLLATE "C" NOT NULL,
  lineage  TEXT COLLATE "C" NOT NULL,
  effect   BYTEA NOT NULL,
  approval TEXT COLLATE "C" NOT NULL,
  note     TEXT COLLATE "C" NOT NULL,
  at       BIGINT NOT NULL,
  PRIMARY KEY (tenant, lineage, effect)
);

CREATE TABLE counters (
  tenant   TEXT COLLATE "C" NOT NULL,
  counter  TEXT COLLATE "C" NOT NULL,
  level   TEXT COLLATE "C" NOT NULL,
  version BIGINT NOT NULL,  -- rises with every write, which guards it
  PRIMARY KEY (tenant, counter)
) WITH (fillfactor = 50);

CREATE TABLE activations (
  generation BIGINT PRIMARY KEY,
  digest     TEXT COLLATE "C" NOT NULL,
  who        TEXT COLLATE "C" NOT NULL,  -- JSON
  at         BIGINT NOT NULL
);

-- The audit log: append only, in the order of commits.
CREATE TABLE events (
  seq      BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  at       BIGINT NOT NULL,
  tenant   TEXT COLLATE "C" NOT NULL,
  kind     TEXT COLLATE "C" NOT NULL,
  run      TEXT COLLATE "C" NOT NULL,
  call     TEXT COLLATE "C" NOT NULL,
  approval TEXT COLLATE "C" NOT NULL,
  who      TEXT COLLATE "C" NOT NULL,  -- JSON
  body     TEXT COLLATE "C" NOT NULL   -- JSON
);
CREATE INDEX events_call ON events (call, seq) WHERE call <> '';
CREATE INDEX events_run ON events (run, seq) WHERE call = '' AND run <> '';
CREATE INDEX events_alert ON events (tenant, seq) WHERE kind = 'alert';

-- What people sign answers with. A row enrols nothing by itself: seal is a signature
-- over it by a key that is not in this database. count and used are not sealed.
CREATE TABLE passkeys (
  tenant   TEXT COLLATE "C" NOT NULL,
  issuer   TEXT COLLATE "C" NOT NULL,
  subject  TEXT COLLATE "C" NOT NULL,
  id         BYTEA NOT NULL,
  public_key BYTEA NOT NULL,
  name       TEXT COLLATE "C" NOT NULL,
  rp_id      TEXT COLLATE "C" NOT NULL,
  added      BIGINT NOT NULL,
  seal       BYTEA NOT NULL,
  count      BIGINT NOT NULL,
  used       BIGINT NOT NULL,
  PRIMARY KEY (tenant, issuer, subject, id)
);
CREATE UNIQUE INDEX passkeys_id ON passkeys (id);

-- One row for each owner that opened runs without vouch: which of their lineages is
-- the present one (rule B1), and since when.
CREATE TABLE standing (
  tenant   TEXT COLLATE "C" NOT NULL,
  issuer   TEXT COLLATE "C" NOT NULL,
  subject  TEXT COLLATE "C" NOT NULL,
  agent    TEXT COLLATE "C" NOT NULL,
  epoch   BIGINT NOT NULL,
  since   BIGINT NOT NULL,
  lineage TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant, issuer, subject, agent)
);

-- What protects a lineage beside its calls (rules B1, B5, F1): its labels, and how
-- often what its user typed has paid for an effect. A lineage that has read and
-- been told nothing has no row.
CREATE TABLE lineages (
  tenant   TEXT COLLATE "C" NOT NULL,
  id       TEXT COLLATE "C" NOT NULL,
  version BIGINT NOT NULL,
  seq     BIGINT NOT NULL,  -- of its newest material
  salt    BYTEA NOT NULL,
  marks   TEXT COLLATE "C" NOT NULL,  -- JSON
  paid    TEXT COLLATE "C" NOT NULL,  -- JSON
  PRIMARY KEY (tenant, id)
);

-- What a lineage has read and been told, in its order: of results only salted
-- digests, of what the user typed the text.
CREATE TABLE materials (
  tenant   TEXT COLLATE "C" NOT NULL,
  lineage  TEXT COLLATE "C" NOT NULL,
  seq     BIGINT NOT NULL,
  kind    TEXT COLLATE "C" NOT NULL,
  at      BIGINT NOT NULL,
  call    TEXT COLLATE "C" NOT NULL,
  body    TEXT COLLATE "C" NOT NULL,  -- JSON
  PRIMARY KEY (tenant, lineage, seq)
);

-- Calls that the LLM edge saw a model make (rules A2, G2), by tool and digest. One
-- counts while it is open and its run is alive in its turn.
CREATE TABLE emissions (
  tenant   TEXT COLLATE "C" NOT NULL,
  id       TEXT COLLATE "C" NOT NULL,
  issuer   TEXT COLLATE "C" NOT NULL,
  subject  TEXT COLLATE "C" NOT NULL,
  agent    TEXT COLLATE "C" NOT NULL,
  run      TEXT COLLATE "C" NOT NULL,
  lineage  TEXT COLLATE "C" NOT NULL,
  turn     BIGINT NOT NULL,
  provider TEXT COLLATE "C" NOT NULL,
  request  BYTEA NOT NULL,
  response TEXT COLLATE "C" NOT NULL,
  position BIGINT NOT NULL,
  label    TEXT COLLATE "C" NOT NULL,
  tool     TEXT COLLATE "C" NOT NULL,
  digest   BYTEA NOT NULL,
  occurrence TEXT COLLATE "C" NOT NULL,
  state    TEXT COLLATE "C" NOT NULL CHECK (state IN ('open', 'consumed', 'retired')),
  call     TEXT COLLATE "C" NOT NULL,
  at       BIGINT NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX emissions_match ON emissions (tenant, lineage, tool, digest, at) WHERE state = 'open';
CREATE INDEX emissions_run ON emissions (tenant, run) WHERE state = 'open';
CREATE INDEX emissions_label ON emissions (tenant, lineage, label) WHERE label <> '';

-- What a run asked models, the newest of equal requests: an equal one is the same
-- question asked again.
CREATE TABLE model_requests (
  tenant   TEXT COLLATE "C" NOT NULL,
  run      TEXT COLLATE "C" NOT NULL,
  digest   BYTEA NOT NULL,
  id       TEXT COLLATE "C" NOT NULL,
  provider TEXT COLLATE "C" NOT NULL,
  at       BIGINT NOT NULL,
  PRIMARY KEY (tenant, run, digest)
);
CREATE INDEX model_requests_newest ON model_requests (tenant, run, at, id);

-- What a provider keeps for a run (rule G1). Naming what another run owns is refused.
CREATE TABLE model_objects (
  tenant   TEXT COLLATE "C" NOT NULL,
  provider TEXT COLLATE "C" NOT NULL,
  id       TEXT COLLATE "C" NOT NULL,
  run      TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant, provider, id)
);

DO $$
DECLARE t TEXT;
BEGIN
  FOREACH t IN ARRAY ARRAY['runs', 'calls', 'effects', 'approvals', 'answers', 'rejections', 'counters', 'events', 'passkeys',
    'standing', 'lineages', 'materials', 'emissions', 'model_requests', 'model_objects'] LOOP
    PERFORM isolate(t);
  END LOOP;
END $$;
