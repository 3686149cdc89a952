//! `ringfence completions` and `ringfence man`: generates completion scripts and manual pages from the arguments.

use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args::Args;
use crate::fault::{Fault, USAGE};
use crate::print::{Printer, unwritten};

/// Prints the completion script for a shell.
pub(crate) fn completions(shell: Shell, printer: &Printer) -> Result<ExitCode, Fault> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "ringfence", &mut script);
    print(&script, printer)
}

/// Prints the manual page of the program or of one of its commands.
pub(crate) fn page(path: &[String], printer: &Printer) -> Result<ExitCode, Fault> {
    let mut program = Args::command();
    program.build();
    let mut command = &program;
    let mut name = command.get_name().to_owned();
    for word in path {
        command = command.find_subcommand(word).ok_or_else(|| {
            Fault::ours("arguments", format!("`{name}` has no command `{word}`"))
                .hint(format!("`{} --help` names them", name.replace('-', " ")))
                .exit(USAGE)
        })?;
        name = format!("{name}-{word}");
    }
    let mut text = Vec::new();
    Man::new(command.clone())
        .render(&mut text)
        .map_err(|error| unwritten(&error))?;
    print(&text, printer)
}

fn print(text: &[u8], printer: &Printer) -> Result<ExitCode, Fault> {
    printer.exact(&String::from_utf8_lossy(text))?;
    Ok(ExitCode::SUCCESS)
}
