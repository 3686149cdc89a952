//! The call port: how a program's calls leave a sandbox and how their replies come back. The caller's handler decides what a
//! call means.

mod adaptive_spin;

use std::collections::BTreeMap;

use ringfence_wire as wire;
use tokio::sync::{mpsc, watch};

pub use adaptive_spin::AdaptiveSpin;

/// The two bounded channels between an execution and its caller's handler. While the channel of calls is full, nothing more
/// is read from the execution; when the handler is gone, every call is refused.
#[derive(Debug)]
pub struct CallPort {
    /// Calls to the handler; each number occurs once.
    pub calls: mpsc::Sender<ToolCall>,
    /// Replies from the handler, in any order. A reply to a number that has no open call is dropped.
    pub replies: mpsc::Receiver<ToolReply>,
    /// `Some(n)`: all `n` unanswered calls wait for a person, so an execution that waits for nothing else is released. Every
    /// change makes the host check again.
    pub held: watch::Receiver<Option<usize>>,
}

/// The handler's ends of a call port.
#[derive(Debug)]
pub struct CallHandler {
    /// The calls, in the order in which the program made them.
    pub calls: OrderedCalls,
    /// Where the replies go, in any order.
    pub replies: mpsc::Sender<ToolReply>,
    /// Set to `Some(n)` when all `n` unanswered calls wait for a person.
    pub held: watch::Sender<Option<usize>>,
}

impl CallPort {
    /// A port and its handler's ends; each channel holds `room` messages.
    pub fn new(room: usize) -> (CallPort, CallHandler) {
        let (sender, calls) = mpsc::channel(room);
        let (replies, answered) = mpsc::channel(room);
        let (holder, held) = watch::channel(None);
        let port = CallPort {
            calls: sender,
            replies: answered,
            held,
        };
        let handler = CallHandler {
            calls: OrderedCalls::new(calls),
            replies,
            held: holder,
        };
        (port, handler)
    }
}

/// Receives calls in the order of their numbers: a large call can arrive after later ones.
#[derive(Debug)]
pub struct OrderedCalls {
    arrived: mpsc::Receiver<ToolCall>,
    last: u32,
    early: BTreeMap<u32, ToolCall>,
}

impl OrderedCalls {
    fn new(arrived: mpsc::Receiver<ToolCall>) -> OrderedCalls {
        OrderedCalls {
            arrived,
            last: 0,
            early: BTreeMap::new(),
        }
    }

    /// The next call; none once the program makes no more. Nothing is lost if the future is dropped.
    pub async fn recv(&mut self) -> Option<ToolCall> {
        loop {
            if let Some(next) = self.early.remove(&(self.last + 1)) {
                self.last += 1;
                return Some(next);
            }
            let call = self.arrived.recv().await?;
            self.early.insert(call.number, call);
        }
    }
}

/// A call that a program makes. Every part of it comes from the sandbox and is untrusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The call's number, counted from 1 in each execution.
    pub number: u32,
    /// What the call asks for.
    pub ask: ToolCallKind,
    /// The arguments: text that should be JSON, at most 16 MiB.
    pub body: String,
    /// What the execution recorded since its previous call, for a later replay. A replayed trace is not repeated here: that
    /// trace and these pieces, in the order of their calls, are the whole trace.
    pub trace: Vec<u8>,
}

/// The kinds of call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolCallKind {
    /// One tool of one server, by the names that the program used.
    Tool {
        /// The name of the server.
        server: String,
        /// The name of the tool.
        tool: String,
    },
    /// A search for tools that serve an intent.
    Search,
    /// A request for the descriptions of tools.
    Describe,
    /// A request for the list of tools.
    List,
    /// A request to the network.
    Fetch,
}

/// The handler's reply to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolReply {
    /// The number of the call that this replies to.
    pub number: u32,
    /// The result as JSON text of at most 16 MiB, or the refusal.
    pub answer: Result<String, ToolRefusal>,
}

/// Why a call has no result. Texts that are too long are cut when they are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolRefusal {
    /// A stable, machine-readable name such as `policy.ceiling`.
    pub code: String,
    /// A sentence that explains the refusal.
    pub message: String,
    /// The key of the policy that refused the call.
    pub rule: Option<String>,
    /// What the caller can do about it.
    pub hint: Option<String>,
    /// Milliseconds from now after which a retry makes sense.
    pub retry_after_ms: Option<u32>,
}

impl From<wire::CallTarget> for ToolCallKind {
    fn from(ask: wire::CallTarget) -> ToolCallKind {
        match ask {
            wire::CallTarget::Tool { server, tool } => ToolCallKind::Tool {
                server: server.into_string(),
                tool: tool.into_string(),
            },
            wire::CallTarget::Search => ToolCallKind::Search,
            wire::CallTarget::Describe => ToolCallKind::Describe,
            wire::CallTarget::List => ToolCallKind::List,
            wire::CallTarget::Fetch => ToolCallKind::Fetch,
        }
    }
}

impl From<ToolRefusal> for wire::CallFailure {
    fn from(refusal: ToolRefusal) -> wire::CallFailure {
        wire::CallFailure {
            code: wire::BoundedText::truncated(&refusal.code),
            message: wire::BoundedText::truncated(&refusal.message),
            rule: refusal.rule.as_deref().map(wire::BoundedText::truncated),
            hint: refusal.hint.as_deref().map(wire::BoundedText::truncated),
            retry_after_ms: refusal.retry_after_ms,
        }
    }
}
