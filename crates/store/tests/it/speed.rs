//! The time that one command spends in the store.

use std::path::Path;
use std::time::{Duration, Instant};

use ringfence_journal::{ExecutionId, Recorder as _, SessionId};
use ringfence_store::{Lease, Store};

use crate::process::{lines, start};
use crate::support::{closed, ended, opening, report, started};

/// Far above the usual time, so that only a change of kind (a scan, a wait) fails on a busy machine.
const MAX_DURATION: Duration = Duration::from_millis(250);

/// The steps of `ringfence run` in the store, with microseconds since the start.
pub(crate) async fn one_run(home: &Path) -> String {
    let began = Instant::now();
    let store = Store::open(home).await.unwrap();
    let opened = began.elapsed().as_micros();
    let lease = Lease::acquire(home).unwrap();
    assert!(store.dead_leases().await.unwrap().is_empty());
    let leased = began.elapsed().as_micros();
    let session = SessionId::generate().unwrap();
    let execution = ExecutionId::generate().unwrap();
    store.open_session(&lease, opening(session)).await.unwrap();
    store.record(started(session, execution)).await.unwrap();
    store.record(ended(session, execution)).await.unwrap();
    store.record(closed(session)).await.unwrap();
    let recorded = began.elapsed().as_micros();
    store.close_for_exit().await;
    format!("{opened} {leased} {recorded} {}", began.elapsed().as_micros())
}

#[tokio::test]
async fn opening_recording_and_leaving_is_quick() {
    let folder = tempfile::tempdir().unwrap();
    let mut runs = Vec::new();
    for _ in 0..41 {
        let mut child = start("one run", folder.path());
        let said: Vec<_> = lines(&mut child).collect();
        assert!(child.wait().unwrap().success());
        runs.push(
            said[0]
                .iter()
                .map(|number| number.parse().unwrap())
                .collect::<Vec<u64>>(),
        );
    }
    let median = |part: usize| {
        let mut times: Vec<u64> = runs.iter().map(|run| run[part]).collect();
        times.sort_unstable();
        Duration::from_micros(times[times.len() / 2])
    };
    println!(
        "after open {:?}, lease and sweep {:?}, four events {:?}, leave {:?}",
        median(0),
        median(1),
        median(2),
        median(3)
    );
    assert!(median(3) < MAX_DURATION, "{:?}", median(3));
    let store = Store::open(folder.path()).await.unwrap();
    let report = report(&store).await;
    assert!(report.is_ok(), "{report:?}");
    assert_eq!((report.sessions, report.heads, report.unsigned_records), (41, 82, 0));
}
