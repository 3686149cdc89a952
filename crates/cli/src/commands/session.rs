//! `ringfence session`: list, show, stop, remove.

use std::process::ExitCode;
use std::time::Duration;

use ringfence_journal::{Event, Kind, Recorder as _, SessionId, SessionState, Text};
use ringfence_store::{Lease, Owner, Session, Sessions, Store, Target};
use serde_json::json;

use super::{no_session, run, session_id, store};
use crate::args::{List, SessionCommand, StopWhat};
use crate::fault::{Fault, NOT_HELD};
use crate::print::{Printer, Style, count};
use crate::settings::Settings;
use crate::settings::config::Config;
use crate::settings::servers::Chosen;

mod show;

/// How long `stop` waits for a session to be closed.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);

/// Sends each to its own.
pub(crate) async fn start(command: SessionCommand, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    match command {
        SessionCommand::List(list) => self::list(&list, settings, printer).await,
        SessionCommand::Show(shown) => show::show(&shown, settings, printer).await,
        SessionCommand::Stop(what) => stop(&what, settings, printer).await,
        SessionCommand::Rm(remove) => self::remove(&remove.session, settings, printer).await,
        SessionCommand::Replay { .. } => {
            let message = "`session replay` comes later";
            let fault = Fault::ours("session.unbuilt", message).exit(NOT_HELD);
            Err(fault.hint("`ringfence session show ID` says what a session did"))
        }
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
    store.leave().await;
    let sessions = sessions?;
    if list.json {
        printer.json(&sessions)?;
    } else if sessions.is_empty() {
        printer.notice(if list.open {
            "no session is open"
        } else {
            "there are no sessions yet"
        });
    } else {
        printer.line(&format!(
            "{:<28}  {:<6}  {:<20}  {:>4}  POLICY",
            "ID", "STATE", "OPENED", "RUNS"
        ))?;
        for session in &sessions {
            printer.line(&row(session, printer))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn row(session: &Session, printer: &Printer) -> String {
    let opened = session.created.to_string();
    let opened = opened
        .split('.')
        .next()
        .unwrap_or(&opened)
        .trim_end_matches('Z')
        .replace('T', " ");
    let style = match session.state {
        SessionState::Open => Style::Good,
        SessionState::Closed => Style::Faint,
        SessionState::Lost => Style::Bad,
    };
    let state = printer.paint(&format!("{:<6}", session.state.name()), style);
    format!(
        "{}  {state}  {opened:<20}  {:>4}  {}",
        session.id, session.executions, session.policy_name
    )
}

/// The kill switch. Opening the engine sweeps after the dead first, so that only the living have to be told.
async fn stop(what: &StopWhat, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let target = match &what.session {
        Some(text) => Target::Session(session_id(text)?),
        None => Target::All,
    };
    settings.journal_home()?;
    let interrupt = run::listen()?;
    let engine = run::open(&Config::default(), Chosen::default(), settings, &interrupt).await?;
    let result = stop_in(engine.store(), target, printer).await;
    run::leave(engine).await;
    result
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

/// A session that no process has is closed here.
async fn close(store: &Store, id: SessionId) -> Result<(), Fault> {
    let lease = Lease::acquire(store.home())?;
    store.adopt_session(&lease, id).await?;
    let reason = Text::clean("stopped");
    store
        .record(Event::host(id, None, Kind::SessionClosed { reason }))
        .await?;
    Ok(())
}

async fn closed_by(store: &Store, id: SessionId, deadline: tokio::time::Instant) -> Result<bool, Fault> {
    loop {
        match store.session(id).await? {
            Some(session) if session.state == SessionState::Open => {}
            _ => return Ok(true),
        }
        if tokio::time::Instant::now() >= deadline {
            return Ok(false);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Ends a session; what happened in it stays written.
async fn remove(text: &str, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let what = StopWhat {
        session: Some(text.to_owned()),
        all: false,
    };
    let code = stop(&what, settings, printer).await?;
    printer.notice("nothing of it is kept but its journal, which stays");
    Ok(code)
}
