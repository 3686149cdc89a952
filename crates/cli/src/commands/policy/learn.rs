//! `policy learn` and `--learn`: the least policy that would have allowed what a session tried.

use std::path::Path;

use std::process::ExitCode;

use ringfence_engine::{PastCall, calls_of};
use ringfence_gateway::Sight;
use ringfence_journal::{CallOutcome, EgressOutcome, Event, ExecutionId, SessionId, SessionSummary};
use ringfence_policy::{Attempt, Learnt, Tried};
use ringfence_store::{Sessions, Store};
use serde_json::{Value, json};

use super::show::yaml;
use crate::args::Learn;
use crate::commands::{ids, no_session, store};
use crate::fault::{Fault, NOT_HELD, chain, reason};
use crate::print::{Printer, count};
use crate::settings::Settings;

/// Learns a policy from the named session, or from the newest one, and prints it.
pub(crate) async fn learn(learn: &Learn, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let store = store(settings).await?;
    let lesson = lesson(&store, learn.session.as_deref()).await;
    store.leave().await;
    let lesson = lesson?;
    if learn.json {
        printer.json(&lesson.to_json())?;
    } else {
        printer.data(&lesson.words()?)?;
    }
    if lesson.attempts == 0 {
        printer.notice("the session asked for no host and called no tool");
    }
    Ok(ExitCode::SUCCESS)
}

async fn lesson(store: &Store, session: Option<&str>) -> Result<Lesson, Fault> {
    let id = match session {
        Some(text) => ids::session(store, text).await?,
        None => newest(store).await?,
    };
    Lesson::of(store, id, None).await
}

async fn newest(store: &Store) -> Result<SessionId, Fault> {
    let which = Sessions {
        limit: Some(1),
        ..Sessions::default()
    };
    let sessions = store.sessions(which).await?;
    sessions.first().map(|session| session.id).ok_or_else(|| {
        Fault::ours("session.unknown", "there is no session to learn from")
            .hint("run something first: `ringfence exec --learn -- CMD`")
            .exit(NOT_HELD)
    })
}

/// The policy learned from one session, with notes on attempts it cannot cover.
pub(crate) struct Lesson {
    session: SessionId,
    attempts: usize,
    learnt: Learnt,
}

impl Lesson {
    /// Learns from a session in the store. `sight` redacts the arguments of calls for a model; without it they stay whole
    /// for the owner.
    pub(crate) async fn of(store: &Store, id: SessionId, sight: Option<&Sight>) -> Result<Lesson, Fault> {
        let summary = summary(store, id).await?;
        let mut calls = calls_of(store, id).await?;
        if let Some(sight) = sight {
            for call in &mut calls {
                call.arguments = sight.tellable(call.arguments.take()).unwrap_or_default();
            }
        }
        let attempts = attempts(&summary, &calls);
        let learnt =
            ringfence_policy::learn(&attempts).map_err(|error| Fault::ours("policy.learn", error.to_string()))?;
        Ok(Lesson {
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
    pub(crate) fn words(&self) -> Result<String, Fault> {
        let attempts = count(self.attempts as u64, "attempt");
        let mut text = format!(
            "# The least policy that would have allowed session {}, from {attempts}.\n{}",
            self.session,
            yaml(&self.learnt.draft)?
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
    pub(crate) fn hand_over(&self, file: Option<&Path>, printer: &Printer) -> Result<(), Fault> {
        let words = self.words()?;
        let Some(file) = file else {
            printer.aside(words.trim_end());
            return Ok(());
        };
        std::fs::write(file, words).map_err(|error| {
            let message = format!("cannot write `{}`: {}", file.display(), reason(&error));
            Fault::ours("policy.learn", message).hint("`ringfence policy learn --last` prints it again")
        })?;
        printer.notice(&format!("the least policy is in `{}`", file.display()));
        Ok(())
    }
}

/// Summarizes a session from its events.
pub(super) async fn summary(store: &Store, id: SessionId) -> Result<SessionSummary, Fault> {
    let records = store.show(id).await?;
    let events: Result<Vec<Event>, _> = records.iter().map(ringfence_journal::Record::event).collect();
    let events = events.map_err(|error| {
        let message = format!("a record of session `{id}` cannot be read: {}", chain(&error));
        Fault::ours("store.damaged", message)
            .hint("run `ringfence audit verify`")
            .exit(NOT_HELD)
    })?;
    SessionSummary::of(&events).ok_or_else(|| no_session(id))
}

/// Collects the attempts of a session, by host and by tool.
fn attempts(summary: &SessionSummary, calls: &[PastCall]) -> Vec<Attempt> {
    let text = |text: &ringfence_journal::Text| text.to_string();
    let refusal = |code: Option<&ringfence_journal::Text>, rule: &ringfence_journal::Text| {
        (code.map(text).unwrap_or_default(), text(rule))
    };
    let mut attempts = Vec::new();
    for execution in &summary.executions {
        for one in &execution.egress {
            attempts.push(Attempt {
                tried: Tried::Host {
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
            let kept = recalled(calls, execution.execution_id, one.number);
            attempts.push(Attempt {
                tried: Tried::Tool {
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
fn recalled(calls: &[PastCall], execution: ExecutionId, number: u64) -> Option<&PastCall> {
    let mut calls = calls.iter();
    calls.find(|call| call.execution == execution && u64::from(call.number) == number)
}

#[cfg(test)]
mod tests;
