-- Runs, calls, approvals, answers, events: the authoritative records. Times are
-- microseconds since 1970 in UTC; 0 is "not set". Every table carries its tenant.

CREATE TABLE runs (
  tenant  TEXT NOT NULL,
  id      TEXT NOT NULL,
  lineage TEXT NOT NULL,
  parent  TEXT NOT NULL,
  issuer  TEXT NOT NULL,
  subject TEXT NOT NULL,
  agent   TEXT NOT NULL,
  label   TEXT NOT NULL,
  vouched INTEGER NOT NULL,
  turn    INTEGER NOT NULL,
  turns   INTEGER NOT NULL,
  state   TEXT NOT NULL CHECK (state = 'awaiting_user' OR state = 'model_pending' OR state = 'terminated'),
  version INTEGER NOT NULL,
  opened  INTEGER NOT NULL,
  active  INTEGER NOT NULL,
  ended   INTEGER NOT NULL,
  why     TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE INDEX runs_owner ON runs (tenant, issuer, subject, agent, label, opened) WHERE state <> 'terminated';

CREATE TABLE calls (
  tenant     TEXT NOT NULL,
  id         TEXT NOT NULL,
  run        TEXT NOT NULL,
  lineage    TEXT NOT NULL,
  turn       INTEGER NOT NULL,
  kept       INTEGER NOT NULL,
  issuer     TEXT NOT NULL,
  subject    TEXT NOT NULL,
  agent      TEXT NOT NULL,
  tool       TEXT NOT NULL,
  server     TEXT NOT NULL,
  tool_version BLOB NOT NULL,
  pin        BLOB NOT NULL,
  read_only  INTEGER NOT NULL,
  arguments  TEXT NOT NULL,
  input      TEXT NOT NULL,
  digest     BLOB NOT NULL,
  effect     BLOB NOT NULL,
  occurrence TEXT NOT NULL,
  source     TEXT NOT NULL,
  route      TEXT NOT NULL,
  purpose    TEXT NOT NULL,
  details    TEXT NOT NULL,  -- JSON: targets, edits, shown, effect text, blank
  state      TEXT NOT NULL CHECK (state = 'proposed' OR state = 'approval_pending' OR state = 'dispatch_authorized' OR state = 'executing' OR state = 'unknown' OR state = 'succeeded' OR state = 'failed' OR state = 'denied' OR state = 'expired' OR state = 'canceled' OR state = 'revoked'),
  version    INTEGER NOT NULL,
  decision   TEXT NOT NULL,  -- JSON
  binding    BLOB NOT NULL,
  approval   TEXT NOT NULL,
  attempt    INTEGER NOT NULL,
  attempts   INTEGER NOT NULL,
  key        TEXT NOT NULL,
  lease      INTEGER NOT NULL,
  holds      TEXT NOT NULL,  -- JSON
  outcome    TEXT NOT NULL,  -- JSON without the result
  result     BLOB,           -- byte for byte what the tool returned
  proposed   INTEGER NOT NULL,
  changed    INTEGER NOT NULL,
  expires    INTEGER NOT NULL,
  due        INTEGER,        -- NULL: the clock has nothing to do
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

-- Rule A6: one open call for an effect and an occurrence in a lineage. A read's
-- occurrence is its own (rule A5), so that reads are never merged.
CREATE UNIQUE INDEX calls_equal ON calls (tenant, lineage, effect, occurrence)
  WHERE read_only = 0 AND (state = 'proposed' OR state = 'approval_pending' OR state = 'dispatch_authorized' OR state = 'executing' OR state = 'unknown');
CREATE INDEX calls_occurrence ON calls (tenant, lineage, occurrence) WHERE read_only = 0 AND occurrence <> '';
CREATE INDEX calls_effect ON calls (tenant, effect) WHERE read_only = 0 AND (state = 'executing' OR state = 'unknown' OR state = 'succeeded');
CREATE INDEX calls_run ON calls (tenant, run)
  WHERE (state = 'proposed' OR state = 'approval_pending' OR state = 'dispatch_authorized' OR state = 'executing' OR state = 'unknown');
CREATE INDEX calls_due ON calls (due) WHERE due IS NOT NULL;

-- One row for each effect that was ever asked for, and for each occurrence: its version rises with every
-- call made for it, which guards decisions that read the calls before (rule C4).
CREATE TABLE effects (
  tenant  TEXT NOT NULL,
  effect  BLOB NOT NULL,
  version INTEGER NOT NULL,
  PRIMARY KEY (tenant, effect)
) WITHOUT ROWID;

CREATE TABLE approvals (
  tenant   TEXT NOT NULL,
  id       TEXT NOT NULL,
  call     TEXT NOT NULL,
  run      TEXT NOT NULL,
  lineage  TEXT NOT NULL,
  issuer   TEXT NOT NULL,
  subject  TEXT NOT NULL,
  agent    TEXT NOT NULL,
  binding  BLOB NOT NULL,
  rule     TEXT NOT NULL,  -- JSON
  code     TEXT NOT NULL,
  state    TEXT NOT NULL CHECK (state = 'pending' OR state = 'approved' OR state = 'rejected' OR state = 'expired' OR state = 'void' OR state = 'consumed'),
  version  INTEGER NOT NULL,
  replaces TEXT NOT NULL,
  asked    INTEGER NOT NULL,
  expires  INTEGER NOT NULL,
  changed  INTEGER NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
CREATE INDEX approvals_state ON approvals (tenant, state, id);

-- One answer of a person to a question; a second row would be a second vote.
CREATE TABLE answers (
  tenant   TEXT NOT NULL,
  approval TEXT NOT NULL,
  issuer   TEXT NOT NULL,
  subject  TEXT NOT NULL,
  word     TEXT NOT NULL CHECK (word = 'approved' OR word = 'rejected'),
  note     TEXT NOT NULL,
  groups   TEXT NOT NULL,  -- JSON
  binding  BLOB NOT NULL,
  at       INTEGER NOT NULL,
  PRIMARY KEY (tenant, approval, issuer, subject)
) WITHOUT ROWID;

CREATE TABLE rejections (
  tenant   TEXT NOT NULL,
  lineage  TEXT NOT NULL,
  effect   BLOB NOT NULL,
  approval TEXT NOT NULL,
  note     TEXT NOT NULL,
  at       INTEGER NOT NULL,
  PRIMARY KEY (tenant, lineage, effect)
) WITHOUT ROWID;

CREATE TABLE counters (
  tenant  TEXT NOT NULL,
  counter TEXT NOT NULL,
  level   TEXT NOT NULL,
  PRIMARY KEY (tenant, counter)
) WITHOUT ROWID;

CREATE TABLE activations (
  generation INTEGER PRIMARY KEY,
  digest     TEXT NOT NULL,
  who        TEXT NOT NULL,  -- JSON
  at         INTEGER NOT NULL
);

-- The audit log: append only, in the order of commits.
CREATE TABLE events (
  seq      INTEGER PRIMARY KEY,
  at       INTEGER NOT NULL,
  tenant   TEXT NOT NULL,
  kind     TEXT NOT NULL,
  run      TEXT NOT NULL,
  call     TEXT NOT NULL,
  approval TEXT NOT NULL,
  who      TEXT NOT NULL,  -- JSON
  body     TEXT NOT NULL   -- JSON
);
CREATE INDEX events_call ON events (call, seq) WHERE call <> '';
