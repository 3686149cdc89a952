-- What sinks did not take; the records themselves are in `events`.
CREATE TABLE undelivered (
  sink TEXT NOT NULL PRIMARY KEY,
  records INTEGER NOT NULL,
  since TEXT NOT NULL,
  last TEXT NOT NULL,
  reason TEXT NOT NULL
) STRICT, WITHOUT ROWID;
