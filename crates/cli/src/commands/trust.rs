//! `ringfence trust`: accepts the configuration file of a folder.

use std::process::ExitCode;

use crate::args::TrustArgs;
use crate::fault::CliFault;
use crate::print::Printer;
use crate::settings::CliSettings;
use crate::settings::config;
use crate::settings::trust;

/// Accepts the folder's file with its present content. A file with errors is not accepted.
pub(crate) fn accept_folder(
    trust: &TrustArgs,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    let file = trust.folder.join(config::CONFIG_FILE);
    if !file.is_file() {
        let message = format!("there is no `{}` in `{}`", config::CONFIG_FILE, trust.folder.display());
        return Err(CliFault::internal("trust.read", message).with_hint("name the folder that has one"));
    }
    let (folder, accepted) = trust::accept_file(&file, settings)?;
    let short = accepted.digest.get(..12).unwrap_or(&accepted.digest);
    let names: Vec<String> = accepted.named.keys().map(|name| format!("`{name}`")).collect();
    let with = if names.is_empty() { "" } else { ", with " };
    printer.print_line(&format!(
        "trusted: {folder}/{} as it is now ({short}){with}{}; a change needs your word again",
        config::CONFIG_FILE,
        names.join(", ")
    ))?;
    Ok(ExitCode::SUCCESS)
}
