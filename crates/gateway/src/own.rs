//! A built-in server: its creator says which tools it has and handles their calls. All checks of calls apply to it,
//! but nothing is started, pinned or sent for it.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use ringfence_catalog::Tool;
use ringfence_journal::CallOutcome;
use ringfence_policy::Policy;
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use crate::refusal::Refusal;

/// A call of a built-in tool.
#[derive(Debug)]
pub struct OwnCall {
    /// The tool, as it was found for this call.
    pub tool: Arc<Tool>,
    /// The arguments, which match its schema.
    pub arguments: Map<String, Value>,
    /// Resolves when the program that made the call is gone: the handler must then end, and the gateway waits for it.
    pub gone: oneshot::Receiver<()>,
}

/// The result of a call as JSON text, or its outcome and refusal.
pub type OwnAnswer = Result<String, (CallOutcome, Refusal)>;

type Find = dyn Fn(String, Arc<Policy>) -> BoxFuture<'static, Result<Arc<Tool>, Refusal>> + Send + Sync;
type Call = dyn Fn(OwnCall) -> BoxFuture<'static, OwnAnswer> + Send + Sync;

/// A server whose tools run in this process.
#[derive(Clone)]
pub struct Own {
    name: &'static str,
    find: Arc<Find>,
    call: Arc<Call>,
}

impl Own {
    /// Creates a built-in server of this name; `find` looks a tool up by the program's name for it and checks that
    /// the policy allows it, `call` handles calls.
    pub fn new(
        name: &'static str,
        find: impl Fn(String, Arc<Policy>) -> BoxFuture<'static, Result<Arc<Tool>, Refusal>> + Send + Sync + 'static,
        call: impl Fn(OwnCall) -> BoxFuture<'static, OwnAnswer> + Send + Sync + 'static,
    ) -> Own {
        Own {
            name,
            find: Arc::new(find),
            call: Arc::new(call),
        }
    }

    pub(crate) fn is_called(&self, server: &str) -> bool {
        self.name == server
    }

    pub(crate) async fn find(&self, tool: &str, policy: &Arc<Policy>) -> Result<Arc<Tool>, Refusal> {
        (self.find)(tool.to_owned(), Arc::clone(policy)).await
    }

    /// Calls a tool. Once `cancelled` resolves, the handler is told to end, and the effect of the call is unknown.
    pub(crate) async fn call(
        &self,
        tool: Arc<Tool>,
        arguments: Map<String, Value>,
        cancelled: impl Future<Output = ()>,
    ) -> OwnAnswer {
        let (leave, gone) = oneshot::channel();
        let name = tool.name.clone();
        let mut call = (self.call)(OwnCall { tool, arguments, gone });
        tokio::select! {
            answered = &mut call => answered,
            () = cancelled => {
                // A handler that has ended does not listen.
                let _ = leave.send(());
                match call.await {
                    Err(ended) => Err(ended),
                    Ok(_) => Err((CallOutcome::Unknown, Refusal::left(name.as_str()))),
                }
            }
        }
    }
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Own").field("name", &self.name).finish_non_exhaustive()
    }
}
