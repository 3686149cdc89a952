//! A server of our own: whoever made it says which tools it has and answers their calls. Everything that holds for calls holds
//! for these, but nothing is started, pinned or sent for them.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use ringfence_catalog::Tool;
use ringfence_journal::CallOutcome;
use ringfence_policy::Policy;
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use crate::refusal::Refusal;

/// A call of a tool of our own.
#[derive(Debug)]
pub struct OwnCall {
    /// The tool, as it was found for this call.
    pub tool: Arc<Tool>,
    /// The arguments, which fit its schema.
    pub arguments: Map<String, Value>,
    /// Says when the program that asked is gone: the call has to end then, and is waited for.
    pub gone: oneshot::Receiver<()>,
}

/// What came of it: the result as JSON text.
pub type OwnAnswer = Result<String, (CallOutcome, Refusal)>;

type Find = dyn Fn(String, Arc<Policy>) -> BoxFuture<'static, Result<Arc<Tool>, Refusal>> + Send + Sync;
type Call = dyn Fn(OwnCall) -> BoxFuture<'static, OwnAnswer> + Send + Sync;

/// A server of our own.
#[derive(Clone)]
pub struct Own {
    name: &'static str,
    find: Arc<Find>,
    call: Arc<Call>,
}

impl Own {
    /// The server of this name; `find` looks a tool up by a program's word for it and says whether it can be
    /// called under a policy, `call` answers.
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

    /// Calls a tool; once `cancelled` is over, it is told to end, and what it did is not known.
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
                // One that is over already does not listen.
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
