//! `ringfence policy`: check, show, explain, compare and learn policies.

use std::process::ExitCode;

use crate::args::PolicyCommand;
use crate::fault::Fault;
use crate::print::Printer;
use crate::settings::Settings;

mod check;
mod diff;
mod explain;
mod learn;
mod show;

pub(crate) use learn::Lesson;

/// Runs the subcommand of `policy`.
pub(crate) async fn start(command: PolicyCommand, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    match command {
        PolicyCommand::Check(check) => check::check(&check, printer),
        PolicyCommand::Show(shown) => show::show(&shown, settings, printer).await,
        PolicyCommand::Explain(explain) => explain::explain(&explain, settings, printer).await,
        PolicyCommand::Diff(compare) => diff::diff(&compare, printer),
        PolicyCommand::Schema => {
            let schema = serde_json::to_string_pretty(&ringfence_policy::schema());
            let schema = schema.map_err(|error| Fault::ours("output.json", error.to_string()))?;
            printer.line(&schema).map(|()| ExitCode::SUCCESS)
        }
        PolicyCommand::Learn(learn) => learn::learn(&learn, settings, printer).await,
    }
}
