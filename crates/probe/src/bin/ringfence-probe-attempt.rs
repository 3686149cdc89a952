//! The attempts alone, as a separate program for the tests.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    // As in the real program, the first argument is the name of the hidden entry.
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    ringfence_probe::attempt_main(&arguments)
}
