//! The `ringfence` program: arguments, configuration, composition and text output. The other crates implement everything
//! else.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod fault;
mod logs;
mod print;
mod settings;
mod signals;

use std::process::ExitCode;

use clap::Parser as _;
use tokio::runtime::{Builder, Runtime};

use crate::args::{CliArgs, CliCommand};
use crate::print::Printer;
use crate::settings::CliSettings;

/// One thread is enough for one command; an HTTP server for many clients gets more.
fn build_runtime(command: &CliCommand) -> std::io::Result<Runtime> {
    let mut builder = if matches!(command, CliCommand::Serve(serve) if !serve.stdio) {
        Builder::new_multi_thread()
    } else {
        Builder::new_current_thread()
    };
    builder.enable_all().build()
}

fn main() -> ExitCode {
    // The probes start this program again as the attacker inside a sandbox, where nothing else of it would work.
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == ringfence_probe::ATTEMPT_ENTRY) {
        let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
        return ringfence_probe::attempt_main(&words);
    }
    let args = match CliArgs::try_parse() {
        Ok(args) => args,
        Err(error) => return args::print_usage_error(&error),
    };
    let settings = CliSettings::from_environment();
    let printer = Printer::new(args.words, settings.plain);
    logs::start_logging(&args, &settings);
    let shape = args.command.fault_format();
    let runtime = match build_runtime(&args.command) {
        Ok(runtime) => runtime,
        Err(error) => return printer.print_fault(&fault::runtime_fault(&error), shape),
    };
    let outcome = runtime.block_on(commands::run_command(args.command, &settings, &printer));
    // A thread that is still blocked, for example on a read from a terminal, must not delay the exit.
    runtime.shutdown_background();
    match outcome {
        Ok(code) => code,
        Err(fault) => printer.print_fault(&fault, shape),
    }
}
