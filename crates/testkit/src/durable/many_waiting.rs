//! Many waiting executions: their size on disk, and how soon a server with them is ready.
#![expect(clippy::disallowed_methods, reason = "a benchmark starts the program itself")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use ringfence_journal::ExecutionId;
use ringfence_store::{Lease, Store};

use crate::front_clients::{ClientEra, HttpClient, ServedProgram};
use crate::timing::median_of;
use crate::waiting::WaitingOriginal;

/// The size of waiting executions on disk.
#[derive(Debug, Clone, Copy)]
pub struct WaitingSize {
    /// The number of waiting executions.
    pub count: usize,
    /// Bytes on disk of each, everything included.
    pub each: u64,
    /// Bytes of each that are calls and their results.
    pub results: u64,
}

/// How soon a server is ready.
#[derive(Debug, Clone, Copy)]
pub struct StartupTimes {
    /// The time with an empty data folder.
    pub empty: Duration,
    /// The time with many waiting executions.
    pub full: Duration,
}

/// Makes `count` copies of a waiting execution and measures their size.
pub async fn measure_size(home: &Path, of: ExecutionId, count: usize) -> Result<WaitingSize> {
    let store = Arc::new(Store::open(home).await?);
    let lease = Arc::new(Lease::acquire(home)?);
    let original = WaitingOriginal::load(&store, of).await?;
    let results = store.recording_bytes(of).await?;
    let before = database_bytes(home)?;
    let made = original.copies(&store, &lease, count, None).await?;
    ensure!(made.len() == count, "{} were made", made.len());
    store.close().await;
    drop(lease);
    let grown = database_bytes(home)?.saturating_sub(before);
    Ok(WaitingSize {
        count,
        each: grown / u64::try_from(count)?.max(1),
        results,
    })
}

/// Bytes of all files of the database.
fn database_bytes(home: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(home)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("ringfence.db") {
            bytes += entry.metadata()?.len();
        }
    }
    Ok(bytes)
}

/// Starts the program on an empty data folder and on this one, in turns, until it reports that it is healthy.
pub fn measure_startup(program: &Path, home: &Path, rounds: usize) -> Result<StartupTimes> {
    let (mut empty, mut full) = (Vec::new(), Vec::new());
    for _ in 0..rounds.max(1) {
        let folder = tempfile::tempdir()?;
        empty.push(time_until_healthy(program, &folder.path().join("home"))?);
        full.push(time_until_healthy(program, home)?);
    }
    Ok(StartupTimes {
        empty: median_of(empty),
        full: median_of(full),
    })
}

fn time_until_healthy(program: &Path, home: &Path) -> Result<Duration> {
    let mut command = Command::new(program);
    command.args(["serve", "--listen", "127.0.0.1:0"]).env_clear();
    command
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", home)
        .env("RINGFENCE_HOME", home);
    let started = Instant::now();
    let served = ServedProgram::start(&mut command)?;
    let mut client = HttpClient::connect(&served.address, None, ClientEra::Legacy)?;
    let reply = client.send("GET", "/healthz", &[], b"")?;
    ensure!(reply.status == 200, "the server is not well: {}", reply.status);
    Ok(started.elapsed())
}
