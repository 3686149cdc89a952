//! `session show`: one session, summarized from its events.

use std::process::ExitCode;

use ringfence_journal::{CallSummary, Enforcement, Event, ExecutionSummary, Record, SessionId, SessionSummary};
use ringfence_store::{Session, Store, Workspace};

use super::standing::Standing;
use super::workspace;
use crate::args::Show;
use crate::commands::{no_session, store};
use crate::fault::{Fault, NOT_HELD, chain};
use crate::print::event::{by, place};
use crate::print::{Printer, bytes, count, moment};
use crate::settings::Settings;

pub(crate) async fn show(show: &Show, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let store = store(settings)
        .await
        .map_err(|fault| workspace::unless_no_id(Some(&show.session), fault))?;
    let looked = look(&store, &show.session).await;
    store.leave().await;
    let (id, records, standing, session) = looked?;
    let events: Result<Vec<Event>, _> = records.iter().map(ringfence_journal::Record::event).collect();
    let events = events.map_err(|error| {
        let message = format!("a record of session `{id}` cannot be read: {}", chain(&error));
        Fault::ours("store.damaged", message)
            .hint("run `ringfence audit verify`")
            .exit(NOT_HELD)
    })?;
    let summary = SessionSummary::of(&events).ok_or_else(|| no_session(id))?;
    if show.json {
        let workspace = session.and_then(|session| session.workspace);
        printer.json(&Whole {
            summary,
            standing,
            workspace,
        })?;
    } else {
        let kept = session.as_ref().and_then(workspace::words);
        // The list uses the same word.
        let is_parked = session.as_ref().is_some_and(workspace::is_parked);
        let state = if is_parked { "kept" } else { summary.state.name() };
        printer.data(&words(&summary, state, &standing, kept))?;
    }
    Ok(ExitCode::SUCCESS)
}

type Looked = (SessionId, Vec<Record>, Standing, Option<Session>);

async fn look(store: &Store, text: &str) -> Result<Looked, Fault> {
    let id = workspace::meant(store, text).await?;
    let (records, session) = (store.show(id).await?, store.session(id).await?);
    Ok((id, records, Standing::of(store, id).await?, session))
}

/// A session as `session show --json` prints it.
#[derive(serde::Serialize)]
struct Whole {
    #[serde(flatten)]
    summary: SessionSummary,
    #[serde(flatten)]
    standing: Standing,
    /// The files that outlive the process of the session; `None` if it keeps none.
    workspace: Option<Workspace>,
}

fn words(summary: &SessionSummary, state: &str, standing: &Standing, kept: Option<String>) -> String {
    let mut lines = vec![
        format!("session    {}", summary.session_id),
        format!("state      {state}"),
    ];
    let mut add = |name: &str, value: Option<String>| lines.extend(value.map(|value| format!("{name:<10} {value}")));
    add(
        "policy",
        summary
            .policy
            .as_ref()
            .map(|policy| format!("{} ({:.12})", policy.name, policy.digest.as_str())),
    );
    add("owner", summary.principal.map(|owner| owner.to_string()));
    add("backend", summary.backend.as_ref().map(ToString::to_string));
    add("workspace", kept);
    add("opened", Some(moment(summary.opened)));
    add(
        "closed",
        summary
            .closed
            .map(|closed| format!("{}{}", moment(closed), reason(summary))),
    );
    let by = |held: &[Enforcement]| {
        held.iter()
            .map(|one| one.rule.to_string())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let some = |text: String| (!text.is_empty()).then_some(text);
    add("hard", some(by(&summary.enforcement.hard)));
    add("watched", some(by(&summary.enforcement.soft)));
    add(
        "refused",
        some(
            summary
                .refused
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", "),
        ),
    );
    add(
        "stopped by",
        some(
            summary
                .stop_requested
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", "),
        ),
    );
    for execution in &summary.executions {
        lines.push(String::new());
        lines.extend(execution_words(execution));
        lines.extend(standing.words(execution.execution_id));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// The most calls to list as text; `--json` lists all of them.
const MOST_CALLS: usize = 100;

/// One line for each call, with its tool, outcome and deciding rule.
fn calls(calls: &[CallSummary]) -> Vec<String> {
    let mut lines: Vec<String> = calls
        .iter()
        .take(MOST_CALLS)
        .map(|call| {
            let error = call
                .error
                .as_ref()
                .map_or_else(String::new, |error| format!(", {error}"));
            let (number, tool, outcome) = (call.number, &call.tool, call.outcome.name());
            format!(
                "  call {number}: {tool} {outcome}{error}, {} ms{}",
                call.duration_ms,
                by(call.rule.as_str())
            )
        })
        .collect();
    if let Some(more) = calls.len().checked_sub(MOST_CALLS).filter(|more| *more > 0) {
        lines.push(format!("  {} more", count(more as u64, "call")));
    }
    lines
}

fn reason(summary: &SessionSummary) -> String {
    summary
        .reason
        .as_ref()
        .map_or_else(String::new, |reason| format!(" ({reason})"))
}

fn execution_words(execution: &ExecutionSummary) -> Vec<String> {
    let program = execution
        .program
        .as_ref()
        .map_or_else(String::new, |program| format!(" `{program}`"));
    let mut lines = vec![format!(
        "execution  {}: {}{program}",
        execution.execution_id, execution.language
    )];
    let code = execution
        .exit_code
        .map_or_else(String::new, |code| format!(", exit {code}"));
    let error = execution
        .error
        .as_ref()
        .map_or_else(String::new, |error| format!(", {error}"));
    lines.push(format!("  {}{code}{error}", execution.status.name()));
    let usage = execution.usage;
    lines.push(format!(
        "  {} ms, {} ms of cpu, {}",
        usage.wall_ms,
        usage.cpu_ms,
        bytes(usage.peak_memory_bytes)
    ));
    lines.extend(
        execution
            .limits_hit
            .iter()
            .map(|limit| format!("  limit reached: {limit}")),
    );
    lines.extend(
        execution
            .violations
            .iter()
            .map(|one| format!("  refused {} `{}`: `{}`", one.kind, one.detail, one.rule)),
    );
    lines.extend(calls(&execution.calls));
    lines.extend(execution.egress.iter().map(|one| {
        let status = one.status.map_or_else(String::new, |status| format!(" {status}"));
        let (outcome, rule) = (one.outcome.name(), &one.rule);
        format!("  net {outcome}: {}{status}{}", place(&one.to), by(rule.as_str()))
    }));
    lines.extend(
        execution
            .files
            .iter()
            .map(|file| format!("  file out: {} ({})", file.path, bytes(file.bytes))),
    );
    lines
}
