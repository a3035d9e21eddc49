-- The salt of what events and bindings say of a call's content (rule J4); it goes with
-- the content when the call is redacted. Empty: a call of before, or a redacted one.
ALTER TABLE calls ADD COLUMN salt BLOB NOT NULL DEFAULT x'';

-- What approvers were shown of a call, for its redaction.
CREATE INDEX approvals_previewed ON approvals (tenant, call) WHERE preview <> '';
