-- Runs that clients began with a key of their own: the same key begins none twice.
CREATE TABLE claims (
  principal TEXT NOT NULL,
  key TEXT NOT NULL,
  asked BLOB NOT NULL,
  execution TEXT NOT NULL,
  -- Milliseconds since 1970.
  created INTEGER NOT NULL,
  PRIMARY KEY (principal, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX claims_by_age ON claims (created);
