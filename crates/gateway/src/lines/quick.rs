//! Answers to tool calls, read in one go. The library tries every message as each kind there is, and copies it for that: most of
//! what a call costs here. Whatever is not plainly the result of a call that is under way is left to the library.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rmcp::model::{
    CallToolResult, ClientRequest, JsonRpcRequest, JsonRpcVersion2_0, NumberOrString, ServerJsonRpcMessage,
    ServerResult,
};
use serde::de::{Deserialize, Deserializer, Error};

/// Calls that are noted: those that a server never answers must not add up.
const MOST: usize = 4096;

/// The numbers of tool calls that have no answer yet.
#[derive(Debug, Default)]
pub(super) struct Calls(Mutex<HashSet<i64>>);

/// The result of a call; anything that makes it another message is none.
#[derive(serde::Deserialize)]
struct Answer {
    #[serde(rename = "jsonrpc")]
    _version: JsonRpcVersion2_0,
    id: i64,
    result: CallToolResult,
    #[serde(default, rename = "method")]
    _method: Absent,
    #[serde(default, rename = "error")]
    _error: Absent,
}

/// A field that must not be there.
#[derive(Default)]
struct Absent;

impl<'de> Deserialize<'de> for Absent {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Absent, D::Error> {
        Err(D::Error::custom("another kind of message"))
    }
}

impl Calls {
    fn numbers(&self) -> MutexGuard<'_, HashSet<i64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a call that is sent.
    pub(super) fn note(&self, request: &JsonRpcRequest<ClientRequest>) {
        if let (ClientRequest::CallToolRequest(_), NumberOrString::Number(number)) = (&request.request, &request.id) {
            let mut numbers = self.numbers();
            if numbers.len() >= MOST {
                numbers.clear();
            }
            numbers.insert(*number);
        }
    }

    /// The line as the answer to a call that is under way, if it is one.
    pub(super) fn answer(&self, line: &[u8]) -> Option<ServerJsonRpcMessage> {
        if self.numbers().is_empty() {
            return None;
        }
        let answer: Answer = serde_json::from_slice(line).ok()?;
        self.numbers().remove(&answer.id).then(|| {
            let number = NumberOrString::Number(answer.id);
            ServerJsonRpcMessage::response(ServerResult::CallToolResult(answer.result), number)
        })
    }
}

#[cfg(test)]
mod tests;
