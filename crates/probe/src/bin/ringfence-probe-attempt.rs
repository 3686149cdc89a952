//! The attempts alone, for the tests: the program under another name.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    // As in the real program, the first argument is the hidden entry's name.
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    ringfence_probe::attempt_main(&arguments)
}
