//! The tool calls that the executions of a session made, with their arguments, as far as those are kept.

use std::collections::BTreeSet;

use ringfence_gateway::{Tape, Taped, What};
use ringfence_hygiene::resembles_alias;
use ringfence_journal::{ExecutionId, SessionId};
use ringfence_policy::{Called, Hints};
use ringfence_store::{ReadError, Store};
use serde_json::Value;

/// A call that was made once, or refused.
#[derive(Debug, Clone, PartialEq)]
pub struct PastCall {
    /// In which execution.
    pub execution: ExecutionId,
    /// The program's number of it.
    pub number: u32,
    /// The tool's full name.
    pub tool: String,
    /// What its server said of it then.
    pub hints: Hints,
    /// Its arguments, as the program gave them.
    pub arguments: Value,
    /// Those of them that hold aliases: their values are hidden.
    pub hidden: BTreeSet<String>,
    /// Whether it was made; else it was refused, or waits.
    pub made: bool,
}

impl PastCall {
    /// For a policy to judge.
    pub fn called(&self) -> Called {
        Called {
            name: self.tool.clone(),
            hints: self.hints,
            args: self.arguments.clone(),
            hidden: self.hidden.clone(),
            made: self.made,
        }
    }
}

/// The calls of a session, execution by execution. What is no longer kept is left out.
pub async fn calls_of(store: &Store, session: SessionId) -> Result<Vec<PastCall>, ReadError> {
    let mut calls = Vec::new();
    for execution in store.executions(session).await? {
        let kept = match store.recording(execution.id).await {
            Ok(Some(kept)) => kept,
            // Its key is gone, and so is what it sealed.
            Ok(None) | Err(ReadError::Sealed { .. }) => continue,
            Err(error) => return Err(error),
        };
        let Ok((tape, _)) = Tape::read(kept.entries) else {
            continue;
        };
        let past = calls_on(&tape, execution.id);
        calls.extend(past.into_iter().map(|(call, _)| call));
    }
    Ok(calls)
}

/// The tool calls on a tape, in order.
pub(crate) fn calls_on<'a>(tape: &'a Tape, execution: ExecutionId) -> Vec<(PastCall, &'a Taped)> {
    let call = |(number, taped): (u32, &'a Taped)| {
        let What::Tool { server, tool } = &taped.what else {
            return None;
        };
        let arguments: Value = serde_json::from_str(taped.arguments.text()?).ok()?;
        let call = PastCall {
            execution,
            number,
            tool: taped.name.clone().unwrap_or_else(|| format!("{server}.{tool}")),
            hints: taped.hints.unwrap_or(Hints::none()),
            hidden: hidden(&arguments),
            arguments,
            made: taped.started,
        };
        Some((call, taped))
    };
    tape.calls().into_iter().filter_map(call).collect()
}

/// The arguments that hold aliases. The session's own may be gone with it, so they are known by their form.
fn hidden(arguments: &Value) -> BTreeSet<String> {
    let arguments = arguments.as_object().into_iter().flatten();
    let hidden = arguments.filter(|(_, value)| match value.as_str() {
        Some(text) => resembles_alias(text),
        None => resembles_alias(&value.to_string()),
    });
    hidden.map(|(name, _)| name.clone()).collect()
}
