//! What an engine opens with, and why it does not.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use ringfence_check::CheckerTools;
use ringfence_gateway::{Credentials, RedactionError, Servers};
use ringfence_journal::Principal;
use ringfence_policy::Policy;
use ringfence_sandbox::BackendLaunchError;
use ringfence_store::LeaseError;

use crate::runs::request::ServeConfig;
use crate::sinks::AuditSinkConfig;

/// The configuration that an engine opens with.
#[derive(Clone)]
pub struct EngineConfig {
    /// The data folder, which holds the store, the vault and the workspaces.
    pub home: PathBuf,
    /// Where records go besides the journal.
    pub sinks: Vec<AuditSinkConfig>,
    /// The principal of the process; commands run as it.
    pub principal: Principal,
    /// The Python to use instead of the system's.
    pub python: Option<PathBuf>,
    /// The tool servers that calls can reach.
    pub servers: Servers,
    /// The policies of tool servers that run in sandboxes of their own.
    pub server_policies: BTreeMap<String, Policy>,
    /// The type checkers that check a program before it runs.
    pub checkers: CheckerTools,
    /// Credentials that egress inserts into requests.
    pub credentials: Credentials,
    /// Reads the variables behind `env:NAME` and `${NAME}` in a server's entry.
    pub environment: ringfence_gateway::EnvironmentLookup,
    /// What applies to requests through a front door; none: the engine takes no such requests.
    pub serve: Option<ServeConfig>,
}

impl fmt::Debug for EngineConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Settings")
            .field("home", &self.home)
            .field("principal", &self.principal)
            .finish_non_exhaustive()
    }
}

/// Why the engine did not start.
#[derive(Debug, thiserror::Error)]
pub enum EngineOpenError {
    /// The data folder cannot be opened.
    #[error(transparent)]
    Store(#[from] ringfence_store::OpenStoreError),
    /// A remote audit sink cannot be used.
    #[error("cannot use an audit sink")]
    Sink(#[from] ringfence_gateway::AuditSinkError),
    /// The lease of this process cannot be acquired.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// The sandbox backend cannot be prepared.
    #[error(transparent)]
    Backend(#[from] BackendLaunchError),
    /// What dead processes left cannot be swept.
    #[error(transparent)]
    Sweep(#[from] ringfence_store::SweepError),
    /// The redaction rules for skills cannot be loaded.
    #[error(transparent)]
    Data(#[from] RedactionError),
}
