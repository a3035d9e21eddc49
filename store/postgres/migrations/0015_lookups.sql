-- Who looks a call or a question up by its key is to have one index that fits. Those that
-- begin with the tenant seem as good to the planner while few rows are there, or open, and
-- a plan of that time reads every one of the tenant's. So others begin with the run or the
-- state, which their queries name as well.
DROP INDEX calls_made;
CREATE INDEX calls_made ON calls (run, tenant, id);
DROP INDEX calls_run;
CREATE INDEX calls_run ON calls (run, tenant) WHERE state IN ('proposed', 'approval_pending', 'dispatch_authorized', 'executing', 'unknown');
DROP INDEX approvals_state;
CREATE INDEX approvals_state ON approvals (state, tenant, id) INCLUDE (audience, issuer, subject, agent, tool);
