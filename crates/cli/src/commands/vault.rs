//! `ringfence vault`: manages the secrets that configurations refer to, in an encrypted file.

use std::io::{self, IsTerminal as _, Read as _};
use std::process::ExitCode;

mod hidden;

use ringfence_gateway::{Secret, Vault, VaultError};

use hidden::Typed;

use crate::args::VaultCommand;
use crate::fault::{CANCELLED, Fault, NOT_HELD, chain, reason};
use crate::print::Printer;
use crate::settings::{Settings, servers};

/// The most bytes to read, above the limit of a secret.
const MAX_SECRET: usize = 65 * 1024;

pub(crate) fn start(command: VaultCommand, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let vault = Vault::find(&settings.home()?, &servers::environment());
    match command {
        VaultCommand::Set(args) => {
            let secret = secret(&args.name, printer)?;
            vault.set(&args.name, &secret).map_err(|error| fault(&error))?;
            printer.notice(&format!("kept; refer to it as `vault:{}`", args.name));
        }
        VaultCommand::List(args) => {
            let names = vault.names().map_err(|error| fault(&error))?;
            if args.json {
                printer.json(&names)?;
            } else if names.is_empty() {
                printer.notice("the vault is empty; `ringfence vault set NAME` reads a secret from standard input");
            }
            for name in names.iter().filter(|_| !args.json) {
                printer.line(name)?;
            }
        }
        VaultCommand::Rm(args) => {
            if !vault.remove(&args.name).map_err(|error| fault(&error))? {
                let message = format!("the vault has no secret `{}`", args.name);
                return Err(Fault::ours("vault.unknown", message)
                    .hint("`ringfence vault list` names what is in it")
                    .exit(NOT_HELD));
            }
            printer.notice(&format!("`{}` is forgotten", args.name));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a secret from standard input: on the command line it would be in the shell's history and in process lists.
fn secret(name: &str, printer: &Printer) -> Result<Secret, Fault> {
    let unread = |error: io::Error| Fault::ours("vault.read", format!("cannot read the secret: {}", reason(&error)));
    let stdin = io::stdin();
    let text = if stdin.is_terminal() {
        typed(name, printer).map_err(unread)??
    } else {
        let mut text = Vec::new();
        stdin
            .lock()
            .take(MAX_SECRET as u64)
            .read_to_end(&mut text)
            .map_err(unread)?;
        text
    };
    let text = String::from_utf8(text)
        .map_err(|_| Fault::ours("vault.read", "the secret is not a text").hint("encode it, as base64 for instance"))?;
    Ok(Secret::new(text.trim_end_matches(['\r', '\n'])))
}

/// Reads a secret from the terminal without showing it.
fn typed(name: &str, printer: &Printer) -> io::Result<Result<Vec<u8>, Fault>> {
    let ask = || {
        printer.aside(&format!(
            "type or paste the secret `{name}`, which is not shown; Enter ends it"
        ));
    };
    Ok(match hidden::read_line(MAX_SECRET, ask)? {
        Typed::Line(line) => Ok(line),
        Typed::SeveralLines => Err(
            Fault::ours("vault.read", "the secret has several lines, and nothing was kept")
                .hint(format!("give it as a file: `ringfence vault set {name} < FILE`")),
        ),
        Typed::Cancelled => Err(Fault::ours("cancelled", "cancelled, nothing was kept").exit(CANCELLED)),
    })
}

fn fault(error: &VaultError) -> Fault {
    Fault::ours("vault.failed", chain(error)).hint(error.hint())
}
