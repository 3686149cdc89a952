-- How many bytes of events a session may write.
ALTER TABLE sessions ADD COLUMN journal_bytes INTEGER;

-- Sessions whose records were removed, and the session whose only record says so.
CREATE TABLE pruned (
  session TEXT NOT NULL PRIMARY KEY,
  record TEXT NOT NULL
) STRICT, WITHOUT ROWID;
