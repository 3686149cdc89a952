//! The past tool calls of a session, with their arguments, as far as recordings hold them.

use std::collections::BTreeSet;

use ringfence_gateway::{CallKind, CallLog, LoggedCall};
use ringfence_hygiene::resembles_alias;
use ringfence_journal::{ExecutionId, SessionId};
use ringfence_policy::{RedactedCall, ToolHints};
use ringfence_store::{QueryError, Store};
use serde_json::Value;

/// A past call, made or refused.
#[derive(Debug, Clone, PartialEq)]
pub struct PastCall {
    /// The execution that made the call.
    pub execution: ExecutionId,
    /// The number that the program gave it.
    pub number: u32,
    /// The tool's full name.
    pub tool: String,
    /// The hints that its server gave at the time.
    pub hints: ToolHints,
    /// The arguments, as the program gave them.
    pub arguments: Value,
    /// The names of the arguments that contain aliases: their values are hidden.
    pub hidden: BTreeSet<String>,
    /// Whether the call was made; else it was refused or still waits.
    pub made: bool,
}

impl PastCall {
    /// The call as a policy judges it.
    pub fn to_policy_call(&self) -> RedactedCall {
        RedactedCall {
            name: self.tool.clone(),
            hints: self.hints,
            args: self.arguments.clone(),
            hidden: self.hidden.clone(),
            made: self.made,
        }
    }
}

/// The calls of a session, execution by execution, without those that no recording holds.
pub async fn session_calls(store: &Store, session: SessionId) -> Result<Vec<PastCall>, QueryError> {
    let mut calls = Vec::new();
    for execution in store.session_executions(session).await? {
        let kept = match store.recording(execution.id).await {
            Ok(Some(kept)) => kept,
            // The key of the recording was deleted, so nobody can read it.
            Ok(None) | Err(QueryError::Sealed { .. }) => continue,
            Err(error) => return Err(error),
        };
        let Ok((tape, _)) = CallLog::from_entries(kept.entries) else {
            continue;
        };
        let past = logged_calls(&tape, execution.id);
        calls.extend(past.into_iter().map(|(call, _)| call));
    }
    Ok(calls)
}

/// The tool calls in a call log, in order.
pub(crate) fn logged_calls<'a>(tape: &'a CallLog, execution: ExecutionId) -> Vec<(PastCall, &'a LoggedCall)> {
    let call = |(number, taped): (u32, &'a LoggedCall)| {
        let CallKind::Tool { server, tool } = &taped.kind else {
            return None;
        };
        let arguments: Value = serde_json::from_str(taped.arguments.text()?).ok()?;
        let call = PastCall {
            execution,
            number,
            tool: taped.name.clone().unwrap_or_else(|| format!("{server}.{tool}")),
            hints: taped.hints.unwrap_or(ToolHints::none()),
            hidden: aliased_arguments(&arguments),
            arguments,
            made: taped.started,
        };
        Some((call, taped))
    };
    tape.calls().into_iter().filter_map(call).collect()
}

/// The arguments that contain aliases. The session's own aliases may be deleted with it, so they are recognised by their form.
fn aliased_arguments(arguments: &Value) -> BTreeSet<String> {
    let arguments = arguments.as_object().into_iter().flatten();
    let hidden = arguments.filter(|(_, value)| match value.as_str() {
        Some(text) => resembles_alias(text),
        None => resembles_alias(&value.to_string()),
    });
    hidden.map(|(name, _)| name.clone()).collect()
}
