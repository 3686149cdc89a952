//! `ringfence demo`: a program that calls tools, six programs that try forbidden things, and the journal of all of them.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use ringfence_engine::{Engine, ExecutionReport, ExecutionRequest, RunProgram};
use ringfence_journal::SessionId;
use ringfence_policy::{Ceiling, Draft, Policy};

use super::run;
use crate::fault::{CliFault, EXIT_CHECK_FAILED, error_chain};
use crate::print::{Printer, Style, counted, event};
use crate::settings::CliSettings;
use crate::settings::config::Config;
use crate::signals::Interrupt;

mod attempts;
mod code_mode;

use attempts::DemoAttempt;

/// Runs the whole demo. The data folder is temporary and removed at the end, unless `RINGFENCE_HOME` names one.
pub(crate) async fn run_demo(settings: &CliSettings, printer: &Printer) -> Result<ExitCode, CliFault> {
    let started = Instant::now();
    let folder = tempfile::Builder::new().prefix("ringfence-demo-").tempdir();
    let folder = folder
        .map_err(|error| CliFault::internal("start.folder", format!("cannot make a temporary folder: {error}")))?;
    let home = if settings.home_is_named {
        settings.home()?
    } else {
        folder.path().join("home")
    };
    let interrupt = run::listen_for_signals()?;
    let engine = run::open_engine_at(home, &Config::default(), code_mode::example_servers()?, &interrupt).await?;
    let demo = Demo {
        engine: &engine,
        printer,
        interrupt: &interrupt,
        sessions: RefCell::default(),
    };
    let result = demo.run_all(folder.path()).await;
    run::shutdown_engine(engine).await;
    let held = result?;
    printer.print_line(&next_steps(printer, settings, started))?;
    Ok(if held {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(EXIT_CHECK_FAILED)
    })
}

struct Demo<'a> {
    engine: &'a Engine,
    printer: &'a Printer,
    interrupt: &'a Interrupt,
    /// The sessions of this demo; an existing journal also contains others.
    sessions: RefCell<Vec<SessionId>>,
}

impl Demo<'_> {
    /// Runs all parts; returns whether everything forbidden was blocked and the journal verifies.
    async fn run_all(&self, folder: &Path) -> Result<bool, CliFault> {
        let refused = self.run_code_mode().await?;
        let held = self.run_attempts(folder).await?;
        let sound = self.show_journal().await?;
        Ok(refused && held && sound)
    }

    /// Runs a program to its end. Approval requests are not printed: nobody can answer them before they expire.
    async fn run_program(&self, policy: Policy, program: RunProgram) -> Result<ExecutionReport, CliFault> {
        let nobody = &mut ();
        let run = self.engine.run(ExecutionRequest::new(policy, program), nobody);
        tokio::pin!(run);
        let execution = loop {
            tokio::select! {
                execution = &mut run => break execution?,
                () = run::wait_for_cancel(self.interrupt) => self.engine.cancel_all(),
            }
        };
        self.sessions.borrow_mut().push(execution.session_id);
        Ok(execution)
    }

    async fn run_attempts(&self, folder: &Path) -> Result<bool, CliFault> {
        let secret = write_secret(folder)?;
        self.printer.print_line("")?;
        self.printer.print_line(
            &self
                .printer
                .paint("Six programs that try what they should not", Style::Strong),
        )?;
        let mut held = true;
        for attempt in attempts::demo_attempts(&secret) {
            let execution = self
                .run_program(demo_policy(attempt.set)?, attempt.program.clone())
                .await?;
            let blocked = attempt.blocked_by(&execution);
            held &= blocked.is_some();
            self.printer
                .print_line(&self.attempt_row(&attempt, blocked.as_deref()))?;
        }
        Ok(held)
    }

    fn attempt_row(&self, attempt: &DemoAttempt, blocked: Option<&str>) -> String {
        let word = match blocked {
            Some(_) => self.printer.paint("blocked", Style::Good),
            None => self.printer.paint("NOT BLOCKED", Style::Bad),
        };
        let rule = self.printer.paint(&format!("{:<18}", attempt.rule), Style::Strong);
        let how = self
            .printer
            .paint(blocked.unwrap_or("this must not be: please report it"), Style::Faint);
        format!("  {word}  {:<32} {rule} {how}", attempt.name)
    }

    /// Prints the notable events of the demo's sessions; returns whether the chains of the journal are unbroken.
    async fn show_journal(&self) -> Result<bool, CliFault> {
        let store = self.engine.store();
        self.printer.print_line("")?;
        self.printer
            .print_line(&self.printer.paint("What was written down", Style::Strong))?;
        let sessions = self.sessions.borrow().clone();
        for session in sessions {
            for event in store
                .session_records(session)
                .await?
                .iter()
                .filter_map(|record| record.event().ok())
            {
                let name = event.kind.name();
                if matches!(
                    name,
                    "execution_ended" | "violation" | "limit_hit" | "call_refused" | "server_used"
                ) {
                    self.printer
                        .print_line(&format!("  {name:<16} {}", event::describe_event(&event.kind)))?;
                }
            }
        }
        let report = store.verify(|_| ()).await?;
        let (records, sessions) = (counted(report.records, "record"), counted(report.sessions, "session"));
        let word = if report.is_ok() {
            self.printer.paint("unbroken", Style::Good)
        } else {
            self.printer.paint("BROKEN", Style::Bad)
        };
        self.printer.print_line(&format!(
            "  {records} in {sessions}, hashed and signed: the chain is {word}"
        ))?;
        Ok(report.is_ok())
    }
}

