//! What a line is: a message, or why it is none and what to answer.

use rmcp::RoleServer;
use rmcp::model::{ErrorCode, ErrorData, NumberOrString, RequestId};
use rmcp::service::RxJsonRpcMessage;
use serde_json::Value;

use crate::weight::{MOST_VALUES, is_too_heavy};

/// What a line turned out to be.
#[derive(Debug)]
pub(super) enum Heard {
    /// A message.
    Message(Box<RxJsonRpcMessage<RoleServer>>),
    /// Nothing that wants an answer.
    Nothing,
    /// No message, and what to say to that.
    Wrong(ErrorData, Option<RequestId>),
}

/// Reads one line.
pub(super) fn read(line: &[u8]) -> Heard {
    let line = line.trim_ascii();
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
    if line.is_empty() {
        return Heard::Nothing;
    }
    if is_too_heavy(line) {
        let message = format!("a message of more than {MOST_VALUES} values is not read");
        return Heard::Wrong(ErrorData::invalid_request(message, None), edges_id(line, line));
    }
    match serde_json::from_slice(line) {
        Ok(message) => Heard::Message(Box::new(message)),
        Err(_) => explain(line),
    }
}

/// The answer to a line that was too long to read.
pub(super) fn too_long(head: &[u8], tail: &[u8], longest: usize) -> (ErrorData, Option<RequestId>) {
    let message = format!("a message of more than {longest} bytes is not read; send large files in parts");
    (ErrorData::invalid_request(message, None), edges_id(head, tail))
}

/// Why a line is no message.
fn explain(line: &[u8]) -> Heard {
    let value: Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(error) => {
            let error = ErrorData::new(ErrorCode::PARSE_ERROR, format!("not JSON: {error}"), None);
            return Heard::Wrong(error, None);
        }
    };
    let Value::Object(fields) = &value else {
        let message = "a message is one JSON-RPC object; batches are not part of the protocol";
        return Heard::Wrong(ErrorData::invalid_request(message, None), None);
    };
    if fields.contains_key("method") && !fields.contains_key("id") {
        // A notification that is not known: the protocol has none of it answered.
        return Heard::Nothing;
    }
    let id = fields.get("id").and_then(id);
    let message = "not a JSON-RPC 2.0 message: `jsonrpc`, `method` and an `id` that is a string or a number are needed";
    Heard::Wrong(ErrorData::invalid_request(message, None), id)
}

fn id(value: &Value) -> Option<RequestId> {
    serde_json::from_value::<NumberOrString>(value.clone()).ok()
}

/// The id of a message of which only the ends are known: clients write it first or last.
fn edges_id(head: &[u8], tail: &[u8]) -> Option<RequestId> {
    const KEY: &[u8] = b"\"id\":";
    let params = find(head, b"\"params\"").unwrap_or(head.len());
    let first = find(head, KEY).filter(|at| *at < params);
    let last = || tail.windows(KEY.len()).rposition(|part| part == KEY);
    let after = match first {
        Some(at) => head.get(at + KEY.len()..)?,
        None => tail.get(last()? + KEY.len()..)?,
    };
    let value = serde_json::Deserializer::from_slice(after)
        .into_iter::<Value>()
        .next()?
        .ok()?;
    id(&value)
}

fn find(within: &[u8], what: &[u8]) -> Option<usize> {
    within.windows(what.len()).position(|part| part == what)
}

#[cfg(test)]
mod tests;
