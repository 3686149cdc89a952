//! The call port: how a program's calls leave a sandbox and how their replies come back. The caller's handler decides what a
//! call means.

use ringfence_wire as wire;
use tokio::sync::{mpsc, watch};

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

impl CallPort {
    /// A port and the handler's ends of it; each channel holds `room` messages.
    pub fn new(
        room: usize,
    ) -> (
        CallPort,
        mpsc::Receiver<ToolCall>,
        mpsc::Sender<ToolReply>,
        watch::Sender<Option<usize>>,
    ) {
        let (asked, calls) = mpsc::channel(room);
        let (answerer, answers) = mpsc::channel(room);
        let (holder, held) = watch::channel(None);
        (
            CallPort {
                calls: asked,
                replies: answers,
                held,
            },
            calls,
            answerer,
            holder,
        )
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
