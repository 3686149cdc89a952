//! Stored records, re-exported for the front doors: sessions, executions, the growing journal, access tokens.

pub use ringfence_store::{
    AccessToken, Execution, Executions, Numbered, Owner, ReadError, Scope, Session, Sessions, Tail, Target, Workspace,
};
