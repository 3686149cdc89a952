//! A program's calls to the outside, and their answers. A short body travels in its message; a longer one follows on a
//! stream of its own, in the order of the messages that announce it.

use serde::{Deserialize, Serialize};

use crate::bounded::{Bytes, Text};
use crate::codec::Unfit;
use crate::frame::MAX_PAYLOAD;
use crate::trace::TRACE_INLINE;

/// The most bytes of a body.
pub const BODY_CAP: usize = 16 * 1024 * 1024;

/// The most bytes of a body that travels in its message.
pub const INLINE_MAX: usize = 32 * 1024;

/// The most calls that may be unanswered.
pub const CALLS_MAX: usize = 4096;

const SERVER: usize = 256;
const TOOL: usize = 1024;
const CODE: usize = 64;
const MESSAGE: usize = 8 * 1024;
const RULE: usize = 1024;
const HINT: usize = 2048;

// What is within its own bounds must always fit a frame.
const _: () = {
    const fn text(bytes: usize) -> usize {
        3 + bytes
    }
    const CALL: usize = 1 + 5 + 1 + text(SERVER) + text(TOOL) + 1 + text(INLINE_MAX) + text(TRACE_INLINE);
    const RETURN: usize = 1 + 5 + 1 + text(CODE) + text(MESSAGE) + 1 + text(RULE) + 1 + text(HINT) + 1 + 5;
    assert!(
        CALL <= MAX_PAYLOAD && RETURN <= MAX_PAYLOAD,
        "a call could be too large to send"
    );
};

/// What a program asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Counted up from 1, so that a number is never used twice.
    pub number: u32,
    /// What for.
    pub ask: Ask,
    /// The arguments as JSON text.
    pub body: Body,
    /// The end of the trace since the call before; what does not fit went ahead as
    /// [`FromChild::Trace`](crate::FromChild::Trace).
    pub trace: Bytes<TRACE_INLINE>,
}

/// What a call is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// One tool of one server.
    Tool {
        /// The server's name.
        server: Text<SERVER>,
        /// The tool's name.
        tool: Text<TOOL>,
    },
    /// Which tools serve an intent.
    Search,
    /// What tools are like.
    Describe,
    /// Which tools there are.
    List,
    /// A request to the network, and its whole answer.
    Fetch,
}

/// Where a body is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    /// Here.
    Inline(Text<INLINE_MAX>),
    /// On the stream, when those announced before it are complete.
    Streamed {
        /// Its length: more than would fit the message.
        bytes: u32,
    },
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Return {
    /// The call's number.
    pub number: u32,
    /// The result as JSON text, or why there is none.
    pub answer: Answer,
}

/// The result of a call, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The result as JSON text.
    Result(Body),
    /// There is none.
    Refused(Refusal),
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// A stable name.
    pub code: Text<CODE>,
    /// A sentence.
    pub message: Text<MESSAGE>,
    /// The rule that refused it.
    pub rule: Option<Text<RULE>>,
    /// What to do about it.
    pub hint: Option<Text<HINT>>,
    /// When it is worth trying again, from now on.
    pub retry_after_ms: Option<u32>,
}

impl Return {
    pub(crate) fn check(&self) -> Result<(), Unfit> {
        match &self.answer {
            Answer::Result(body) => body.check(),
            Answer::Refused(_) => Ok(()),
        }
    }
}

impl Body {
    /// The body of a message, and what must follow it on the stream.
    pub fn of(text: String) -> Result<(Body, Vec<u8>), Unfit> {
        if text.len() > BODY_CAP {
            return Err(Unfit::Body { bytes: text.len() });
        }
        if text.len() <= INLINE_MAX {
            let text = Text::new(text).map_err(|long| Unfit::Body { bytes: long.length })?;
            return Ok((Body::Inline(text), Vec::new()));
        }
        let bytes = u32::try_from(text.len()).unwrap_or(u32::MAX);
        Ok((Body::Streamed { bytes }, text.into_bytes()))
    }

    pub(crate) fn check(&self) -> Result<(), Unfit> {
        match *self {
            Body::Inline(_) => Ok(()),
            Body::Streamed { bytes } => {
                let bytes = bytes as usize;
                if bytes > INLINE_MAX && bytes <= BODY_CAP {
                    Ok(())
                } else {
                    Err(Unfit::Body { bytes })
                }
            }
        }
    }
}
