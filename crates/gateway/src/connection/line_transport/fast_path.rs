//! A fast path for answers to tool calls. The library tries each message as every kind and copies it for that, which
//! is most of a call's cost here. This module parses plain results of calls in flight in one go, and leaves all other
//! messages to the library.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rmcp::model::{
    CallToolResult, ClientRequest, JsonRpcRequest, JsonRpcVersion2_0, NumberOrString, ServerJsonRpcMessage,
    ServerResult,
};
use serde::de::{Deserialize, Deserializer, Error};

/// Most calls in the list: calls that a server never answers must not accumulate.
const MAX_NOTED_CALLS: usize = 4096;

/// The ids of tool calls that have no answer yet.
#[derive(Debug, Default)]
pub(super) struct SentCalls(Mutex<HashSet<i64>>);

/// The result of a call; any other field makes it another message.
#[derive(serde::Deserialize)]
struct CallResultMessage {
    #[serde(rename = "jsonrpc")]
    _version: JsonRpcVersion2_0,
    id: i64,
    result: CallToolResult,
    #[serde(default, rename = "method")]
    _method: MustBeAbsent,
    #[serde(default, rename = "error")]
    _error: MustBeAbsent,
}

/// A field that must be absent.
#[derive(Default)]
struct MustBeAbsent;

impl<'de> Deserialize<'de> for MustBeAbsent {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<MustBeAbsent, D::Error> {
        Err(D::Error::custom("another kind of message"))
    }
}

impl SentCalls {
    fn numbers(&self) -> MutexGuard<'_, HashSet<i64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a call that is sent.
    pub(super) fn note_call(&self, request: &JsonRpcRequest<ClientRequest>) {
        if let (ClientRequest::CallToolRequest(_), NumberOrString::Number(number)) = (&request.request, &request.id) {
            let mut numbers = self.numbers();
            if numbers.len() >= MAX_NOTED_CALLS {
                numbers.clear();
            }
            numbers.insert(*number);
        }
    }

    /// Parses the line as the answer to a call in flight, if it is one.
    pub(super) fn parse_answer(&self, line: &[u8]) -> Option<ServerJsonRpcMessage> {
        if self.numbers().is_empty() {
            return None;
        }
        let answer: CallResultMessage = serde_json::from_slice(line).ok()?;
        self.numbers().remove(&answer.id).then(|| {
            let number = NumberOrString::Number(answer.id);
            ServerJsonRpcMessage::response(ServerResult::CallToolResult(answer.result), number)
        })
    }
}

#[cfg(test)]
mod tests;
