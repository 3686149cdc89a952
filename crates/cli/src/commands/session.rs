//! `ringfence session`: list, show, stop, remove and replay sessions.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use ringfence_engine::Engine;
use ringfence_journal::{CleanText, Event, EventKind, ExecutionStatus, Recorder as _, SessionId, SessionState};
use ringfence_store::{LastRun, Lease, Session, SessionQuery, StopOwner, StopTarget, Store, StoredExecution};
use serde_json::json;

use super::{open_store, run, session_not_found};
use crate::args::{SessionCommand, SessionListArgs, SessionStopArgs};
use crate::fault::{CliFault, EXIT_CHECK_FAILED, io_error_text};
use crate::print::{Printer, Style, counted, escape, moment};
use crate::settings::CliSettings;
use crate::settings::config::Config;
use crate::settings::servers::ResolvedServers;

mod pending_work;
mod replay;
mod show;
pub(super) mod workspace;

/// How long `stop` waits until a session is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
const CLOSE_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The width of the column for kept files, in characters.
const WORKSPACE_WIDTH: usize = 28;
/// The width of the column for the last program, in characters.
const PROGRAM_WIDTH: usize = 20;

/// Runs the subcommand of `session`.
pub(crate) async fn dispatch(
    command: SessionCommand,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    match command {
        SessionCommand::List(list) => self::list_sessions(&list, settings, printer).await,
        SessionCommand::Show(shown) => show::show_session(&shown, settings, printer).await,
        SessionCommand::Stop(what) => stop_sessions(&what, settings, printer).await,
        SessionCommand::Rm(remove) => self::remove_session(&remove.session, settings, printer).await,
        SessionCommand::Replay(args) => Box::pin(replay::replay_session(&args, settings, printer)).await,
    }
}

