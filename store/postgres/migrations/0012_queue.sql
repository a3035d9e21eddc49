-- A queued call, and when the clock next tries to dispatch it; NULL: it waits for its
-- agent, or has run. Its expiry and its lease stay in due (rule C2). What decides about
-- equal calls names nothing of these indexes, so that calls_equal need not be made anew.
ALTER TABLE calls ADD COLUMN queued BOOLEAN NOT NULL DEFAULT false;
ALTER TABLE calls ADD COLUMN again BIGINT;
CREATE INDEX calls_again ON calls (tenant, again) WHERE again IS NOT NULL;

-- Queued calls that came to nothing.
CREATE INDEX calls_dead ON calls (tenant, id)
  WHERE queued AND (state IN ('failed', 'denied', 'expired') OR state = 'unknown' AND attempt >= attempts);
