-- What people sign answers with. A row enrols nothing by itself: seal is a signature
-- over it by a key that is not in this file. count and used are not sealed.
CREATE TABLE passkeys (
  tenant     TEXT NOT NULL,
  issuer     TEXT NOT NULL,
  subject    TEXT NOT NULL,
  id         BLOB NOT NULL,
  public_key BLOB NOT NULL,
  name       TEXT NOT NULL,
  rp_id      TEXT NOT NULL,
  added      INTEGER NOT NULL,
  seal       BLOB NOT NULL,
  count      INTEGER NOT NULL,
  used       INTEGER NOT NULL,
  PRIMARY KEY (tenant, issuer, subject, id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX passkeys_id ON passkeys (id);

-- The signed answer of a rule that demands a passkey, as JSON; '' for none.
ALTER TABLE answers ADD COLUMN proof TEXT NOT NULL DEFAULT '';
