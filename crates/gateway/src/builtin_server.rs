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

use crate::refusal::RequestRefusal;

/// A call of a built-in tool.
#[derive(Debug)]
pub struct BuiltinCall {
    /// The tool, as it was found for this call.
    pub tool: Arc<Tool>,
    /// The arguments, which match its schema.
    pub arguments: Map<String, Value>,
    /// Resolves when the program that made the call is gone: the handler must then end, and the gateway waits for it.
    pub cancelled: oneshot::Receiver<()>,
}

/// The result of a call as JSON text, or its outcome and refusal.
pub type BuiltinAnswer = Result<String, (CallOutcome, RequestRefusal)>;

type FindToolFn = dyn Fn(String, Arc<Policy>) -> BoxFuture<'static, Result<Arc<Tool>, RequestRefusal>> + Send + Sync;
type CallToolFn = dyn Fn(BuiltinCall) -> BoxFuture<'static, BuiltinAnswer> + Send + Sync;

/// A server whose tools run in this process.
#[derive(Clone)]
pub struct BuiltinServer {
    name: &'static str,
    find: Arc<FindToolFn>,
    call: Arc<CallToolFn>,
}

impl BuiltinServer {
    /// Creates a built-in server of this name; `find` looks a tool up by the program's name for it and checks that
    /// the policy allows it, `call` handles calls.
    pub fn new(
        name: &'static str,
        find: impl Fn(String, Arc<Policy>) -> BoxFuture<'static, Result<Arc<Tool>, RequestRefusal>> + Send + Sync + 'static,
        call: impl Fn(BuiltinCall) -> BoxFuture<'static, BuiltinAnswer> + Send + Sync + 'static,
    ) -> BuiltinServer {
        BuiltinServer {
            name,
            find: Arc::new(find),
            call: Arc::new(call),
        }
    }

    pub(crate) fn has_name(&self, server: &str) -> bool {
        self.name == server
    }

    pub(crate) async fn find_tool(&self, tool: &str, policy: &Arc<Policy>) -> Result<Arc<Tool>, RequestRefusal> {
        (self.find)(tool.to_owned(), Arc::clone(policy)).await
    }

    /// Calls a tool. Once `cancelled` resolves, the handler is told to end, and the effect of the call is unknown.
    pub(crate) async fn call(
        &self,
        tool: Arc<Tool>,
        arguments: Map<String, Value>,
        cancelled: impl Future<Output = ()>,
    ) -> BuiltinAnswer {
        let (leave, gone) = oneshot::channel();
        let name = tool.name.clone();
        let mut call = (self.call)(BuiltinCall {
            tool,
            arguments,
            cancelled: gone,
        });
        tokio::select! {
            answered = &mut call => answered,
            () = cancelled => {
                // A handler that has ended does not listen.
                let _ = leave.send(());
                match call.await {
                    Err(ended) => Err(ended),
                    Ok(_) => Err((CallOutcome::Unknown, RequestRefusal::caller_gone(name.as_str()))),
                }
            }
        }
    }
}

impl fmt::Debug for BuiltinServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Own").field("name", &self.name).finish_non_exhaustive()
    }
}
