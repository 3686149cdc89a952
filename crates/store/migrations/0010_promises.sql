-- Runs that were promised to clients and have not started: what was answered with an id is found again, whatever becomes of its
-- process. `status` says how one ended that never started.
CREATE TABLE promises (
  execution TEXT NOT NULL PRIMARY KEY,
  principal TEXT NOT NULL,
  lease TEXT NOT NULL,
  status TEXT,
  -- Milliseconds since 1970.
  created INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX promises_by_age ON promises (created);
