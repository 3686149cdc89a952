-- A key for each session that keeps something sealed, wrapped by the key in the data folder. Without its row nothing that the
-- session sealed can be read any more, also not from pages that the database has yet to use again.
CREATE TABLE keys (
  session TEXT NOT NULL PRIMARY KEY,
  sealed BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- What executions need to be run again. `due` is when one goes on that only waits, in nanoseconds; `bytes` is what was kept of
-- one that is over.
CREATE TABLE recordings (
  execution TEXT NOT NULL PRIMARY KEY,
  session TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('running', 'waiting', 'interrupted', 'over')),
  spoiled TEXT,
  stays TEXT,
  wake INTEGER,
  due INTEGER,
  bytes INTEGER NOT NULL,
  request BLOB NOT NULL,
  outcome BLOB
) STRICT;
CREATE INDEX recordings_by_session ON recordings (session, state, bytes);
CREATE INDEX recordings_by_due ON recordings (due) WHERE due IS NOT NULL;
CREATE INDEX recordings_interrupted ON recordings (execution) WHERE state = 'interrupted';

-- What executions met from outside, in the order of commits; `total` counts the bytes until here.
CREATE TABLE entries (
  execution TEXT NOT NULL,
  n INTEGER NOT NULL,
  total INTEGER NOT NULL,
  sealed BLOB NOT NULL,
  PRIMARY KEY (execution, n)
) STRICT, WITHOUT ROWID;

-- Questions to people. A question is noted once its execution goes on with the answer, or is over.
CREATE TABLE approvals (
  id TEXT NOT NULL PRIMARY KEY,
  principal TEXT NOT NULL,
  session TEXT NOT NULL,
  execution TEXT NOT NULL,
  number INTEGER NOT NULL,
  tool TEXT NOT NULL,
  rule TEXT NOT NULL,
  why TEXT NOT NULL,
  shown BLOB NOT NULL,
  sealed BLOB NOT NULL,
  asked INTEGER NOT NULL,
  expires INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('pending', 'approved', 'denied', 'expired', 'withdrawn')),
  noted INTEGER NOT NULL,
  scope TEXT,
  by TEXT,
  via TEXT,
  note BLOB,
  answered INTEGER
) STRICT;
CREATE INDEX approvals_by_state ON approvals (state, id);
CREATE INDEX approvals_by_session ON approvals (session, id);
CREATE INDEX approvals_by_execution ON approvals (execution, id);
CREATE INDEX approvals_open ON approvals (execution) WHERE noted = 0;

-- Answers that the owners of executions have yet to hear of, in order.
CREATE TABLE answers (
  n INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  approval TEXT NOT NULL,
  execution TEXT NOT NULL,
  session TEXT NOT NULL
) STRICT;
CREATE INDEX answers_by_execution ON answers (execution);

-- The execution that called this one as a skill.
ALTER TABLE executions ADD COLUMN parent TEXT;
