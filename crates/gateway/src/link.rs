//! An upstream connection to a server of any kind.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ringfence_catalog::Listing;
use serde_json::{Map, Value};
use tokio::task::AbortHandle;

use crate::answer::CallResult;
use crate::conversation::ConversationState;
use crate::error::{CallError, ServerError};
use crate::keep::Era;
use crate::openapi::Api;
use crate::talk::Talk;

pub(crate) enum Way {
    Talk(Box<Talk>),
    Api(Box<Api>),
}

/// The connection; dropping it ends the server if it is a child process.
pub(crate) struct Link {
    way: Way,
    since: Instant,
    tasks: Mutex<Vec<AbortHandle>>,
}

impl Link {
    pub(crate) fn new(way: Way) -> Link {
        Link {
            way,
            since: Instant::now(),
            tasks: Mutex::default(),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        match &self.way {
            Way::Talk(talk) => talk.is_closed(),
            Way::Api(_) => false,
        }
    }

    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    pub(crate) fn era(&self) -> Option<Era> {
        match &self.way {
            Way::Talk(talk) => Some(talk.era),
            Way::Api(_) => None,
        }
    }

    pub(crate) fn fault(&self) -> Option<&'static str> {
        match &self.way {
            Way::Talk(talk) => talk.footing.state.fault(),
            Way::Api(_) => None,
        }
    }

    /// Returns the conversation state, for servers that can send unsolicited messages.
    pub(crate) fn state(&self) -> Option<&Arc<ConversationState>> {
        match &self.way {
            Way::Talk(talk) => Some(&talk.footing.state),
            Way::Api(_) => None,
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

    pub(crate) async fn list(&self, within: Duration) -> Result<Listing, ServerError> {
        match &self.way {
            Way::Talk(talk) => talk.list(within).await,
            Way::Api(api) => Ok(api.listing()),
        }
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Map<String, Value>) -> Result<CallResult, CallError> {
        match &self.way {
            Way::Talk(talk) => talk.call(tool, arguments).await,
            // Boxed, because otherwise every call's future would include its size.
            Way::Api(api) => Box::pin(api.call(tool, arguments)).await,
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let tasks = self.tasks.get_mut().unwrap_or_else(PoisonError::into_inner);
        for task in tasks.drain(..) {
            task.abort();
        }
    }
}
