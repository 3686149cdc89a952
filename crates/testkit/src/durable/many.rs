//! Many waiting executions: their size on disk, and how soon a server with them is ready.
#![expect(clippy::disallowed_methods, reason = "a benchmark starts the program itself")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use ringfence_journal::ExecutionId;
use ringfence_store::{Lease, Store};

use crate::front::{Era, Http, Served};
use crate::timing::middle;
use crate::waiting::Original;

/// The size of waiting executions on disk.
#[derive(Debug, Clone, Copy)]
pub struct Weight {
    /// The number of waiting executions.
    pub count: usize,
    /// Bytes on disk of each, everything included.
    pub each: u64,
    /// Bytes of each that are calls and their results.
    pub results: u64,
}

/// How soon a server is ready.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    /// The time with an empty data folder.
    pub empty: Duration,
    /// The time with many waiting executions.
    pub full: Duration,
}

/// Makes `count` copies of a waiting execution and measures their size.
pub async fn weigh(home: &Path, of: ExecutionId, count: usize) -> Result<Weight> {
    let store = Arc::new(Store::open(home).await?);
    let lease = Arc::new(Lease::acquire(home)?);
    let original = Original::read(&store, of).await?;
    let results = store.kept_bytes(of).await?;
    let before = size(home)?;
    let made = original.copies(&store, &lease, count, None).await?;
    ensure!(made.len() == count, "{} were made", made.len());
    store.close().await;
    drop(lease);
    let grown = size(home)?.saturating_sub(before);
    Ok(Weight {
        count,
        each: grown / u64::try_from(count)?.max(1),
        results,
    })
}

/// Bytes of all files of the database.
fn size(home: &Path) -> Result<u64> {
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
pub fn start(program: &Path, home: &Path, rounds: usize) -> Result<Start> {
    let (mut empty, mut full) = (Vec::new(), Vec::new());
    for _ in 0..rounds.max(1) {
        let folder = tempfile::tempdir()?;
        empty.push(well(program, &folder.path().join("home"))?);
        full.push(well(program, home)?);
    }
    Ok(Start {
        empty: middle(empty),
        full: middle(full),
    })
}

fn well(program: &Path, home: &Path) -> Result<Duration> {
    let mut command = Command::new(program);
    command.args(["serve", "--listen", "127.0.0.1:0"]).env_clear();
    command
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", home)
        .env("RINGFENCE_HOME", home);
    let started = Instant::now();
    let served = Served::start(&mut command)?;
    let mut client = Http::silent(&served.address, None, Era::Legacy)?;
    let reply = client.send("GET", "/healthz", &[], b"")?;
    ensure!(reply.status == 200, "the server is not well: {}", reply.status);
    Ok(started.elapsed())
}
