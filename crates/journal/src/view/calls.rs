//! Summaries of an execution's tool calls.

use super::CallSummary;
use crate::{CallOutcome, EventKind};

/// Applies an event to the summaries; ignores events that are not about calls.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever is added is about something else"
)]
pub(super) fn apply_event(all: &mut Vec<CallSummary>, kind: &EventKind) {
    match kind {
        EventKind::CallStarted {
            number,
            tool,
            rule,
            bytes,
            ..
        } => all.push(CallSummary {
            number: *number,
            tool: tool.clone(),
            outcome: CallOutcome::Unknown,
            rule: rule.clone(),
            error: None,
            duration_ms: 0,
            bytes_in: *bytes,
            bytes_out: 0,
        }),
        EventKind::CallRefused {
            number,
            tool,
            code,
            rule,
        } => all.push(CallSummary {
            number: *number,
            tool: tool.clone(),
            outcome: CallOutcome::Refused,
            rule: rule.clone(),
            error: Some(code.clone()),
            duration_ms: 0,
            bytes_in: 0,
            bytes_out: 0,
        }),
        EventKind::CallEnded {
            number,
            outcome,
            error,
            duration_ms,
            bytes,
            ..
        } => {
            // Calls end soon after they start: the last ones are the likely ones.
            if let Some(call) = all.iter_mut().rev().find(|call| call.number == *number) {
                call.outcome = *outcome;
                call.error.clone_from(error);
                call.duration_ms = *duration_ms;
                call.bytes_out = *bytes;
            }
        }
        _ => {}
    }
}
