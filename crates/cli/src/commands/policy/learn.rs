//! `policy learn` and `--learn`: the least policy that would have allowed what a session tried.

use std::path::Path;

use std::process::ExitCode;

use ringfence_engine::{PastCall, session_calls};
use ringfence_gateway::RedactionRules;
use ringfence_journal::{CallOutcome, EgressOutcome, Event, ExecutionId, SessionId, SessionSummary};
use ringfence_policy::{AttemptedAction, LearnedDraft, ObservedAttempt};
use ringfence_store::{SessionQuery, Store};
use serde_json::{Value, json};

use super::show::to_yaml;
use crate::args::PolicyLearnArgs;
use crate::commands::{ids, open_store, session_not_found};
use crate::fault::{CliFault, EXIT_CHECK_FAILED, error_chain, io_error_text};
use crate::print::{Printer, counted};
use crate::settings::CliSettings;

/// Learns a policy from the named session, or from the newest one, and prints it.
pub(crate) async fn learn_policy(
    learn: &PolicyLearnArgs,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    let store = open_store(settings).await?;
    let lesson = learn_from_session(&store, learn.session.as_deref()).await;
    store.close_for_exit().await;
    let lesson = lesson?;
    if learn.json {
        printer.print_json(&lesson.to_json())?;
    } else {
        printer.print_escaped(&lesson.to_yaml()?)?;
    }
    if lesson.attempts == 0 {
        printer.notice("the session asked for no host and called no tool");
    }
    Ok(ExitCode::SUCCESS)
}

async fn learn_from_session(store: &Store, session: Option<&str>) -> Result<LearnedPolicy, CliFault> {
    let id = match session {
        Some(text) => ids::resolve_session_id(store, text).await?,
        None => newest_session(store).await?,
    };
    LearnedPolicy::from_session(store, id, None).await
}

async fn newest_session(store: &Store) -> Result<SessionId, CliFault> {
    let which = SessionQuery {
        limit: Some(1),
        ..SessionQuery::default()
    };
    let sessions = store.list_sessions(which).await?;
    sessions.first().map(|session| session.id).ok_or_else(|| {
        CliFault::internal("session.unknown", "there is no session to learn from")
            .with_hint("run something first: `ringfence exec --learn -- CMD`")
            .with_exit(EXIT_CHECK_FAILED)
    })
}

/// The policy learned from one session, with notes on attempts it cannot cover.
pub(crate) struct LearnedPolicy {
    session: SessionId,
    attempts: usize,
    learnt: LearnedDraft,
}

impl LearnedPolicy {
    /// Learns from a session in the store. `sight` redacts the arguments of calls for a model; without it they stay whole
    /// for the owner.
    pub(crate) async fn from_session(
        store: &Store,
        id: SessionId,
        sight: Option<&RedactionRules>,
    ) -> Result<LearnedPolicy, CliFault> {
        let summary = session_summary(store, id).await?;
        let mut calls = session_calls(store, id).await?;
        if let Some(sight) = sight {
            for call in &mut calls {
                call.arguments = sight.shareable_arguments(call.arguments.take()).unwrap_or_default();
            }
        }
        let attempts = session_attempts(&summary, &calls);
        let learnt = ringfence_policy::learn(&attempts)
            .map_err(|error| CliFault::internal("policy.learn", error.to_string()))?;
        Ok(LearnedPolicy {
            session: id,
            attempts: attempts.len(),
            learnt,
        })
    }

    /// The learned policy as the JSON that `--json` prints.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "session_id": self.session,
            "attempts": self.attempts,
            "policy": self.learnt.draft,
            "notes": self.learnt.notes,
        })
    }

    /// The learned policy as a policy file, with the notes as comments.
    pub(crate) fn to_yaml(&self) -> Result<String, CliFault> {
        let attempts = counted(self.attempts as u64, "attempt");
        let mut text = format!(
            "# The least policy that would have allowed session {}, from {attempts}.\n{}",
            self.session,
            to_yaml(&self.learnt.draft)?
        );
        for note in &self.learnt.notes {
            let what = if note.allowed { "needs more" } else { "left out" };
            // A comment stays one line, even if a host name contains control characters.
            let line = format!("# {what}: {}: {}", note.tried, note.why);
            text.extend(line.chars().map(|c| if c.is_control() { ' ' } else { c }));
            text.push('\n');
        }
        Ok(text)
    }

    /// Writes the policy to a file, or prints it to standard error if there is none.
    pub(crate) fn write_or_print(&self, file: Option<&Path>, printer: &Printer) -> Result<(), CliFault> {
        let words = self.to_yaml()?;
        let Some(file) = file else {
            printer.print_to_stderr(words.trim_end());
            return Ok(());
        };
        std::fs::write(file, words).map_err(|error| {
            let message = format!("cannot write `{}`: {}", file.display(), io_error_text(&error));
            CliFault::internal("policy.learn", message).with_hint("`ringfence policy learn --last` prints it again")
        })?;
        printer.notice(&format!("the least policy is in `{}`", file.display()));
        Ok(())
    }
}

/// Summarizes a session from its events.
pub(super) async fn session_summary(store: &Store, id: SessionId) -> Result<SessionSummary, CliFault> {
    let records = store.session_records(id).await?;
    let events: Result<Vec<Event>, _> = records.iter().map(ringfence_journal::Record::event).collect();
    let events = events.map_err(|error| {
        let message = format!("a record of session `{id}` cannot be read: {}", error_chain(&error));
        CliFault::internal("store.damaged", message)
            .with_hint("run `ringfence audit verify`")
            .with_exit(EXIT_CHECK_FAILED)
    })?;
    SessionSummary::from_events(&events).ok_or_else(|| session_not_found(id))
}

/// Collects the attempts of a session, by host and by tool.
fn session_attempts(summary: &SessionSummary, calls: &[PastCall]) -> Vec<ObservedAttempt> {
    let text = |text: &ringfence_journal::CleanText| text.to_string();
    let refusal = |code: Option<&ringfence_journal::CleanText>, rule: &ringfence_journal::CleanText| {
        (code.map(text).unwrap_or_default(), text(rule))
    };
    let mut attempts = Vec::new();
    for execution in &summary.executions {
        for one in &execution.egress {
            attempts.push(ObservedAttempt {
                tried: AttemptedAction::Host {
                    scheme: text(&one.to.scheme),
                    host: text(&one.to.host),
                    port: one.to.port,
                    method: one.to.method.as_ref().map(text),
                    path: one.to.path.as_ref().map(text),
                    address: one.address.as_ref().map(text),
                },
                refused: (one.outcome == EgressOutcome::Refused).then(|| refusal(one.error.as_ref(), &one.rule)),
            });
        }
        for one in &execution.calls {
            let kept = past_call(calls, execution.execution_id, one.number);
            attempts.push(ObservedAttempt {
                tried: AttemptedAction::Tool {
                    name: text(&one.tool),
                    arguments: kept.map(|call| call.arguments.clone()),
                    hidden: kept.map(|call| call.hidden.clone()).unwrap_or_default(),
                },
                refused: (one.outcome == CallOutcome::Refused).then(|| refusal(one.error.as_ref(), &one.rule)),
            });
        }
    }
    attempts
}

/// Finds a recorded call with its arguments, if they are kept.
fn past_call(calls: &[PastCall], execution: ExecutionId, number: u64) -> Option<&PastCall> {
    let mut calls = calls.iter();
    calls.find(|call| call.execution == execution && u64::from(call.number) == number)
}

#[cfg(test)]
mod tests;
