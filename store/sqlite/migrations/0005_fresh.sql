-- One row for each owner that opened runs without vouch: which of their lineages is
-- the present one (rule B1), and since when.
CREATE TABLE standing (
  tenant  TEXT NOT NULL,
  issuer  TEXT NOT NULL,
  subject TEXT NOT NULL,
  agent   TEXT NOT NULL,
  epoch   INTEGER NOT NULL,
  since   INTEGER NOT NULL,
  lineage TEXT NOT NULL,
  PRIMARY KEY (tenant, issuer, subject, agent)
) WITHOUT ROWID;
INSERT INTO standing SELECT tenant, issuer, subject, agent, 0, min(opened), lineage FROM runs WHERE vouched = 0 GROUP BY tenant, issuer, subject, agent;
