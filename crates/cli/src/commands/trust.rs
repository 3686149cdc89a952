//! `ringfence trust`: accepts the configuration file of a folder.

use std::process::ExitCode;

use crate::args::Trust;
use crate::fault::Fault;
use crate::print::Printer;
use crate::settings::Settings;
use crate::settings::config::{self, Config};
use crate::settings::trust;

/// Accepts the folder's file with its present content. A file with errors is not accepted.
pub(crate) fn accept(trust: &Trust, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let file = trust.folder.join(config::FILE);
    if !file.is_file() {
        let message = format!("there is no `{}` in `{}`", config::FILE, trust.folder.display());
        return Err(Fault::ours("trust.read", message).hint("name the folder that has one"));
    }
    Config::find(Some(&file), settings, printer)?;
    let (folder, digest) = trust::accept(&file, settings)?;
    let short = digest.get(..12).unwrap_or(&digest);
    printer.line(&format!(
        "trusted: {folder}/{} as it is now ({short}); a change needs your word again",
        config::FILE
    ))?;
    Ok(ExitCode::SUCCESS)
}
