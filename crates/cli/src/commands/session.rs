//! `ringfence session`: list, show, stop, remove and replay sessions.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use ringfence_engine::Engine;
use ringfence_journal::{Event, Kind, Recorder as _, SessionId, SessionState, Status, Text};
use ringfence_store::{Execution, LastRun, Lease, Owner, Session, Sessions, Store, Target};
use serde_json::json;

use super::{no_session, run, store};
use crate::args::{List, SessionCommand, StopWhat};
use crate::fault::{Fault, NOT_HELD, reason};
use crate::print::{Printer, Style, count, escape, moment};
use crate::settings::Settings;
use crate::settings::config::Config;
use crate::settings::servers::Chosen;

mod replay;
mod show;
mod standing;
pub(super) mod workspace;

/// How long `stop` waits until a session is closed.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);
/// The width of the column for kept files, in characters.
const WORKSPACE: usize = 28;
/// The width of the column for the last program, in characters.
const PROGRAM: usize = 20;

/// Runs the subcommand of `session`.
pub(crate) async fn start(command: SessionCommand, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    match command {
        SessionCommand::List(list) => self::list(&list, settings, printer).await,
        SessionCommand::Show(shown) => show::show(&shown, settings, printer).await,
        SessionCommand::Stop(what) => stop(&what, settings, printer).await,
        SessionCommand::Rm(remove) => self::remove(&remove.session, settings, printer).await,
        SessionCommand::Replay(args) => Box::pin(replay::replay(&args, settings, printer)).await,
    }
}

