-- A queued call, and when the clock next tries to dispatch it; NULL: it waits for its
-- agent, or has run. Its expiry and its lease stay in due (rule C2).
ALTER TABLE calls ADD COLUMN queued INTEGER NOT NULL DEFAULT 0;
ALTER TABLE calls ADD COLUMN again INTEGER;
CREATE INDEX calls_again ON calls (tenant, again) WHERE again IS NOT NULL;

-- Queued calls that came to nothing.
CREATE INDEX calls_dead ON calls (tenant, id)
  WHERE queued = 1 AND (state = 'failed' OR state = 'denied' OR state = 'expired' OR (state = 'unknown' AND attempt >= attempts));
