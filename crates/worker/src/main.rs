//! The first process of a sandbox.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use ringfence_worker::init::Init;

fn main() -> ExitCode {
    // There is nobody to tell in here: the host hears the socket close.
    match Init::new().and_then(Init::serve) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
