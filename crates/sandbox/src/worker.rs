//! The worker program, embedded: one file to install, nothing to find at run time.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use ringfence_jail::{Launcher, SealedProgram};

/// The static program that becomes the first process of every sandbox.
pub(crate) const WORKER_PROGRAM: &[u8] = include_bytes!(env!("RINGFENCE_WORKER"));

/// A launcher that was started before anything asked for it.
static STARTED_AHEAD: Mutex<Option<JoinHandle<io::Result<Launcher>>>> = Mutex::new(None);

/// Begins to load the worker on a thread of its own, for a process that will soon run a program. It takes milliseconds, in which the
/// process reads its configuration and its policy.
pub fn load_worker_ahead() {
    let started = thread::Builder::new()
        .name("worker".to_owned())
        .spawn(start_new_launcher);
    // Without a thread the worker is loaded when it is needed.
    if let Ok(started) = started {
        *STARTED_AHEAD.lock().unwrap_or_else(PoisonError::into_inner) = Some(started);
    }
}

/// A launcher for the embedded worker: the one that was started ahead, if any, else a new one.
pub(crate) fn start_launcher() -> io::Result<Launcher> {
    let ahead = STARTED_AHEAD.lock().unwrap_or_else(PoisonError::into_inner).take();
    match ahead.map(JoinHandle::join) {
        Some(Ok(Ok(launcher))) => Ok(launcher),
        // What failed ahead of time fails again, with its reason, or succeeds now.
        _ => start_new_launcher(),
    }
}

/// Copies the worker into sealed memory, and starts it there as the template of every sandbox.
fn start_new_launcher() -> io::Result<Launcher> {
    Launcher::start(SealedProgram::new(WORKER_PROGRAM)?)
}
