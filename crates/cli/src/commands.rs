//! The subcommands, one file each; this file runs the one that the command line names.

use std::process::ExitCode;

use ringfence_journal::SessionId;
use ringfence_store::Store;

use crate::args::Command;
use crate::fault::{Fault, NOT_HELD};
use crate::print::Printer;
use crate::settings::Settings;

mod approvals;
mod audit;
mod changes;
mod data;
mod demo;
mod doctor;
mod ids;
mod inside;
mod login;
mod manual;
mod policy;
mod probe;
mod run;
mod serve;
mod servers;
mod session;
mod skills;
mod token;
mod tools;
mod trust;
mod vault;

/// Runs the command and returns the exit code of the program.
pub(crate) async fn start(command: Command, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    if !matches!(command, Command::Company | Command::Completions(_) | Command::Man(_)) {
        settings.close_home(printer);
    }
    match command {
        Command::Run(run) => run::code(run, settings, printer).await,
        Command::Exec(exec) => run::program(exec, settings, printer).await,
        Command::Serve(args) => Box::pin(serve::serve(args, settings, printer)).await,
        Command::Tools(tools) => Box::pin(tools::start(tools, settings, printer)).await,
        Command::Servers(servers) => Box::pin(servers::start(servers, settings, printer)).await,
        Command::Token(token) => token::start(token, settings, printer).await,
        Command::Vault(vault) => vault::start(vault, settings, printer),
        Command::Policy(policy) => policy::start(policy, settings, printer).await,
        Command::Session(session) => session::start(session, settings, printer).await,
        Command::Approvals(approvals) => approvals::start(approvals, settings, printer).await,
        Command::Skills(skills) => skills::start(skills, settings, printer).await,
        Command::Data(data) => Box::pin(data::start(data, settings, printer)).await,
        Command::Audit(audit) => audit::start(audit, settings, printer).await,
        Command::Probe(args) => Box::pin(probe::probe(&args, settings, printer)).await,
        Command::Doctor(machine) => doctor::examine(&machine, settings, printer).await,
        Command::Demo => demo::show(settings, printer).await,
        Command::Trust(trust) => trust::accept(&trust, settings, printer),
        Command::Completions(args) => manual::completions(args.shell, printer),
        Command::Man(args) => manual::page(&args.command, printer),
        Command::Company => ringfence_company::serve_stdio()
            .await
            .map(|()| ExitCode::SUCCESS)
            .map_err(|error| Fault::ours("server.failed", error.to_string())),
    }
}

/// Opens the store to inspect the journal and never creates one. If records are missing, only stop requests are written.
async fn store(settings: &Settings) -> Result<Store, Fault> {
    let home = settings.journal_home().map_err(|fault| fault.exit(NOT_HELD))?;
    Ok(Store::open_to_read(&home).await?)
}

/// Parses a whole session id from the command line.
fn session_id(text: &str) -> Result<SessionId, Fault> {
    text.parse().map_err(|error: ringfence_journal::IdError| {
        Fault::ours("session.id", format!("`{text}` is {error}"))
            .hint("`ringfence session list` shows the ids")
            .exit(NOT_HELD)
    })
}

fn no_session(id: SessionId) -> Fault {
    Fault::ours("session.unknown", format!("there is no session `{id}`"))
        .hint("`ringfence session list` shows the ids")
        .exit(NOT_HELD)
}
