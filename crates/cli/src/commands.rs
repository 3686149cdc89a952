//! The subcommands, one file each; this file runs the one that the command line names.

use std::process::ExitCode;

use ringfence_journal::SessionId;
use ringfence_store::Store;

use crate::args::CliCommand;
use crate::fault::{CliFault, EXIT_CHECK_FAILED};
use crate::print::Printer;
use crate::settings::CliSettings;

mod approvals;
mod audit;
mod data;
mod demo;
mod doctor;
mod ids;
mod inspect;
mod login;
mod manual;
mod policy;
mod probe;
mod run;
mod serve;
mod server_events;
mod servers;
mod session;
mod skills;
mod token;
mod tools;
mod trust;
mod vault;

/// Runs the command and returns the exit code of the program.
pub(crate) async fn run_command(
    command: CliCommand,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    if !matches!(
        command,
        CliCommand::Company | CliCommand::Completions(_) | CliCommand::Man(_)
    ) {
        settings.close_home(printer);
    }
    if matches!(command, CliCommand::Run(_) | CliCommand::Exec(_)) {
        ringfence_sandbox::load_worker_ahead();
    }
    match command {
        CliCommand::Run(run) => run::run_file(run, settings, printer).await,
        CliCommand::Exec(exec) => run::run_command_line(exec, settings, printer).await,
        CliCommand::Serve(args) => Box::pin(serve::serve_clients(args, settings, printer)).await,
        CliCommand::Tools(tools) => Box::pin(tools::dispatch(tools, settings, printer)).await,
        CliCommand::Servers(servers) => Box::pin(servers::dispatch(servers, settings, printer)).await,
        CliCommand::Token(token) => token::dispatch(token, settings, printer).await,
        CliCommand::Vault(vault) => vault::dispatch(vault, settings, printer),
        CliCommand::Policy(policy) => policy::dispatch(policy, settings, printer).await,
        CliCommand::Session(session) => session::dispatch(session, settings, printer).await,
        CliCommand::Approvals(approvals) => approvals::dispatch(approvals, settings, printer).await,
        CliCommand::Skills(skills) => skills::dispatch(skills, settings, printer).await,
        CliCommand::Data(data) => Box::pin(data::dispatch(data, settings, printer)).await,
        CliCommand::Audit(audit) => audit::dispatch(audit, settings, printer).await,
        CliCommand::Probe(args) => Box::pin(probe::run_probes(&args, settings, printer)).await,
        CliCommand::Doctor(machine) => doctor::examine_machine(&machine, settings, printer).await,
        CliCommand::Demo => demo::run_demo(settings, printer).await,
        CliCommand::Trust(trust) => trust::accept_folder(&trust, settings, printer),
        CliCommand::Completions(args) => manual::print_completions(args.shell, printer),
        CliCommand::Man(args) => manual::print_manual_page(&args.command, printer),
        CliCommand::Company => ringfence_company::serve_stdio()
            .await
            .map(|()| ExitCode::SUCCESS)
            .map_err(|error| CliFault::internal("server.failed", error.to_string())),
    }
}

/// Opens the store to inspect the journal and never creates one. If records are missing, only stop requests are written.
async fn open_store(settings: &CliSettings) -> Result<Store, CliFault> {
    let home = settings
        .journal_home()
        .map_err(|fault| fault.with_exit(EXIT_CHECK_FAILED))?;
    Ok(Store::open_to_read(&home).await?)
}

/// Parses a whole session id from the command line.
fn parse_session_id(text: &str) -> Result<SessionId, CliFault> {
    text.parse().map_err(|error: ringfence_journal::IdError| {
        CliFault::internal("session.id", format!("`{text}` is {error}"))
            .with_hint("`ringfence session list` shows the ids")
            .with_exit(EXIT_CHECK_FAILED)
    })
}

fn session_not_found(id: SessionId) -> CliFault {
    CliFault::internal("session.unknown", format!("there is no session `{id}`"))
        .with_hint("`ringfence session list` shows the ids")
        .with_exit(EXIT_CHECK_FAILED)
}
