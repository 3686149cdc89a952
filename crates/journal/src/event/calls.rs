//! Fast canonical encoding of call events. They are most of a busy journal and a caller waits for each record, so their fields are written
//! in canonical order directly, without a sort.

use jiff::Timestamp;
use serde::Serialize;

use super::{Event, Kind, Origin, VERSION, parts};
use crate::{CallOutcome, ExecutionId, Hash, SessionId, Text};

/// The fields of a [`Kind::CallStarted`] event in canonical order.
#[derive(Serialize)]
struct Started<'a> {
    arguments: Hash,
    #[serde(serialize_with = "parts::fixed_time")]
    at: Timestamp,
    #[serde(serialize_with = "parts::safe")]
    bytes: u64,
    execution: Option<ExecutionId>,
    kind: &'static str,
    #[serde(serialize_with = "parts::safe")]
    number: u64,
    origin: Origin,
    rule: &'a Text,
    session: SessionId,
    tool: &'a Text,
    v: u64,
}

/// The fields of a [`Kind::CallEnded`] event in canonical order.
#[derive(Serialize)]
struct Ended<'a> {
    #[serde(serialize_with = "parts::fixed_time")]
    at: Timestamp,
    #[serde(serialize_with = "parts::safe")]
    bytes: u64,
    #[serde(serialize_with = "parts::safe")]
    duration_ms: u64,
    error: Option<&'a Text>,
    execution: Option<ExecutionId>,
    kind: &'static str,
    #[serde(serialize_with = "parts::safe")]
    number: u64,
    origin: Origin,
    outcome: CallOutcome,
    result: Option<Hash>,
    session: SessionId,
    tool: &'a Text,
    v: u64,
}

/// The canonical text of a `call_started` or `call_ended` event; `None` for any other kind.
pub(super) fn canonical(event: &Event) -> Option<Result<String, serde_json::Error>> {
    let Event {
        at,
        session,
        execution,
        origin,
        ref kind,
    } = *event;
    let name = kind.name();
    if let Kind::CallStarted {
        number,
        tool,
        rule,
        arguments,
        bytes,
    } = kind
    {
        return Some(serde_json::to_string(&Started {
            arguments: *arguments,
            at,
            bytes: *bytes,
            execution,
            kind: name,
            number: *number,
            origin,
            rule,
            session,
            tool,
            v: VERSION,
        }));
    }
    if let Kind::CallEnded {
        number,
        tool,
        outcome,
        error,
        duration_ms,
        result,
        bytes,
    } = kind
    {
        return Some(serde_json::to_string(&Ended {
            at,
            bytes: *bytes,
            duration_ms: *duration_ms,
            error: error.as_ref(),
            execution,
            kind: name,
            number: *number,
            origin,
            outcome: *outcome,
            result: *result,
            session,
            tool,
            v: VERSION,
        }));
    }
    None
}
