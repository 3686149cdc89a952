//! Local sinks get every record after its commit, and never delay an act.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use ringfence_journal::{Recorder as _, SessionId};
use ringfence_store::{Lease, SinkConfig, Store};

use crate::support::{closed, opening, violation};

async fn with_sink(sink: SinkConfig, home: &std::path::Path) -> (Store, Lease, SessionId) {
    let store = Store::open_with(home, &[sink]).await.unwrap();
    let lease = Lease::acquire(home).unwrap();
    let session = SessionId::generate().unwrap();
    store.open_session(&lease, opening(session)).await.unwrap();
    (store, lease, session)
}

#[tokio::test]
async fn a_file_gets_lines_also_after_it_was_rotated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let old = folder.path().join("audit.1");
    let sink = SinkConfig::File { path: path.clone() };
    let (store, _lease, session) = with_sink(sink, &folder.path().join("home")).await;
    // The sink runs beside the writer: wait for its first line before taking the file away.
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while fs::read_to_string(&path).unwrap().is_empty() {
        assert!(std::time::Instant::now() < deadline);
        tokio::task::yield_now().await;
    }
    fs::rename(&path, &old).unwrap();
    store.record(violation(session, "x\ny")).await.unwrap();
    store.record(closed(session)).await.unwrap();
    store.close().await;
    assert_eq!(fs::read_to_string(&old).unwrap().lines().count(), 1);
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.iter().map(|line| line["seq"].clone()).collect::<Vec<_>>(), [2, 3]);
}

#[tokio::test]
async fn syslog_gets_one_message_for_each_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let (store, _lease, session) = with_sink(SinkConfig::Syslog { path }, &folder.path().join("home")).await;
    store.record(violation(session, "mount")).await.unwrap();
    store.close().await;
    let mut buffer = vec![0; 100_000];
    let mut receive = || {
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    let opened = receive();
    assert!(opened.starts_with("<110>1 2"), "{opened}");
    assert!(
        opened.contains(" session_opened [ringfence@32473 session=\"s_"),
        "{opened}"
    );
    let violation = receive();
    assert!(violation.starts_with("<108>1 2"), "{violation}");
    let json = &violation[violation.find("] {").unwrap() + 2..];
    let value: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(value["event"]["detail"], "mount");
}

#[tokio::test]
async fn a_sink_that_died_holds_nothing_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let socket = UnixDatagram::bind(&path).unwrap();
    let (store, _lease, session) =
        with_sink(SinkConfig::Syslog { path: path.clone() }, &folder.path().join("home")).await;
    drop(socket);
    fs::remove_file(&path).unwrap();
    for _ in 0..100 {
        store.record(violation(session, "")).await.unwrap();
    }
    store.close().await;
}

#[tokio::test]
async fn a_sink_that_cannot_be_opened_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none/there");
    for sink in [
        SinkConfig::File { path: missing.clone() },
        SinkConfig::Syslog { path: missing },
    ] {
        let error = Store::open_with(&folder.path().join("home"), &[sink])
            .await
            .unwrap_err();
        assert_eq!(error.code(), "store.sink");
    }
}
