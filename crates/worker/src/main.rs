//! The worker binary: the template of a sandbox's first process, and each copy of it as that first process.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use ringfence_worker::init::InitProcess;

fn main() -> ExitCode {
    // The worker cannot report the error from here; the host notices that the socket closes.
    match InitProcess::from_template().and_then(|born| born.map_or(Ok(()), InitProcess::serve)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
