//! `ringfence policy`: check, show, explain, compare and learn policies.

use std::process::ExitCode;

use crate::args::PolicyCommand;
use crate::fault::CliFault;
use crate::print::Printer;
use crate::settings::CliSettings;

mod check;
mod diff;
mod explain;
mod learn;
mod show;

pub(crate) use learn::LearnedPolicy;

/// Runs the subcommand of `policy`.
pub(crate) async fn dispatch(
    command: PolicyCommand,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    match command {
        PolicyCommand::Check(check) => check::check_policy(&check, printer),
        PolicyCommand::Show(shown) => show::show_policy(&shown, settings, printer).await,
        PolicyCommand::Explain(explain) => explain::explain_decision(&explain, settings, printer).await,
        PolicyCommand::Diff(compare) => diff::diff_policies(&compare, printer),
        PolicyCommand::Schema => {
            let schema = serde_json::to_string_pretty(&ringfence_policy::schema());
            let schema = schema.map_err(|error| CliFault::internal("output.json", error.to_string()))?;
            printer.print_line(&schema).map(|()| ExitCode::SUCCESS)
        }
        PolicyCommand::Learn(learn) => learn::learn_policy(&learn, settings, printer).await,
    }
}
