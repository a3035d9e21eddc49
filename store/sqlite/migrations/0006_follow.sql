-- Questions that wait, of every tenant, for those who tell people of them; and alerts, which are few among many events.
CREATE INDEX approvals_pending ON approvals (id) WHERE state = 'pending';
CREATE INDEX events_alert ON events (tenant, seq) WHERE kind = 'alert';
