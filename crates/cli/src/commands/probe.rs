//! `ringfence probe`: tries to break out of a sandbox on this machine.

use std::io::Write as _;
use std::process::ExitCode;

use ringfence_probe::{AttackSetup, ProbeFinding, ProbeOutcome};
use ringfence_sandbox::Backend;

use crate::args::ProbeArgs;
use crate::fault::{CliFault, EXIT_CHECK_FAILED, error_chain, io_error_text, launch_fault};
use crate::print::Printer;
use crate::settings::CliSettings;
use crate::settings::config::Config;
use crate::settings::policy_layers;

/// Runs the probes; exit code 1 means that one of them succeeded.
pub(crate) async fn run_probes(
    args: &ProbeArgs,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    let kind = args.backend.kind()?;
    let config = Config::find(args.rules.config.as_deref(), settings, printer)?;
    let policy = policy_layers::policy_in_force(&args.rules, None, &config)?;
    let exe = std::env::current_exe().map_err(|error| {
        CliFault::internal(
            "probe.program",
            format!("cannot find this program's own file: {}", io_error_text(&error)),
        )
    })?;
    let backend =
        Backend::new(kind, &format!("ringfence-probe-{}", std::process::id())).map_err(|error| launch_fault(&error))?;
    let mut done = 0_usize;
    let mut told = |finding: &ProbeFinding| {
        done += 1;
        if printer.stderr_is_terminal() {
            let mut stderr = std::io::stderr().lock();
            // A failed write is ignored: the terminal is gone.
            let _ = write!(stderr, "\r\u{1b}[K{done} {}", finding.name).and_then(|()| stderr.flush());
        }
    };
    let report = Box::pin(ringfence_probe::run_sandbox_probes(&backend, &policy, &exe, &mut told)).await;
    if printer.stderr_is_terminal() {
        let _ = write!(std::io::stderr().lock(), "\r\u{1b}[K");
    }
    let failed = |error: &dyn std::error::Error| {
        CliFault::internal("probe.failed", error_chain(error)).with_hint("`ringfence doctor` shows what works here")
    };
    let mut report = report.map_err(|error| failed(&error))?;
    let own = exe.clone();
    let at_door =
        tokio::task::spawn_blocking(move || ringfence_probe::run_egress_probes(&own, AttackSetup::Fenced)).await;
    let at_door = at_door.map_err(|error| failed(&error))?;
    report.add(at_door.map_err(|error| failed(&error))?);
    let records = tokio::task::spawn_blocking(move || ringfence_probe::run_records_probes(&exe)).await;
    let records = records.map_err(|error| failed(&error))?;
    report.add(records.map_err(|error| failed(&error))?);
    if args.json {
        printer.print_json(&report)?;
    } else {
        printer.print_escaped(&report.table())?;
    }
    Ok(if report.count(ProbeOutcome::Broken) == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(EXIT_CHECK_FAILED)
    })
}
