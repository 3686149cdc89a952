-- Policies that sessions ran under, as JSON, by digest.
CREATE TABLE policies (
  digest TEXT NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  json TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- A view over events, kept so that listing need not read the journal.
CREATE TABLE sessions (
  id TEXT NOT NULL PRIMARY KEY,
  principal TEXT NOT NULL,
  uid INTEGER,
  policy_name TEXT NOT NULL,
  policy_digest TEXT NOT NULL,
  backend TEXT NOT NULL,
  durable INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('open', 'closed', 'lost')),
  lease TEXT,
  created TEXT NOT NULL,
  used TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_by_state ON sessions (state, id);
CREATE INDEX sessions_by_lease ON sessions (lease) WHERE lease IS NOT NULL;

-- A view over events, as sessions.
CREATE TABLE executions (
  id TEXT NOT NULL PRIMARY KEY,
  session TEXT NOT NULL,
  language TEXT NOT NULL,
  status TEXT NOT NULL,
  started TEXT NOT NULL,
  ended TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX executions_by_session ON executions (session, id);

-- The chains of all sessions; `n` is the order in which they were committed.
CREATE TABLE events (
  n INTEGER NOT NULL PRIMARY KEY,
  session TEXT NOT NULL,
  seq INTEGER NOT NULL,
  prev BLOB NOT NULL,
  json TEXT NOT NULL,
  hash BLOB NOT NULL,
  UNIQUE (session, seq)
) STRICT;

-- The chain of session heads.
CREATE TABLE heads (
  n INTEGER NOT NULL PRIMARY KEY,
  prev BLOB NOT NULL,
  session TEXT NOT NULL,
  seq INTEGER NOT NULL,
  record BLOB NOT NULL,
  closed INTEGER NOT NULL,
  signature BLOB NOT NULL
) STRICT;
CREATE INDEX heads_by_session ON heads (session, seq);

-- Sessions that somebody asked to stop, until they are closed.
CREATE TABLE stops (
  n INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  session TEXT NOT NULL,
  principal TEXT NOT NULL,
  at TEXT NOT NULL
) STRICT;
CREATE INDEX stops_by_session ON stops (session);
