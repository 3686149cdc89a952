//! `ringfence data`: shows a person the value behind an alias. No network endpoint offers this.

use std::process::ExitCode;

use ringfence_engine::Engine;
use ringfence_journal::SessionState;

use super::session::workspace;
use super::{run, session_not_found};
use crate::args::{DataCommand, RevealArgs};
use crate::fault::{CliFault, EXIT_CHECK_FAILED};
use crate::print::Printer;
use crate::settings::CliSettings;
use crate::settings::config::Config;
use crate::settings::servers::ResolvedServers;

/// Runs the subcommand of `data`.
pub(crate) async fn dispatch(
    command: DataCommand,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    match command {
        DataCommand::Reveal(args) => reveal_alias(&args, settings, printer).await,
    }
}

async fn reveal_alias(args: &RevealArgs, settings: &CliSettings, printer: &Printer) -> Result<ExitCode, CliFault> {
    settings.journal_home()?;
    let interrupt = run::listen_for_signals()?;
    let engine = run::open_engine(&Config::default(), ResolvedServers::default(), settings, &interrupt).await?;
    let value = reveal_with_engine(&engine, args).await;
    run::shutdown_engine(engine).await;
    printer.print_line(&value?)?;
    Ok(ExitCode::SUCCESS)
}

async fn reveal_with_engine(engine: &Engine, args: &RevealArgs) -> Result<String, CliFault> {
    let id = workspace::resolve_session(engine.store(), &args.session).await?;
    let session = engine.store().session(id).await?.ok_or_else(|| session_not_found(id))?;
    if session.state != SessionState::Open {
        let message = format!("session `{id}` is over, and what its aliases stand for was deleted with it");
        return Err(CliFault::internal("alias.deleted", message)
            .with_hint("run the program again in a session that stays: `--session NAME` with `keep: true`")
            .with_exit(EXIT_CHECK_FAILED));
    }
    engine
        .sessions()
        .reveal_alias(&session, &args.alias)
        .await?
        .ok_or_else(|| {
            CliFault::internal("alias.unknown", format!("session `{id}` has no alias `{}`", args.alias))
                .with_hint("an alias belongs to the session that gave it, and looks like `‹email:abcd›`")
                .with_exit(EXIT_CHECK_FAILED)
        })
}
