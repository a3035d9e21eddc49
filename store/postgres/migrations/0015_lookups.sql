-- Who looks a call up by its key is to have one index that fits. Those that begin with
-- the tenant seem as good to the planner while few calls are there, or open, and a plan
-- of that time reads every one of the tenant's. A run's ID alone narrows enough.
DROP INDEX calls_made;
CREATE INDEX calls_made ON calls (run, tenant, id);
DROP INDEX calls_run;
CREATE INDEX calls_run ON calls (run, tenant) WHERE state IN ('proposed', 'approval_pending', 'dispatch_authorized', 'executing', 'unknown');
