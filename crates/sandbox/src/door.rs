//! How a program's calls leave a sandbox and how their answers come back. What a call means is for whoever stands behind the
//! door.

use ringfence_wire as wire;
use tokio::sync::{mpsc, watch};

/// The two bounded ways between an execution and whoever answers its calls. When the door is full the execution is not read
/// further; a door whose far side is gone answers every call with a refusal.
#[derive(Debug)]
pub struct Door {
    /// Calls, each number once.
    pub asked: mpsc::Sender<Asked>,
    /// Answers, in any order. One for a number that is not unanswered is dropped.
    pub answers: mpsc::Receiver<Answered>,
    /// `Some(n)`: the `n` calls that are unanswered all wait for a person, so an execution that only waits for them is to be
    /// released. It is looked at again whenever this changes.
    pub held: watch::Receiver<Option<usize>>,
}

impl Door {
    /// A door and the ends of whoever stands behind it; `room` calls and answers may wait on each way.
    pub fn new(
        room: usize,
    ) -> (
        Door,
        mpsc::Receiver<Asked>,
        mpsc::Sender<Answered>,
        watch::Sender<Option<usize>>,
    ) {
        let (asked, calls) = mpsc::channel(room);
        let (answerer, answers) = mpsc::channel(room);
        let (holder, held) = watch::channel(None);
        (Door { asked, answers, held }, calls, answerer, holder)
    }
}

/// A call of the program; a claim in every part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Counted up from 1 in each execution.
    pub number: u32,
    /// What for.
    pub ask: Ask,
    /// The arguments: text that should be JSON, of at most 16 MiB.
    pub body: String,
    /// What the execution recorded since the call before, so that it can be run again. What it was given to run again is not
    /// repeated: that and these, in the order of their calls, are the whole trace.
    pub trace: Vec<u8>,
}

/// What a call is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// One tool of one server, by the names the program used.
    Tool {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
    },
    /// Which tools serve an intent.
    Search,
    /// What tools are like.
    Describe,
    /// Which tools there are.
    List,
    /// A request to the network.
    Fetch,
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The number of the call.
    pub number: u32,
    /// The result as JSON text, of at most 16 MiB, or why there is none.
    pub answer: Result<String, Refusal>,
}

/// Why a call has no result. What is too long is cut on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// A stable name.
    pub code: String,
    /// A sentence.
    pub message: String,
    /// The rule that refused it.
    pub rule: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// When it is worth trying again, from now on.
    pub retry_after_ms: Option<u32>,
}

impl From<wire::Ask> for Ask {
    fn from(ask: wire::Ask) -> Ask {
        match ask {
            wire::Ask::Tool { server, tool } => Ask::Tool {
                server: server.into_string(),
                tool: tool.into_string(),
            },
            wire::Ask::Search => Ask::Search,
            wire::Ask::Describe => Ask::Describe,
            wire::Ask::List => Ask::List,
            wire::Ask::Fetch => Ask::Fetch,
        }
    }
}

impl From<Refusal> for wire::Refusal {
    fn from(refusal: Refusal) -> wire::Refusal {
        wire::Refusal {
            code: wire::Text::cut(&refusal.code),
            message: wire::Text::cut(&refusal.message),
            rule: refusal.rule.as_deref().map(wire::Text::cut),
            hint: refusal.hint.as_deref().map(wire::Text::cut),
            retry_after_ms: refusal.retry_after_ms,
        }
    }
}