/// The preset `demo` with some keys changed.
fn demo_policy(set: &[(&str, &str)]) -> Result<Policy, CliFault> {
    let mut draft = Draft::preset("demo").unwrap_or_else(Draft::builtin);
    for (key, value) in set {
        draft = draft
            .set(key, value)
            .map_err(crate::settings::policy_layers::parse_fault)?;
    }
    draft
        .under(&Ceiling::unlimited())
        .map_err(|error| CliFault::refused("policy.incomplete", error_chain(&error)))
}

/// Writes a file on the host that a program tries to read.
fn write_secret(folder: &Path) -> Result<PathBuf, CliFault> {
    let path = folder.join("secret.txt");
    std::fs::write(&path, attempts::HOST_SECRET)
        .map_err(|error| CliFault::internal("start.folder", format!("cannot write `{}`: {error}", path.display())))?;
    Ok(path)
}

/// The commands to try next, as they work on this machine with these settings.
fn next_steps(printer: &Printer, settings: &CliSettings, started: Instant) -> String {
    let milliseconds = started.elapsed().as_millis();
    let took = format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100);
    let kept = if settings.home_is_named {
        "the journal stays in RINGFENCE_HOME"
    } else {
        "nothing was kept"
    };
    let program = settings.own_command();
    let mut steps = vec![
        (
            format!("{program} run FILE.ts"),
            "your own program; .js .py .sh as well",
        ),
        (
            format!("{program} exec -- CMD"),
            "any program of this machine, confined",
        ),
        (
            format!("{program} tools list --servers FILE"),
            "the tools of your own servers, as in other clients' `mcpServers`",
        ),
        (
            format!("{program} policy show"),
            "every rule in force, and what holds it here",
        ),
        (format!("{program} doctor"), "what this machine can enforce"),
        (format!("{program} probe"), "try to break out, here and now"),
    ];
    // Without a kept data folder there is no journal to inspect.
    let journal = if settings.journal_home().is_ok() {
        (format!("{program} audit tail"), "what happened")
    } else {
        let command = format!("RINGFENCE_HOME=DIR {program} demo");
        (command, "the same, and its journal stays, for `audit tail`")
    };
    steps.insert(4, journal);
    let width = steps
        .iter()
        .map(|(command, _)| command.chars().count())
        .max()
        .unwrap_or(0);
    let lines = steps
        .iter()
        .map(|(command, what)| format!("  {command:<width$}   {what}\n"));
    let title = printer.paint("Next", Style::Strong);
    let (lines, end) = (lines.collect::<String>(), format!("{took}; {kept}."));
    format!("\n{title}\n{lines}\n{}", printer.paint(&end, Style::Faint))
}
