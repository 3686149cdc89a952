//! Tests of programs that hang, flood, crash and lie: others keep working, the error names the server, memory and
//! time are bounded.

use std::time::{Duration, Instant};

use ringfence_gateway::{ProtocolEra, ServerError, UpstreamCallError, UpstreamHealth};
use serde_json::json;

use crate::harness::{Bench, bench, entry, program};

/// The most memory that this process may ever have used.
const MEMORY: u64 = 600 * 1024 * 1024;

fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1024
}

async fn neighbour_works(bench: &Bench) {
    assert_eq!(
        bench.value("good", "echo", json!({"text": "still here"})).await,
        json!("still here")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_loses_only_its_call() {
    let bench = bench(&json!({"good": entry("echo"), "bad": entry("hang")}));
    let start = Instant::now();
    let bad = bench
        .call_within("bad", "echo", json!({"text": "x"}), Duration::from_millis(1_500))
        .await;
    let error = bad.unwrap_err();
    assert_eq!(error.to_string(), "server `bad`: `echo` did not answer within 1500 ms");
    assert!(start.elapsed() < Duration::from_secs(10));
    neighbour_works(&bench).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn floods_end_the_conversation_and_nothing_else() {
    let bench = bench(&json!({
        "good": entry("echo"), "flood": entry("flood"), "chatter": entry("chatter"), "nag": entry("nag"),
    }));
    for (server, word) in [
        ("flood", "it sent a message without end"),
        ("chatter", "it floods us with messages that nobody asked for"),
        ("nag", "it asks without reading the answers"),
    ] {
        let error = bench
            .call_within(server, "echo", json!({"text": "x"}), Duration::from_mins(1))
            .await
            .unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains(&format!("server `{server}`")) && text.contains(word),
            "{text}"
        );
        assert!(matches!(error, UpstreamCallError::Lost { .. }), "{error:?}");
        neighbour_works(&bench).await;
    }
    assert!(peak() < MEMORY, "{} bytes", peak());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_none_fails_its_own_call() {
    let bench = bench(&json!({"good": entry("echo"), "bad": entry("malformed")}));
    bench.upstreams.ensure_connected("bad").await.unwrap();
    for kind in ["shape", "number", "deep"] {
        let start = Instant::now();
        let error = bench.call("bad", "echo", json!({"text": kind})).await.unwrap_err();
        assert_eq!(error.server(), "bad");
        assert!(start.elapsed() < Duration::from_secs(5), "{kind}: {error}");
    }
    for kind in ["garbage", "other"] {
        let within = Duration::from_millis(300);
        let error = bench
            .call_within("bad", "echo", json!({"text": kind}), within)
            .await
            .unwrap_err();
        assert!(matches!(error, UpstreamCallError::Timeout { .. }), "{kind}: {error}");
    }
    assert_eq!(bench.value("bad", "echo", json!({"text": "well"})).await, json!("fine"));
    neighbour_works(&bench).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_beyond_the_limit_fails_its_own_call() {
    let bench = bench(&json!({"one": entry("echo")}));
    let fits = bench.value("one", "big", json!({"bytes": 15 * 1024 * 1024})).await;
    assert_eq!(fits.as_str().unwrap().len(), 15 * 1024 * 1024);
    let error = bench
        .call("one", "big", json!({"bytes": 40 * 1024 * 1024}))
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "server `one`: the result of `big` is beyond 16777216 bytes"
    );
    assert_eq!(bench.value("one", "echo", json!({"text": "on"})).await, json!("on"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_crashes_is_started_again_with_pauses() {
    let bench = bench(&json!({"good": entry("echo"), "bad": entry("crash 1")}));
    assert_eq!(bench.value("bad", "echo", json!({"text": "1"})).await, json!("1"));
    let lost = bench.call("bad", "echo", json!({"text": "2"})).await.unwrap_err();
    assert!(
        matches!(&lost, UpstreamCallError::Lost { detail, .. } if detail.contains("exit code 1")),
        "{lost}"
    );
    assert_eq!(bench.value("bad", "echo", json!({"text": "3"})).await, json!("3"));
    bench.call("bad", "echo", json!({"text": "4"})).await.unwrap_err();
    let off = bench.call("bad", "echo", json!({"text": "5"})).await.unwrap_err();
    assert!(
        matches!(&off, UpstreamCallError::Server(ServerError::BackingOff { .. })),
        "{off}"
    );
    assert!(matches!(
        bench.upstreams.health("bad"),
        Ok(UpstreamHealth::BackingOff { .. })
    ));
    neighbour_works(&bench).await;
    tokio::time::sleep(Duration::from_millis(800)).await;
    assert_eq!(bench.value("bad", "echo", json!({"text": "6"})).await, json!("6"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_says_nothing_is_given_up() {
    let bench = bench(&json!({"good": entry("echo"), "bad": entry("mute")}));
    let within = Duration::from_millis(500);
    let error = bench.call_within("bad", "echo", json!({}), within).await.unwrap_err();
    assert!(matches!(error, UpstreamCallError::Timeout { .. }), "{error}");
    assert!(matches!(bench.upstreams.health("bad"), Ok(UpstreamHealth::Connecting)));
    neighbour_works(&bench).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ignores_the_newer_protocol_is_asked_in_the_older_one() {
    let bench = bench(&json!({"one": entry("silent")}));
    let answer = bench.value("one", "echo", json!({"text": "old"})).await;
    assert_eq!(answer, json!("old"));
    // Once, it may have been slow to start; twice, it is cached.
    let second = crate::harness::bench_at(&json!({"one": entry("silent")}), bench.home.clone());
    assert_eq!(second.value("one", "echo", json!({"text": "old"})).await, json!("old"));
    let third = crate::harness::bench_at(&json!({"one": entry("silent")}), bench.home.clone());
    let start = Instant::now();
    assert_eq!(third.value("one", "echo", json!({"text": "old"})).await, json!("old"));
    assert!(start.elapsed() < Duration::from_secs(8), "remembered: no third wait");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_starts_slowly_connects_and_people_are_told() {
    // It reads its input only after that time, and answers both first messages.
    let script = "sleep 11; exec \"$0\" echo";
    let bench = bench(&json!({"one": {"command": "/bin/sh", "args": ["-c", script, program()]}}));
    let mut events = bench.upstreams.events();
    let within = Duration::from_mins(2);
    let answer = bench
        .call_within("one", "echo", json!({"text": "late"}), within)
        .await
        .unwrap();
    assert_eq!(answer.into_value(), json!("late"));
    let told = events.recv().await.unwrap();
    assert_eq!(
        told.to_string(),
        "server `one` was started and has not answered for 10 s (it may be downloading itself); it has 120 s in all"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_slow_to_start_is_not_kept_to_the_older_protocol() {
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    // At its first start it does not answer in time; later it does.
    let script = "if [ -e \"$1\" ]; then exec \"$0\" modern; fi; touch \"$1\"; exec \"$0\" silent";
    let entries = json!({"one": {"command": "/bin/sh", "args": ["-c", script, program(), started]}});
    let bench = bench(&entries);
    let first = bench.upstreams.refresh(None).await.remove("one").unwrap().unwrap();
    assert_eq!(first.era, Some(ProtocolEra::Slow));
    let again = crate::harness::bench_at(&entries, bench.home.clone());
    let second = again.upstreams.refresh(None).await.remove("one").unwrap().unwrap();
    assert_eq!(second.era, Some(ProtocolEra::Modern));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_protocol_is_not_used_without_the_servers_word() {
    let bench = bench(&json!({"one": entry("silent")}));
    bench.upstreams.ensure_connected("one").await.unwrap();
    let path = bench.home.path().join("catalog/one.json");
    let kept = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, kept.replace("\"slow\"", "\"modern\"")).unwrap();
    let again = crate::harness::bench_at(&json!({"one": entry("silent")}), bench.home.clone());
    let error = again.upstreams.ensure_connected("one").await.unwrap_err();
    assert!(matches!(error, ServerError::Downgrade { .. }), "{error}");
}
