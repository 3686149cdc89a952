-- Access tokens for our own doors; only the digest of each secret is kept.
CREATE TABLE tokens (
  id TEXT NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  scope TEXT NOT NULL CHECK (scope IN ('viewer', 'agent', 'operator')),
  digest BLOB NOT NULL,
  created TEXT NOT NULL,
  used TEXT,
  revoked TEXT
) STRICT, WITHOUT ROWID;
-- Of two tokens in use, each is known by its name.
CREATE UNIQUE INDEX tokens_by_name ON tokens (name) WHERE revoked IS NULL;
