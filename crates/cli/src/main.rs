//! The `ringfence` program: arguments, configuration, composition, words for people. How anything works is not known here.
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

use crate::args::{Args, Command};
use crate::print::Printer;
use crate::settings::Settings;

/// One thread does for one command; many clients at once get more.
fn runtime(command: &Command) -> std::io::Result<Runtime> {
    let mut builder = if matches!(command, Command::Serve(serve) if !serve.stdio) {
        Builder::new_multi_thread()
    } else {
        Builder::new_current_thread()
    };
    builder.enable_all().build()
}

fn main() -> ExitCode {
    // The probes run this program as their own attacker, in places where nothing else of it would work.
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == ringfence_probe::ENTRY) {
        let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
        return ringfence_probe::attempt_main(&words);
    }
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return args::answer(&error),
    };
    let settings = Settings::read();
    let printer = Printer::new(args.words, settings.plain);
    logs::start(&args, &settings);
    let shape = args.command.shape();
    let runtime = match runtime(&args.command) {
        Ok(runtime) => runtime,
        Err(error) => return printer.fault(&fault::no_runtime(&error), shape),
    };
    let outcome = runtime.block_on(commands::start(args.command, &settings, &printer));
    // Whatever still blocks a thread (a terminal that is read from, say) must not hold the program.
    runtime.shutdown_background();
    match outcome {
        Ok(code) => code,
        Err(fault) => printer.fault(&fault, shape),
    }
}
