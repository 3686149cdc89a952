-- Files of sessions that outlive their processes, for `keep` seconds after the session was last used. `bytes` and `files` are
-- what was last counted; `taken` is when a process last took the session.
CREATE TABLE workspaces (
  session TEXT NOT NULL PRIMARY KEY,
  principal TEXT NOT NULL,
  name TEXT,
  keep INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  files INTEGER NOT NULL,
  taken TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX workspaces_by_name ON workspaces (principal, name) WHERE name IS NOT NULL;
