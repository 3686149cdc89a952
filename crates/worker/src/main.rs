//! The worker binary: the template of a sandbox's first process, and each copy of it as that first process. Started as `ringfence-worker
//! relay FOLDER` it is the first process of a sandbox whose places are below the folder, over one stream.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use ringfence_worker::init::{InitError, InitProcess};
use ringfence_worker::places::SandboxPlaces;

/// The first argument of a worker that has one stream for everything.
const RELAY_ARGUMENT: &str = "relay";

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let served = match arguments.as_slice() {
        [] => InitProcess::from_template().and_then(|born| born.map_or(Ok(()), InitProcess::serve)),
        [relay, folder] if relay == RELAY_ARGUMENT => serve_stream(Path::new(folder)),
        _ => return ExitCode::FAILURE,
    };
    // The worker cannot report the error from here; the host notices that the socket closes.
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn serve_stream(folder: &Path) -> Result<(), InitError> {
    InitProcess::from_stream(SandboxPlaces::below(folder))?.serve()
}
