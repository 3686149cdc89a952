//! What is kept, for whoever shows it: sessions, executions, the journal as it grows, access tokens.

pub use ringfence_store::{
    AccessToken, Execution, Executions, Numbered, Owner, ReadError, Scope, Session, Sessions, Tail, Target, Workspace,
};
