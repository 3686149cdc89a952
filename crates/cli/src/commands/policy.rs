//! `ringfence policy`: check, show, explain, compare.

use std::process::ExitCode;

use crate::args::PolicyCommand;
use crate::fault::{Fault, NOT_HELD};
use crate::print::Printer;
use crate::settings::Settings;

mod check;
mod diff;
mod explain;
mod show;

/// Sends each to its own.
pub(crate) async fn start(command: PolicyCommand, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    match command {
        PolicyCommand::Check(check) => check::check(&check, printer),
        PolicyCommand::Show(shown) => show::show(&shown, settings, printer).await,
        PolicyCommand::Explain(explain) => explain::explain(&explain, settings, printer),
        PolicyCommand::Diff(compare) => diff::diff(&compare, printer),
        PolicyCommand::Schema => {
            let schema = serde_json::to_string_pretty(&ringfence_policy::schema());
            let schema = schema.map_err(|error| Fault::ours("output.json", error.to_string()))?;
            printer.line(&schema).map(|()| ExitCode::SUCCESS)
        }
        PolicyCommand::Learn { .. } => {
            let message =
                "`policy learn` comes with the door out: without tools and network there is nothing to learn yet";
            Err(Fault::ours("policy.unbuilt", message)
                .hint("`ringfence session show ID` says what a session tried")
                .exit(NOT_HELD))
        }
    }
}
