//! `ringfence completions` and `ringfence man`: generates completion scripts and manual pages from the arguments.

use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args::CliArgs;
use crate::fault::{CliFault, EXIT_USAGE};
use crate::print::{Printer, write_fault};

/// Prints the completion script for a shell.
pub(crate) fn print_completions(shell: Shell, printer: &Printer) -> Result<ExitCode, CliFault> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut CliArgs::command(), "ringfence", &mut script);
    print_bytes(&script, printer)
}

/// Prints the manual page of the program or of one of its commands.
pub(crate) fn print_manual_page(path: &[String], printer: &Printer) -> Result<ExitCode, CliFault> {
    let mut program = CliArgs::command();
    program.build();
    let mut command = &program;
    let mut name = command.get_name().to_owned();
    for word in path {
        command = command.find_subcommand(word).ok_or_else(|| {
            CliFault::internal("arguments", format!("`{name}` has no command `{word}`"))
                .with_hint(format!("`{} --help` names them", name.replace('-', " ")))
                .with_exit(EXIT_USAGE)
        })?;
        name = format!("{name}-{word}");
    }
    let mut text = Vec::new();
    Man::new(command.clone())
        .render(&mut text)
        .map_err(|error| write_fault(&error))?;
    print_bytes(&text, printer)
}

fn print_bytes(text: &[u8], printer: &Printer) -> Result<ExitCode, CliFault> {
    printer.print_exact(&String::from_utf8_lossy(text))?;
    Ok(ExitCode::SUCCESS)
}
