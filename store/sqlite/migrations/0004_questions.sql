-- What the pages of approvers look for, however many questions wait. The audience is
-- a digest of the question's rule: who is asked is found out once for each; 0 is a
-- question of before, whose own rule is read. None of these is written by a call that
-- nobody is asked about, except calls_made, once.
ALTER TABLE approvals ADD COLUMN audience INTEGER NOT NULL DEFAULT 0;
ALTER TABLE approvals ADD COLUMN tool TEXT NOT NULL DEFAULT '';
UPDATE approvals SET tool = (SELECT tool FROM calls WHERE calls.tenant = approvals.tenant AND calls.id = approvals.call);
DROP INDEX approvals_state;
CREATE INDEX approvals_state ON approvals (tenant, state, id, audience, issuer, subject, agent, tool);
CREATE INDEX approvals_run ON approvals (tenant, run, id, audience, issuer, subject, agent, tool) WHERE state = 'pending';
CREATE INDEX approvals_given ON approvals (tenant, issuer, subject, agent, id) WHERE (state = 'approved' OR state = 'consumed');
CREATE INDEX approvals_unused ON approvals (tenant, lineage, id) WHERE state = 'approved';
CREATE INDEX calls_made ON calls (tenant, run, id);
CREATE INDEX calls_denied ON calls (tenant, lineage, effect, id) WHERE state = 'denied';
CREATE INDEX events_run ON events (run, seq) WHERE call = '' AND run <> '';
