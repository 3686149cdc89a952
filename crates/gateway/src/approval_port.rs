//! Approvals: where calls wait for a person. The approval port stores each approval request, shows it to people, and
//! returns the outcome.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use ringfence_journal::{ApprovalId, ApprovalScope, AskReason, ContentHash, RecordError, ReplayEntry};
use ringfence_policy::{StandingRules, ToolHints};

/// A request for a person's approval of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRequest {
    /// The id of the request, if it is stored as a new one.
    pub id: ApprovalId,
    /// The request that an earlier run of the execution made for this call. If it shows the same digest it is reused,
    /// open or answered; otherwise it is withdrawn and this one replaces it.
    pub previous: Option<ApprovalId>,
    /// The program's number of the call.
    pub number: u32,
    /// Configured name of the server.
    pub server: String,
    /// The full name of the tool.
    pub tool: String,
    /// The arguments as JSON text, as they would be sent.
    pub arguments: String,
    /// The arguments with placeholders for personal data and secrets, for viewers who may not see these. `None` if
    /// there is nothing to hide.
    pub masked: Option<String>,
    /// The rule that requires approval.
    pub rule: String,
    /// Digest of the policy that contains the rule.
    pub policy: String,
    /// The hints that the server gives about the tool.
    pub hints: ToolHints,
    /// What an approval for the whole session applies to.
    pub grantee: String,
    /// Why the call needs approval.
    pub reason: AskReason,
    /// How long to wait for an answer; `None` if the policy sets no limit.
    pub timeout: Option<Duration>,
    /// Digest of all that the person sees; the answer is bound to it.
    pub shown_digest: ContentHash,
    /// Call log entries to store in the same commit as the request's event.
    pub entries: Vec<ReplayEntry>,
}

/// The outcome of an approval request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalOutcome {
    /// A person approved the call.
    Approved {
        /// For how long the approval holds.
        scope: ApprovalScope,
    },
    /// A person denied the call.
    Denied {
        /// The person's comment, which the program gets.
        note: Option<String>,
    },
    /// Nobody answered in time, which counts as a denial.
    Expired,
    /// The request was withdrawn before anyone answered.
    Withdrawn,
}

type RequestApprovalFn =
    dyn Fn(ApprovalRequest) -> BoxFuture<'static, Result<ApprovalOutcome, RecordError>> + Send + Sync;
type StandingRulesFn = dyn Fn() -> StandingRules + Send + Sync;
type WithdrawApprovalFn = dyn Fn(ApprovalId) -> BoxFuture<'static, Result<(), RecordError>> + Send + Sync;

/// Asks people to approve calls.
#[derive(Clone)]
pub struct ApprovalPort {
    handlers: Option<(Arc<RequestApprovalFn>, Arc<WithdrawApprovalFn>)>,
    standing: Option<Arc<StandingRulesFn>>,
}

impl ApprovalPort {
    /// Creates a port. `ask` submits an approval request; the port drops its future when the caller is gone.
    /// `withdraw` withdraws the request of a call that is settled without it.
    pub fn new(
        ask: impl Fn(ApprovalRequest) -> BoxFuture<'static, Result<ApprovalOutcome, RecordError>> + Send + Sync + 'static,
        withdraw: impl Fn(ApprovalId) -> BoxFuture<'static, Result<(), RecordError>> + Send + Sync + 'static,
    ) -> ApprovalPort {
        ApprovalPort {
            handlers: Some((Arc::new(ask), Arc::new(withdraw))),
            standing: None,
        }
    }

    /// Adds a source of standing rules, which are checked before a person is asked.
    #[must_use]
    pub fn with_standing_rules(self, standing: impl Fn() -> StandingRules + Send + Sync + 'static) -> ApprovalPort {
        ApprovalPort {
            standing: Some(Arc::new(standing)),
            ..self
        }
    }

    /// Creates a port that nobody answers: calls that need approval are refused.
    pub fn closed() -> ApprovalPort {
        ApprovalPort {
            handlers: None,
            standing: None,
        }
    }

    pub(crate) fn standing_rules(&self) -> StandingRules {
        self.standing.as_ref().map(|standing| standing()).unwrap_or_default()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.handlers.is_none()
    }

    pub(crate) async fn request_approval(&self, petition: ApprovalRequest) -> Result<ApprovalOutcome, RecordError> {
        match &self.handlers {
            Some((ask, _)) => ask(petition).await,
            None => Ok(ApprovalOutcome::Withdrawn),
        }
    }

    pub(crate) async fn withdraw(&self, id: ApprovalId) -> Result<(), RecordError> {
        match &self.handlers {
            Some((_, withdraw)) => withdraw(id).await,
            None => Ok(()),
        }
    }
}

impl fmt::Debug for ApprovalPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_closed() { "Desk(closed)" } else { "Desk" })
    }
}
