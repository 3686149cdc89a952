-- The policies that a session or one of its executions ran under, also earlier ones; they stay as long as the session does.
CREATE TABLE session_policies (
  session TEXT NOT NULL,
  digest TEXT NOT NULL,
  PRIMARY KEY (session, digest)
) WITHOUT ROWID;
CREATE INDEX session_policies_by_digest ON session_policies (digest);
INSERT INTO session_policies SELECT id, policy_digest FROM sessions;