async fn list(list: &List, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let store = match store(settings).await {
        Err(fault) if fault.code == "store.none" => {
            if list.json {
                printer.json(&json!([]))?;
            } else {
                printer.notice(&fault.message);
            }
            return Ok(ExitCode::SUCCESS);
        }
        other => other?,
    };
    let state = list.open.then_some(SessionState::Open);
    let sessions = store
        .sessions(Sessions {
            state,
            limit: Some(list.limit),
            ..Sessions::default()
        })
        .await;
    let waiting = standing::counts(&store).await;
    let listed = sessions.iter().flatten().map(|session| session.id);
    let newest = store.last_runs(&listed.collect::<Vec<_>>()).await;
    store.leave().await;
    let (sessions, waiting, newest) = (sessions?, waiting?, newest?);
    let waits = |session: &Session| waiting.get(&session.id).copied().unwrap_or(0);
    if list.json {
        let rows: Vec<Row<'_>> = sessions
            .iter()
            .map(|session| Row {
                session,
                waiting: waits(session),
                last_run: newest.get(&session.id),
            })
            .collect();
        printer.json(&rows)?;
    } else if sessions.is_empty() {
        printer.notice(if list.open {
            "no session is open"
        } else {
            "there are no sessions yet"
        });
    } else {
        printer.line(&format!(
            "{:<28}  {:<6}  {:<20}  {:>4}  {:<PROGRAM$}  {:<16}  {:>7}  {:<WORKSPACE$}  POLICY",
            "ID", "STATE", "OPENED", "RUNS", "LAST PROGRAM", "STATUS", "WAITING", "WORKSPACE"
        ))?;
        for session in &sessions {
            printer.line(&row(session, (newest.get(&session.id), waits(session)), printer))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A session as `session list --json` prints it.
#[derive(serde::Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    session: &'a Session,
    /// The number of calls that wait for an approval.
    waiting: u64,
    /// The newest run of the session; `None` if it had none.
    last_run: Option<&'a LastRun>,
}

fn row(session: &Session, (last, waiting): (Option<&LastRun>, u64), printer: &Printer) -> String {
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
    let kept = match workspace::brief(session) {
        Some(kept) => format!("{kept:<WORKSPACE$}"),
        None => printer.paint(&format!("{:<WORKSPACE$}", "-"), Style::Faint),
    };
    let program = last.map_or("-", |last| last.program.as_deref().unwrap_or(&last.language));
    let program: String = escape::text(program).replace(['\n', '\r', '\t'], " ");
    let program: String = program.chars().take(PROGRAM).collect();
    let status = last.map_or("-", |last| last.status.name());
    format!(
        "{}  {state}  {opened:<20}  {:>4}  {program:<PROGRAM$}  {status:<16}  {waits}  {kept}  {}",
        session.id, session.executions, session.policy_name
    )
}

/// The kill switch. Opening the engine first cleans up after dead processes, so only running ones must be told.
async fn stop(what: &StopWhat, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let home = settings.journal_home();
    let home = home.map_err(|fault| workspace::unless_no_id(what.session.as_deref(), fault))?;
    // If records are missing, no engine opens; the kill switch works without one.
    let store = Store::open_to_read(&home).await?;
    if store.loss().is_some() {
        let result = stop_what(&store, what, printer).await;
        store.leave().await;
        return result;
    }
    store.leave().await;
    let interrupt = run::listen()?;
    let engine = run::open(&Config::default(), Chosen::default(), settings, &interrupt).await?;
    let result = stop_what(engine.store(), what, printer).await;
    run::leave(engine).await;
    result
}

async fn stop_what(store: &Store, what: &StopWhat, printer: &Printer) -> Result<ExitCode, Fault> {
    let target = match &what.session {
        Some(text) => Target::Session(workspace::meant(store, text).await?),
        None => Target::All,
    };
    stop_in(store, target, printer).await
}

async fn stop_in(store: &Store, target: Target, printer: &Printer) -> Result<ExitCode, Fault> {
    if let Target::Session(id) = target {
        match store.session(id).await? {
            None => return Err(no_session(id)),
            Some(session) if session.state != SessionState::Open => {
                printer.line(&format!("{id}  already {}", session.state.name()))?;
                return Ok(ExitCode::SUCCESS);
            }
            Some(_) => {}
        }
    }
    let meant = store.request_stop(target, run::principal()).await?;
    if meant.is_empty() {
        printer.notice("no session is open");
    }
    for (id, owner) in &meant {
        if *owner == Owner::Nobody {
            close(store, *id).await?;
        }
    }
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let mut open = 0;
    for (id, owner) in meant {
        let closed = closed_by(store, id, deadline).await?;
        open += u64::from(!closed);
        let told = match owner {
            Owner::Told => "its process was told",
            Owner::Gone => "its process is gone",
            Owner::Nobody => "no process had it",
        };
        let state = if closed {
            printer.paint("stopped", Style::Good)
        } else {
            printer.paint("still open", Style::Bad)
        };
        printer.line(&format!("{id}  {state}  ({told})"))?;
        if store.keeps(id).await? {
            printer.notice(&format!("its files are kept: `ringfence session rm {id}` removes them"));
        }
    }
    if open > 0 {
        let message = format!(
            "{} did not close within {} s",
            count(open, "session"),
            PATIENCE.as_secs()
        );
        return Err(Fault::ours("session.stuck", message)
            .hint("`ringfence session show ID` names what runs; end its process")
            .exit(NOT_HELD));
    }
    Ok(ExitCode::SUCCESS)
}

/// Closes a session that no process owns.
async fn close(store: &Store, id: SessionId) -> Result<(), Fault> {
    let lease = Lease::acquire(store.home())?;
    store.adopt_session(&lease, id).await?;
    if store.keeps(id).await? {
        store.end_unfinished(id, Status::Cancelled).await?;
        return Ok(store.park_session(id).await?);
    }
    let reason = Text::clean("stopped");
    store
        .record(Event::host(id, None, Kind::SessionClosed { reason }))
        .await?;
    Ok(())
}

async fn closed_by(store: &Store, id: SessionId, deadline: tokio::time::Instant) -> Result<bool, Fault> {
    loop {
        match store.session(id).await? {
            Some(session) if session.state == SessionState::Open && !workspace::is_parked(&session) => {}
            _ => return Ok(true),
        }
        if tokio::time::Instant::now() >= deadline {
            return Ok(false);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Ends a session and deletes its files, recordings and stored results; its journal stays.
async fn remove(text: &str, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let home = settings.journal_home();
    home.map_err(|fault| workspace::unless_no_id(Some(text), fault))?;
    let interrupt = run::listen()?;
    let engine = run::open(&Config::default(), Chosen::default(), settings, &interrupt).await?;
    let result = remove_in(&engine, text, printer).await;
    run::leave(engine).await;
    result
}

async fn remove_in(engine: &Engine, text: &str, printer: &Printer) -> Result<ExitCode, Fault> {
    let store = engine.store();
    let id = workspace::meant(store, text).await?;
    let session = store.session(id).await?.ok_or_else(|| no_session(id))?;
    let mut code = ExitCode::SUCCESS;
    if !workspace::is_parked(&session) {
        code = stop_in(store, Target::Session(id), printer).await?;
    }
    if store.keeps(id).await? && !engine.remove_kept(id).await? {
        let message = format!("another process took session `{id}` meanwhile: its files are still there");
        return Err(Fault::ours("session.busy", message).hint("try again; `ringfence session list` shows it"));
    }
    let executions = store.executions(id).await?;
    store.forget_recordings(id).await?;
    remove_results(engine.home(), &executions)?;
    printer.notice("nothing of it is kept but its journal, which stays");
    Ok(code)
}

/// Removes the files that hold the full results of executions whose answers were truncated.
fn remove_results(home: &Path, executions: &[Execution]) -> Result<(), Fault> {
    for execution in executions {
        let folder = home.join("results").join(execution.id.to_string());
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                let message = format!("cannot remove `{}`: {}", folder.display(), reason(&error));
                return Err(Fault::ours("files.out", message));
            }
            _ => {}
        }
    }
    Ok(())
}
