//! `ringfence data`: shows a person the value behind an alias. No network endpoint offers this.

use std::process::ExitCode;

use ringfence_engine::Engine;
use ringfence_journal::SessionState;

use super::session::workspace;
use super::{no_session, run};
use crate::args::{DataCommand, RevealArgs};
use crate::fault::{Fault, NOT_HELD};
use crate::print::Printer;
use crate::settings::Settings;
use crate::settings::config::Config;
use crate::settings::servers::Chosen;

/// Runs the subcommand of `data`.
pub(crate) async fn start(command: DataCommand, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    match command {
        DataCommand::Reveal(args) => reveal(&args, settings, printer).await,
    }
}

async fn reveal(args: &RevealArgs, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    settings.journal_home()?;
    let interrupt = run::listen()?;
    let engine = run::open(&Config::default(), Chosen::default(), settings, &interrupt).await?;
    let value = reveal_in(&engine, args).await;
    run::leave(engine).await;
    printer.line(&value?)?;
    Ok(ExitCode::SUCCESS)
}

async fn reveal_in(engine: &Engine, args: &RevealArgs) -> Result<String, Fault> {
    let id = workspace::meant(engine.store(), &args.session).await?;
    let session = engine.store().session(id).await?.ok_or_else(|| no_session(id))?;
    if session.state != SessionState::Open {
        let message = format!("session `{id}` is over, and what its aliases stand for was deleted with it");
        return Err(Fault::ours("alias.deleted", message)
            .hint("run the program again in a session that stays: `--session NAME` with `keep: true`")
            .exit(NOT_HELD));
    }
    engine.reveal_alias(&session, &args.alias).await?.ok_or_else(|| {
        Fault::ours("alias.unknown", format!("session `{id}` has no alias `{}`", args.alias))
            .hint("an alias belongs to the session that gave it, and looks like `‹email:abcd›`")
            .exit(NOT_HELD)
    })
}
