-- What stands for personal data in a session, in the order in which it was given, sealed with the session's key. It is gone when
-- the session is over.
CREATE TABLE aliases (
  session TEXT NOT NULL,
  n INTEGER NOT NULL,
  sealed BLOB NOT NULL,
  PRIMARY KEY (session, n)
) STRICT, WITHOUT ROWID;
