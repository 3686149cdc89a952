//! What one command pays for its journal.

use std::time::{Duration, Instant};

use ringfence_journal::{ExecutionId, Recorder as _, SessionId};
use ringfence_store::{Lease, Store};

use crate::support::{closed, ended, opening, started};

/// Far above what it takes, so that only a change of kind (a scan, a wait) fails on a busy machine.
const MOST: Duration = Duration::from_millis(250);

async fn one_run(home: &std::path::Path) -> [Duration; 4] {
    let began = Instant::now();
    let store = Store::open(home).await.unwrap();
    let opened = began.elapsed();
    let lease = Lease::acquire(home).unwrap();
    let leased = began.elapsed();
    let session = SessionId::generate().unwrap();
    let execution = ExecutionId::generate().unwrap();
    store.open_session(&lease, opening(session)).await.unwrap();
    store.record(started(session, execution)).await.unwrap();
    store.record(ended(session, execution)).await.unwrap();
    store.record(closed(session)).await.unwrap();
    let recorded = began.elapsed();
    store.close().await;
    [opened, leased, recorded, began.elapsed()]
}

#[tokio::test]
async fn opening_recording_and_closing_is_quick() {
    let folder = tempfile::tempdir().unwrap();
    let mut runs = Vec::new();
    for _ in 0..50 {
        runs.push(one_run(folder.path()).await);
    }
    let median = |part: usize| {
        let mut times: Vec<Duration> = runs.iter().map(|run| run[part]).collect();
        times.sort();
        times[times.len() / 2]
    };
    println!(
        "after open {:?}, lease {:?}, four events {:?}, close {:?}",
        median(0),
        median(1),
        median(2),
        median(3)
    );
    assert!(median(3) < MOST, "{:?}", median(3));
}
