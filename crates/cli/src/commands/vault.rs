//! `ringfence vault`: manages the secrets that configurations refer to, in an encrypted file.

use std::io::{self, IsTerminal as _, Read as _};
use std::process::ExitCode;

mod hidden_input;

use ringfence_gateway::{SecretString, Vault, VaultError};

use hidden_input::TypedInput;

use crate::args::VaultCommand;
use crate::fault::{CliFault, EXIT_CANCELLED, EXIT_CHECK_FAILED, error_chain, io_error_text};
use crate::print::Printer;
use crate::settings::{CliSettings, servers};

/// The most bytes to read, above the limit of a secret.
const MAX_SECRET_BYTES: usize = 65 * 1024;

pub(crate) fn dispatch(command: VaultCommand, settings: &CliSettings, printer: &Printer) -> Result<ExitCode, CliFault> {
    let vault = Vault::in_data_folder(&settings.home()?, &servers::environment());
    match command {
        VaultCommand::Set(args) => {
            let secret = read_secret(&args.name, printer)?;
            vault.set(&args.name, &secret).map_err(|error| vault_fault(&error))?;
            printer.notice(&format!("kept; refer to it as `vault:{}`", args.name));
        }
        VaultCommand::List(args) => {
            let names = vault.names().map_err(|error| vault_fault(&error))?;
            if args.json {
                printer.print_json(&names)?;
            } else if names.is_empty() {
                printer.notice("the vault is empty; `ringfence vault set NAME` reads a secret from standard input");
            }
            for name in names.iter().filter(|_| !args.json) {
                printer.print_line(name)?;
            }
        }
        VaultCommand::Rm(args) => {
            if !vault.remove(&args.name).map_err(|error| vault_fault(&error))? {
                let message = format!("the vault has no secret `{}`", args.name);
                return Err(CliFault::internal("vault.unknown", message)
                    .with_hint("`ringfence vault list` names what is in it")
                    .with_exit(EXIT_CHECK_FAILED));
            }
            printer.notice(&format!("`{}` is forgotten", args.name));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a secret from standard input: on the command line it would be in the shell's history and in process lists.
fn read_secret(name: &str, printer: &Printer) -> Result<SecretString, CliFault> {
    let unread = |error: io::Error| {
        CliFault::internal(
            "vault.read",
            format!("cannot read the secret: {}", io_error_text(&error)),
        )
    };
    let stdin = io::stdin();
    let text = if stdin.is_terminal() {
        read_typed_secret(name, printer).map_err(unread)??
    } else {
        let mut text = Vec::new();
        stdin
            .lock()
            .take(MAX_SECRET_BYTES as u64)
            .read_to_end(&mut text)
            .map_err(unread)?;
        text
    };
    let text = String::from_utf8(text).map_err(|_| {
        CliFault::internal("vault.read", "the secret is not a text").with_hint("encode it, as base64 for instance")
    })?;
    Ok(SecretString::new(text.trim_end_matches(['\r', '\n'])))
}

/// Reads a secret from the terminal without showing it.
fn read_typed_secret(name: &str, printer: &Printer) -> io::Result<Result<Vec<u8>, CliFault>> {
    let ask = || {
        printer.print_to_stderr(&format!(
            "type or paste the secret `{name}`, which is not shown; Enter ends it"
        ));
    };
    Ok(match hidden_input::read_hidden_line(MAX_SECRET_BYTES, ask)? {
        TypedInput::Line(line) => Ok(line),
        TypedInput::SeveralLines => Err(CliFault::internal(
            "vault.read",
            "the secret has several lines, and nothing was kept",
        )
        .with_hint(format!("give it as a file: `ringfence vault set {name} < FILE`"))),
        TypedInput::Cancelled => {
            Err(CliFault::internal("cancelled", "cancelled, nothing was kept").with_exit(EXIT_CANCELLED))
        }
    })
}

fn vault_fault(error: &VaultError) -> CliFault {
    CliFault::internal("vault.failed", error_chain(error)).with_hint(error.hint())
}
