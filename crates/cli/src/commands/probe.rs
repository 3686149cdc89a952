//! `ringfence probe`: tries to break out of a sandbox on this machine.

use std::io::Write as _;
use std::process::ExitCode;

use ringfence_probe::{Field, Finding, Outcome};
use ringfence_sandbox::Native;

use crate::args::Probe;
use crate::fault::{Fault, NOT_HELD, chain, launch, reason};
use crate::print::Printer;
use crate::settings::Settings;
use crate::settings::config::Config;
use crate::settings::rules;

/// Runs the probes; exit code 1 means that one of them succeeded.
pub(crate) async fn probe(args: &Probe, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    args.backend.available()?;
    let config = Config::find(args.rules.config.as_deref(), settings, printer)?;
    let policy = rules::in_force(&args.rules, None, &config)?;
    let exe = std::env::current_exe().map_err(|error| {
        Fault::ours(
            "probe.program",
            format!("cannot find this program's own file: {}", reason(&error)),
        )
    })?;
    let native = Native::new(&format!("ringfence-probe-{}", std::process::id())).map_err(|error| launch(&error))?;
    let mut done = 0_usize;
    let mut told = |finding: &Finding| {
        done += 1;
        if printer.stderr_is_terminal() {
            let mut stderr = std::io::stderr().lock();
            // A failed write is ignored: the terminal is gone.
            let _ = write!(stderr, "\r\u{1b}[K{done} {}", finding.name).and_then(|()| stderr.flush());
        }
    };
    let report = Box::pin(ringfence_probe::run(&native, &policy, &exe, &mut told)).await;
    if printer.stderr_is_terminal() {
        let _ = write!(std::io::stderr().lock(), "\r\u{1b}[K");
    }
    let failed = |error: &dyn std::error::Error| {
        Fault::ours("probe.failed", chain(error)).hint("`ringfence doctor` shows what works here")
    };
    let mut report = report.map_err(|error| failed(&error))?;
    let own = exe.clone();
    let at_door = tokio::task::spawn_blocking(move || ringfence_probe::door(&own, Field::Fenced)).await;
    let at_door = at_door.map_err(|error| failed(&error))?;
    report.add(at_door.map_err(|error| failed(&error))?);
    let records = tokio::task::spawn_blocking(move || ringfence_probe::records(&exe)).await;
    let records = records.map_err(|error| failed(&error))?;
    report.add(records.map_err(|error| failed(&error))?);
    if args.json {
        printer.json(&report)?;
    } else {
        printer.data(&report.table())?;
    }
    Ok(if report.count(Outcome::Broken) == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NOT_HELD)
    })
}
