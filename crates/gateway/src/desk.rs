//! Where calls wait for a person. Whoever sits there writes the question down, shows it, and says what came of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use ringfence_journal::{ApprovalId, ApprovalScope, AskReason, Entry, Hash, RecordError};
use ringfence_policy::{Hints, StandingRules};

/// A call that needs a person's yes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Petition {
    /// What the question is called, if it is asked now.
    pub id: ApprovalId,
    /// The question that was asked for this call before its execution was run again. Where it shows the same, it is taken up, open
    /// or answered; else it is withdrawn and this one asked.
    pub known: Option<ApprovalId>,
    /// The call.
    pub number: u32,
    /// The server, by its configured name.
    pub server: String,
    /// The tool's full name.
    pub tool: String,
    /// The arguments as JSON text, as they would be sent.
    pub arguments: String,
    /// The same with stand-ins for personal data and secrets, where there are any: for who may not see it.
    pub masked: Option<String>,
    /// The rule that wants a person.
    pub rule: String,
    /// Digest of the policy that has the rule.
    pub policy: String,
    /// What the server says of the tool.
    pub hints: Hints,
    /// What a yes for the whole session is given to.
    pub grantee: String,
    /// Why.
    pub why: AskReason,
    /// How long it may be waited for an answer, where the policy says so.
    pub timeout: Option<Duration>,
    /// All that the person is shown and the answer is bound to.
    pub shown: Hash,
    /// To be kept in the commit of the question's event.
    pub entries: Vec<Entry>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ruling {
    /// Yes.
    Approved {
        /// For how long it holds.
        scope: ApprovalScope,
    },
    /// No.
    Denied {
        /// What the person said to it, which the program is told.
        note: Option<String>,
    },
    /// Nobody answered in time, which means no.
    Expired,
    /// The question was taken back.
    Withdrawn,
}

type Ask = dyn Fn(Petition) -> BoxFuture<'static, Result<Ruling, RecordError>> + Send + Sync;
type Standing = dyn Fn() -> StandingRules + Send + Sync;
type Withdraw = dyn Fn(ApprovalId) -> BoxFuture<'static, Result<(), RecordError>> + Send + Sync;

/// Whoever asks people.
#[derive(Clone)]
pub struct Desk {
    people: Option<(Arc<Ask>, Arc<Withdraw>)>,
    standing: Option<Arc<Standing>>,
}

impl Desk {
    /// `ask` puts a petition to people; when its future is dropped, whoever made the call is gone. `withdraw` takes back a question
    /// of a call that is settled without it.
    pub fn new(
        ask: impl Fn(Petition) -> BoxFuture<'static, Result<Ruling, RecordError>> + Send + Sync + 'static,
        withdraw: impl Fn(ApprovalId) -> BoxFuture<'static, Result<(), RecordError>> + Send + Sync + 'static,
    ) -> Desk {
        Desk {
            people: Some((Arc::new(ask), Arc::new(withdraw))),
            standing: None,
        }
    }

    /// The same, where some questions were answered for good: looked up before a person is asked.
    #[must_use]
    pub fn with_standing(self, standing: impl Fn() -> StandingRules + Send + Sync + 'static) -> Desk {
        Desk {
            standing: Some(Arc::new(standing)),
            ..self
        }
    }

    /// Nobody can be asked: what needs a person is refused.
    pub fn closed() -> Desk {
        Desk {
            people: None,
            standing: None,
        }
    }

    pub(crate) fn standing(&self) -> StandingRules {
        self.standing.as_ref().map(|standing| standing()).unwrap_or_default()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.people.is_none()
    }

    pub(crate) async fn ask(&self, petition: Petition) -> Result<Ruling, RecordError> {
        match &self.people {
            Some((ask, _)) => ask(petition).await,
            None => Ok(Ruling::Withdrawn),
        }
    }

    pub(crate) async fn withdraw(&self, id: ApprovalId) -> Result<(), RecordError> {
        match &self.people {
            Some((_, withdraw)) => withdraw(id).await,
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_closed() { "Desk(closed)" } else { "Desk" })
    }
}
