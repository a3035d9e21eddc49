-- Tools that are called at set times. The run holds the delegation; next is NULL where
-- nothing fires. The rest is in body, as JSON.
CREATE TABLE schedules (
  tenant  TEXT NOT NULL,
  id      TEXT NOT NULL,
  issuer  TEXT NOT NULL,
  subject TEXT NOT NULL,
  agent   TEXT NOT NULL,
  state   TEXT NOT NULL,
  version INTEGER NOT NULL,
  next    INTEGER,
  body    TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX schedules_next ON schedules (next) WHERE next IS NOT NULL;
CREATE INDEX schedules_owner ON schedules (tenant, issuer, subject, agent, id);
