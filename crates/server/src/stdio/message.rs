//! Parses a line into a message, or explains why it is not one.

use rmcp::RoleServer;
use rmcp::model::{ErrorCode, ErrorData, NumberOrString, RequestId};
use rmcp::service::RxJsonRpcMessage;
use serde_json::Value;

use crate::weight::{MOST_VALUES, is_too_heavy};

/// The result of parsing a line.
#[derive(Debug)]
pub(super) enum Heard {
    /// A valid request, notification or response.
    Message(Box<RxJsonRpcMessage<RoleServer>>),
    /// A line without a message that needs no answer.
    Nothing,
    /// An invalid message, with the error to return and its id, if known.
    Wrong(ErrorData, Option<RequestId>),
}

/// Parses one line into a message.
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

/// The error for a line that was too long to read.
pub(super) fn too_long(head: &[u8], tail: &[u8], longest: usize) -> (ErrorData, Option<RequestId>) {
    let message = format!("a message of more than {longest} bytes is not read; send large files in parts");
    (ErrorData::invalid_request(message, None), edges_id(head, tail))
}

/// The error for a line that is not a message.
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
        // An unknown notification, which the protocol leaves unanswered.
        return Heard::Nothing;
    }
    let id = fields.get("id").and_then(id);
    let message = "not a JSON-RPC 2.0 message: `jsonrpc`, `method` and an `id` that is a string or a number are needed";
    Heard::Wrong(ErrorData::invalid_request(message, None), id)
}

fn id(value: &Value) -> Option<RequestId> {
    serde_json::from_value::<NumberOrString>(value.clone()).ok()
}

/// Finds the id of a message whose ends alone are known: clients write it first or last.
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
