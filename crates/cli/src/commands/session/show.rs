//! `session show`: one session, summarized from its events.

use std::process::ExitCode;

use ringfence_journal::{CallSummary, Enforcement, Event, ExecutionSummary, Record, SessionId, SessionSummary};
use ringfence_store::{Session, Store, StoredWorkspace};

use super::pending_work::PendingWork;
use super::workspace;
use crate::args::SessionShowArgs;
use crate::commands::{open_store, session_not_found};
use crate::fault::{CliFault, EXIT_CHECK_FAILED, error_chain};
use crate::print::event::{rule_suffix, target_text};
use crate::print::{Printer, byte_text, counted, moment};
use crate::settings::CliSettings;

pub(crate) async fn show_session(
    show: &SessionShowArgs,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    let store = open_store(settings)
        .await
        .map_err(|fault| workspace::unless_invalid_id(Some(&show.session), fault))?;
    let looked = load_snapshot(&store, &show.session).await;
    store.close_for_exit().await;
    let (id, records, standing, session) = looked?;
    let events: Result<Vec<Event>, _> = records.iter().map(ringfence_journal::Record::event).collect();
    let events = events.map_err(|error| {
        let message = format!("a record of session `{id}` cannot be read: {}", error_chain(&error));
        CliFault::internal("store.damaged", message)
            .with_hint("run `ringfence audit verify`")
            .with_exit(EXIT_CHECK_FAILED)
    })?;
    let summary = SessionSummary::from_events(&events).ok_or_else(|| session_not_found(id))?;
    if show.json {
        let workspace = session.and_then(|session| session.workspace);
        printer.print_json(&SessionJson {
            summary,
            standing,
            workspace,
        })?;
    } else {
        let kept = session.as_ref().and_then(workspace::workspace_text);
        // The list uses the same word.
        let is_parked = session.as_ref().is_some_and(workspace::is_parked);
        let state = if is_parked { "kept" } else { summary.state.name() };
        printer.print_escaped(&session_text(&summary, state, &standing, kept))?;
    }
    Ok(ExitCode::SUCCESS)
}

type SessionSnapshot = (SessionId, Vec<Record>, PendingWork, Option<Session>);

async fn load_snapshot(store: &Store, text: &str) -> Result<SessionSnapshot, CliFault> {
    let id = workspace::resolve_session(store, text).await?;
    let (records, session) = (store.session_records(id).await?, store.session(id).await?);
    Ok((id, records, PendingWork::load(store, id).await?, session))
}

/// A session as `session show --json` prints it.
#[derive(serde::Serialize)]
struct SessionJson {
    #[serde(flatten)]
    summary: SessionSummary,
    #[serde(flatten)]
    standing: PendingWork,
    /// The files that outlive the process of the session; `None` if it keeps none.
    workspace: Option<StoredWorkspace>,
}

fn session_text(summary: &SessionSummary, state: &str, standing: &PendingWork, kept: Option<String>) -> String {
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
            .map(|closed| format!("{}{}", moment(closed), close_reason(summary))),
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
        lines.extend(execution_lines(execution));
        lines.extend(standing.execution_lines(execution.execution_id));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// The most calls to list as text; `--json` lists all of them.
const MAX_LISTED_CALLS: usize = 100;

/// One line for each call, with its tool, outcome and deciding rule.
fn call_lines(calls: &[CallSummary]) -> Vec<String> {
    let mut lines: Vec<String> = calls
        .iter()
        .take(MAX_LISTED_CALLS)
        .map(|call| {
            let error = call
                .error
                .as_ref()
                .map_or_else(String::new, |error| format!(", {error}"));
            let (number, tool, outcome) = (call.number, &call.tool, call.outcome.name());
            format!(
                "  call {number}: {tool} {outcome}{error}, {} ms{}",
                call.duration_ms,
                rule_suffix(call.rule.as_str())
            )
        })
        .collect();
    if let Some(more) = calls.len().checked_sub(MAX_LISTED_CALLS).filter(|more| *more > 0) {
        lines.push(format!("  {} more", counted(more as u64, "call")));
    }
    lines
}

fn close_reason(summary: &SessionSummary) -> String {
    summary
        .reason
        .as_ref()
        .map_or_else(String::new, |reason| format!(" ({reason})"))
}

fn execution_lines(execution: &ExecutionSummary) -> Vec<String> {
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
        byte_text(usage.peak_memory_bytes)
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
    lines.extend(call_lines(&execution.calls));
    lines.extend(execution.egress.iter().map(|one| {
        let status = one.status.map_or_else(String::new, |status| format!(" {status}"));
        let (outcome, rule) = (one.outcome.name(), &one.rule);
        format!(
            "  net {outcome}: {}{status}{}",
            target_text(&one.to),
            rule_suffix(rule.as_str())
        )
    }));
    lines.extend(
        execution
            .files
            .iter()
            .map(|file| format!("  file out: {} ({})", file.path, byte_text(file.bytes))),
    );
    lines
}
