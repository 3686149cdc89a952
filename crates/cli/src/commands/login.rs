//! `ringfence servers login`: logs in to a remote tool server with a browser.

use std::process::ExitCode;

use crate::args::ServersLogin;
use crate::fault::{CliFault, EXIT_CHECK_FAILED};
use crate::print::Printer;
use crate::settings::CliSettings;
use crate::settings::config::Config;
use crate::settings::servers::{self, ResolvedServers};

/// Prints the page to open and waits until the login there is complete.
pub(crate) async fn login_to_server(
    args: &ServersLogin,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    let config = Config::find(args.rules.config.as_deref(), settings, printer)?;
    let chosen = ResolvedServers::resolve(&args.rules, &config)?;
    let Some(server) = chosen.servers.get(&args.server) else {
        return Err(
            CliFault::internal("server.unknown", format!("no server is named `{}`", args.server))
                .with_hint("`ringfence servers list` names the servers")
                .with_exit(EXIT_CHECK_FAILED),
        );
    };
    let home = settings.home()?;
    // Printed even with `--quiet`: without the address the login cannot be completed.
    let show = |url: &dyn std::fmt::Display| printer.print_to_stderr(&format!("open this page to log in:\n  {url}"));
    ringfence_gateway::login(&home, server, &servers::environment(), |url| show(url))
        .await
        .map_err(|error| CliFault::internal("server.login", error.to_string()).with_exit(EXIT_CHECK_FAILED))?;
    printer.print_line(&format!("logged in to `{}`", args.server))?;
    Ok(ExitCode::SUCCESS)
}
