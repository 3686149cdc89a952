//! What connections need from the program that embeds this crate.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::credential::EnvironmentLookup;
use crate::elicitation::ElicitationHandler;
use crate::spawner::Spawner;

/// What upstream servers need from the program.
#[derive(Clone)]
pub struct UpstreamOptions {
    /// Resolves `env:NAME` and `${NAME}`, and provides `PATH`.
    pub environment: EnvironmentLookup,
    /// Starts servers whose entry names a policy; without it these cannot be used.
    pub spawner: Option<Arc<dyn Spawner>>,
    /// Answers elicitation requests of servers; without it servers cannot make any.
    pub elicitation: Option<ElicitationHandler>,
    /// How long a program has to start and open the protocol: some download themselves first.
    pub start_timeout: Duration,
    /// How long a remote server has to open the protocol.
    pub connect_timeout: Duration,
    /// How long a server has to list its tools.
    pub list_timeout: Duration,
}

impl UpstreamOptions {
    /// Creates options with the default timeouts: two minutes to start a program, 30 s each to connect and to list.
    pub fn new(environment: EnvironmentLookup) -> UpstreamOptions {
        UpstreamOptions {
            environment,
            spawner: None,
            elicitation: None,
            start_timeout: Duration::from_mins(2),
            connect_timeout: Duration::from_secs(30),
            list_timeout: Duration::from_secs(30),
        }
    }
}

impl fmt::Debug for UpstreamOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("start", &self.start_timeout)
            .field("connect", &self.connect_timeout)
            .field("list", &self.list_timeout)
            .finish_non_exhaustive()
    }
}
