//! `ringfence servers login`: logs in to a remote tool server with a browser.

use std::process::ExitCode;

use crate::args::ServersLogin;
use crate::fault::{Fault, NOT_HELD};
use crate::print::Printer;
use crate::settings::Settings;
use crate::settings::config::Config;
use crate::settings::servers::{self, Chosen};

/// Prints the page to open and waits until the login there is complete.
pub(crate) async fn login(args: &ServersLogin, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let config = Config::find(args.rules.config.as_deref(), settings, printer)?;
    let chosen = Chosen::of(&args.rules, &config)?;
    let Some(server) = chosen.servers.get(&args.server) else {
        return Err(
            Fault::ours("server.unknown", format!("no server is named `{}`", args.server))
                .hint("`ringfence servers list` names the servers")
                .exit(NOT_HELD),
        );
    };
    let home = settings.home()?;
    // Printed even with `--quiet`: without the address the login cannot be completed.
    let show = |url: &dyn std::fmt::Display| printer.aside(&format!("open this page to log in:\n  {url}"));
    ringfence_gateway::login(&home, server, &servers::environment(), |url| show(url))
        .await
        .map_err(|error| Fault::ours("server.login", error.to_string()).exit(NOT_HELD))?;
    printer.line(&format!("logged in to `{}`", args.server))?;
    Ok(ExitCode::SUCCESS)
}
