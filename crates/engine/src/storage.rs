//! Stored records, re-exported for the front doors: sessions, executions, the growing journal, access tokens.

pub use ringfence_store::{
    AccessScope, AccessToken, ExecutionQuery, JournalTail, NumberedRecord, QueryError, Session, SessionQuery,
    StopOwner, StopTarget, StoredExecution, StoredWorkspace,
};