async fn list_sessions(
    list: &SessionListArgs,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    let store = match open_store(settings).await {
        Err(fault) if fault.code == "store.none" => {
            if list.json {
                printer.print_json(&json!([]))?;
            } else {
                printer.notice(&fault.message);
            }
            return Ok(ExitCode::SUCCESS);
        }
        other => other?,
    };
    let state = list.open.then_some(SessionState::Open);
    let sessions = store
        .list_sessions(SessionQuery {
            state,
            limit: Some(list.limit),
            ..SessionQuery::default()
        })
        .await;
    let waiting = pending_work::question_counts(&store).await;
    let listed = sessions.iter().flatten().map(|session| session.id);
    let newest = store.last_runs(&listed.collect::<Vec<_>>()).await;
    store.close_for_exit().await;
    let (sessions, waiting, newest) = (sessions?, waiting?, newest?);
    let rows: Vec<SessionListRow<'_>> = sessions
        .iter()
        .map(|session| SessionListRow {
            session,
            waiting: waiting.get(&session.id).copied().unwrap_or(0),
            last_run: newest.get(&session.id),
        })
        .collect();
    if list.json {
        printer.print_json(&rows)?;
    } else if rows.is_empty() {
        printer.notice(if list.open {
            "no session is open"
        } else {
            "there are no sessions yet"
        });
    } else {
        printer.print_line(&format!(
            "{:<28}  {:<6}  {:<20}  {:>4}  {:<PROGRAM_WIDTH$}  {:<16}  {:>7}  {:<WORKSPACE_WIDTH$}  POLICY",
            "ID", "STATE", "OPENED", "RUNS", "LAST PROGRAM", "STATUS", "WAITING", "WORKSPACE"
        ))?;
        for row in &rows {
            printer.print_line(&session_row(row, printer))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A session as `session list --json` prints it.
#[derive(serde::Serialize)]
struct SessionListRow<'a> {
    #[serde(flatten)]
    session: &'a Session,
    /// The number of calls that wait for an approval.
    waiting: u64,
    /// The newest run of the session; `None` if it had none.
    last_run: Option<&'a LastRun>,
}

fn session_row(row: &SessionListRow<'_>, printer: &Printer) -> String {
    let SessionListRow {
        session,
        waiting,
        last_run: last,
    } = *row;
    let opened = moment(session.created);
    let style = match session.state {
        SessionState::Open => Style::Good,
        SessionState::Closed => Style::Faint,
        SessionState::Lost => Style::Bad,
    };
    let state = if workspace::is_parked(session) {
        "kept"
    } else {
        session.state.name()
    };
    let state = printer.paint(&format!("{state:<6}"), style);
    let waits = match waiting {
        0 => printer.paint(&format!("{:>7}", "-"), Style::Faint),
        some => printer.paint(&format!("{some:>7}"), Style::Warn),
    };
    let kept = match workspace::workspace_label(session) {
        Some(kept) => format!("{kept:<WORKSPACE_WIDTH$}"),
        None => printer.paint(&format!("{:<WORKSPACE_WIDTH$}", "-"), Style::Faint),
    };
    let program = last.map_or("-", |last| last.program.as_deref().unwrap_or(&last.language));
    let program: String = escape::escape_text(program).replace(['\n', '\r', '\t'], " ");
    let program: String = program.chars().take(PROGRAM_WIDTH).collect();
    let status = last.map_or("-", |last| last.status.name());
    format!(
        "{}  {state}  {opened:<20}  {:>4}  {program:<PROGRAM_WIDTH$}  {status:<16}  {waits}  {kept}  {}",
        session.id, session.executions, session.policy_name
    )
}

/// The kill switch. Opening the engine first cleans up after dead processes, so only running ones must be told.
async fn stop_sessions(
    what: &SessionStopArgs,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    let home = settings.journal_home();
    let home = home.map_err(|fault| workspace::unless_invalid_id(what.session.as_deref(), fault))?;
    // If records are missing, no engine opens; the kill switch works without one.
    let store = Store::open_to_read(&home).await?;
    if store.loss().is_some() {
        let result = stop_selected(&store, what, printer).await;
        store.close_for_exit().await;
        return result;
    }
    store.close_for_exit().await;
    let interrupt = run::listen_for_signals()?;
    let engine = run::open_engine(&Config::default(), ResolvedServers::default(), settings, &interrupt).await?;
    let result = stop_selected(engine.store(), what, printer).await;
    run::shutdown_engine(engine).await;
    result
}

async fn stop_selected(store: &Store, what: &SessionStopArgs, printer: &Printer) -> Result<ExitCode, CliFault> {
    let target = match &what.session {
        Some(text) => StopTarget::Session(workspace::resolve_session(store, text).await?),
        None => StopTarget::All,
    };
    stop_target(store, target, printer).await
}

async fn stop_target(store: &Store, target: StopTarget, printer: &Printer) -> Result<ExitCode, CliFault> {
    if let StopTarget::Session(id) = target {
        match store.session(id).await? {
            None => return Err(session_not_found(id)),
            Some(session) if session.state != SessionState::Open => {
                printer.print_line(&format!("{id}  already {}", session.state.name()))?;
                return Ok(ExitCode::SUCCESS);
            }
            Some(_) => {}
        }
    }
    let meant = store.request_stop(target, run::local_principal()).await?;
    if meant.is_empty() {
        printer.notice("no session is open");
    }
    for (id, owner) in &meant {
        if *owner == StopOwner::Unowned {
            close_unowned(store, *id).await?;
        }
    }
    let deadline = tokio::time::Instant::now() + CLOSE_TIMEOUT;
    let mut open = 0;
    for (id, owner) in meant {
        let closed = wait_until_closed(store, id, deadline).await?;
        open += u64::from(!closed);
        let told = match owner {
            StopOwner::Notified => "its process was told",
            StopOwner::Dead => "its process is gone",
            StopOwner::Unowned => "no process had it",
        };
        let state = if closed {
            printer.paint("stopped", Style::Good)
        } else {
            printer.paint("still open", Style::Bad)
        };
        printer.print_line(&format!("{id}  {state}  ({told})"))?;
        if store.keeps_workspace(id).await? {
            printer.notice(&format!("its files are kept: `ringfence session rm {id}` removes them"));
        }
    }
    if open > 0 {
        let message = format!(
            "{} did not close within {} s",
            counted(open, "session"),
            CLOSE_TIMEOUT.as_secs()
        );
        return Err(CliFault::internal("session.stuck", message)
            .with_hint("`ringfence session show ID` names what runs; end its process")
            .with_exit(EXIT_CHECK_FAILED));
    }
    Ok(ExitCode::SUCCESS)
}

/// Closes a session that no process owns.
async fn close_unowned(store: &Store, id: SessionId) -> Result<(), CliFault> {
    let lease = Lease::acquire(store.home())?;
    store.adopt_session(&lease, id).await?;
    if store.keeps_workspace(id).await? {
        store.end_unfinished(id, ExecutionStatus::Cancelled).await?;
        return Ok(store.park_session(id).await?);
    }
    let reason = CleanText::clean("stopped");
    store
        .record(Event::from_host(id, None, EventKind::SessionClosed { reason }))
        .await?;
    Ok(())
}

async fn wait_until_closed(store: &Store, id: SessionId, deadline: tokio::time::Instant) -> Result<bool, CliFault> {
    loop {
        match store.session(id).await? {
            Some(session) if session.state == SessionState::Open && !workspace::is_parked(&session) => {}
            _ => return Ok(true),
        }
        if tokio::time::Instant::now() >= deadline {
            return Ok(false);
        }
        tokio::time::sleep(CLOSE_POLL_INTERVAL).await;
    }
}

/// Ends a session and deletes its files, recordings and stored results; its journal stays.
async fn remove_session(text: &str, settings: &CliSettings, printer: &Printer) -> Result<ExitCode, CliFault> {
    let home = settings.journal_home();
    home.map_err(|fault| workspace::unless_invalid_id(Some(text), fault))?;
    let interrupt = run::listen_for_signals()?;
    let engine = run::open_engine(&Config::default(), ResolvedServers::default(), settings, &interrupt).await?;
    let result = remove_session_in(&engine, text, printer).await;
    run::shutdown_engine(engine).await;
    result
}

async fn remove_session_in(engine: &Engine, text: &str, printer: &Printer) -> Result<ExitCode, CliFault> {
    let store = engine.store();
    let id = workspace::resolve_session(store, text).await?;
    let session = store.session(id).await?.ok_or_else(|| session_not_found(id))?;
    let mut code = ExitCode::SUCCESS;
    if !workspace::is_parked(&session) {
        code = stop_target(store, StopTarget::Session(id), printer).await?;
    }
    if store.keeps_workspace(id).await? && !engine.workspaces().remove_workspace(id).await? {
        let message = format!("another process took session `{id}` meanwhile: its files are still there");
        return Err(
            CliFault::internal("session.busy", message).with_hint("try again; `ringfence session list` shows it")
        );
    }
    let executions = store.session_executions(id).await?;
    store.forget_recordings(id).await?;
    remove_results(engine.home(), &executions)?;
    printer.notice("nothing of it is kept but its journal, which stays");
    Ok(code)
}

/// Removes the files that hold the full results of executions whose answers were truncated.
fn remove_results(home: &Path, executions: &[StoredExecution]) -> Result<(), CliFault> {
    for execution in executions {
        let folder = home.join("results").join(execution.id.to_string());
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                let message = format!("cannot remove `{}`: {}", folder.display(), io_error_text(&error));
                return Err(CliFault::internal("files.out", message));
            }
            _ => {}
        }
    }
    Ok(())
}
