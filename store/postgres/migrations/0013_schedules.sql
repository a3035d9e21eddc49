-- Tools that are called at set times. The run holds the delegation; next is NULL where
-- nothing fires. The rest is in body, as JSON.
CREATE TABLE schedules (
  tenant  TEXT COLLATE "C" NOT NULL,
  id      TEXT COLLATE "C" NOT NULL,
  issuer  TEXT COLLATE "C" NOT NULL,
  subject TEXT COLLATE "C" NOT NULL,
  agent   TEXT COLLATE "C" NOT NULL,
  state   TEXT COLLATE "C" NOT NULL,
  version BIGINT NOT NULL,
  next    BIGINT,
  body    TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX schedules_next ON schedules (next) WHERE next IS NOT NULL;
CREATE INDEX schedules_owner ON schedules (tenant, issuer, subject, agent, id);
SELECT isolate('schedules');
