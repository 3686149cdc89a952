//! An upstream connection to a server of any kind: how it is opened, and what is said over it.
//!
//! This layer knows no other server and no catalog; [`crate::upstreams`] decides when a server is connected.

mod client_handler;
mod connect;
pub(crate) mod conversation;
pub(crate) mod line_transport;
mod mcp_client;
pub(crate) mod openapi;
mod options;
pub(crate) mod process;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ringfence_catalog::ServerListing;
use serde_json::{Map, Value};
use tokio::task::AbortHandle;

use self::conversation::ConversationState;
use self::mcp_client::McpClient;
use self::openapi::OpenApiClient;
use crate::call_result::CallResult;
use crate::error::{ServerError, UpstreamCallError};
use crate::server_cache::ProtocolEra;

pub(crate) use self::connect::{ConnectContext, connect};
pub use self::options::UpstreamOptions;

/// What is spoken over the connection.
enum UpstreamProtocol {
    Mcp(Box<McpClient>),
    OpenApi(Box<OpenApiClient>),
}

/// The connection; dropping it ends the server if it is a child process.
pub(crate) struct UpstreamConnection {
    protocol: UpstreamProtocol,
    since: Instant,
    tasks: Mutex<Vec<AbortHandle>>,
}

impl UpstreamConnection {
    fn new(protocol: UpstreamProtocol) -> UpstreamConnection {
        UpstreamConnection {
            protocol,
            since: Instant::now(),
            tasks: Mutex::default(),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        match &self.protocol {
            UpstreamProtocol::Mcp(talk) => talk.is_closed(),
            UpstreamProtocol::OpenApi(_) => false,
        }
    }

    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    pub(crate) fn era(&self) -> Option<ProtocolEra> {
        match &self.protocol {
            UpstreamProtocol::Mcp(talk) => Some(talk.era),
            UpstreamProtocol::OpenApi(_) => None,
        }
    }

    pub(crate) fn fault(&self) -> Option<&'static str> {
        match &self.protocol {
            UpstreamProtocol::Mcp(talk) => talk.resources.state.fault(),
            UpstreamProtocol::OpenApi(_) => None,
        }
    }

    /// Returns the conversation state, for servers that can send unsolicited messages.
    pub(crate) fn state(&self) -> Option<&Arc<ConversationState>> {
        match &self.protocol {
            UpstreamProtocol::Mcp(talk) => Some(&talk.resources.state),
            UpstreamProtocol::OpenApi(_) => None,
        }
    }

    /// Whether the server announced a change of its tools since they were last listed.
    pub(crate) fn is_stale(&self) -> bool {
        self.state().is_some_and(|state| state.is_stale())
    }

    /// Adds a task that ends with the connection.
    pub(crate) fn attach(&self, task: AbortHandle) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(task);
    }

    pub(crate) async fn list(&self, within: Duration) -> Result<ServerListing, ServerError> {
        match &self.protocol {
            UpstreamProtocol::Mcp(talk) => talk.list(within).await,
            UpstreamProtocol::OpenApi(api) => Ok(api.listing()),
        }
    }

    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<CallResult, UpstreamCallError> {
        match &self.protocol {
            UpstreamProtocol::Mcp(talk) => talk.call(tool, arguments).await,
            // Boxed, because otherwise every call's future would include its size.
            UpstreamProtocol::OpenApi(api) => Box::pin(api.call(tool, arguments)).await,
        }
    }
}

impl Drop for UpstreamConnection {
    fn drop(&mut self) {
        let tasks = self.tasks.get_mut().unwrap_or_else(PoisonError::into_inner);
        for task in tasks.drain(..) {
            task.abort();
        }
    }
}
