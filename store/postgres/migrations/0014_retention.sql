-- oldest: 14
-- The salt of what events and bindings say of a call's content (rule J4); it goes with
-- the content when the call is redacted. Empty: a call of before, or a redacted one.
-- Programs before this one would find salted bindings to be of other calls.
ALTER TABLE calls ADD COLUMN salt BYTEA NOT NULL DEFAULT '';

-- What approvers were shown of a call, for its redaction.
CREATE INDEX approvals_previewed ON approvals (tenant, call) WHERE preview <> '';
