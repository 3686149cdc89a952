//! The template of a sandbox's first process, and each copy of it as that first process.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use ringfence_worker::init::Init;

fn main() -> ExitCode {
    // There is nobody to tell in here: the host hears the socket close.
    match Init::born().and_then(|born| born.map_or(Ok(()), Init::serve)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
