//! Tests of the path of a call, and of the events that it records.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ringfence_gateway::{ApprovalPort, PassError};
use ringfence_journal::{CallOutcome, EventKind};
use serde_json::json;

use crate::book::{Book, Road};
use crate::harness::{Bench, bench, entry};

fn pass(bench: &Bench, policy: &str) -> (Arc<crate::book::Pass>, Arc<Book>) {
    let road = Road::new(bench, policy);
    (road.pass(ApprovalPort::closed()), road.book)
}

const ALL: &str = "tools: { default: allow }";

#[tokio::test]
async fn every_call_is_written_before_and_after() {
    let bench = bench(&json!({"one": entry("echo")}));
    let (pass, book) = pass(&bench, ALL);
    for number in 1..=2 {
        let answer = pass.call(number, "one", "echo", r#"{"text":"hi"}"#, b"").await.unwrap();
        assert_eq!(answer, r#""hi""#);
    }
    let made = pass.close().await.unwrap().listed;
    assert_eq!(made.len(), 2);
    let expected = [
        "server_used",
        "call_started",
        "call_ended",
        "call_started",
        "call_ended",
    ];
    assert_eq!(book.kinds(), expected);
}

#[tokio::test]
async fn an_end_is_written_soon_though_nobody_waits_for_it() {
    let bench = bench(&json!({"one": entry("echo")}));
    let (pass, book) = pass(&bench, ALL);
    pass.call(1, "one", "echo", r#"{"text":"hi"}"#, b"").await.unwrap();
    let written = async {
        while book.kinds().last() != Some(&"call_ended") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), written).await.unwrap();
}

#[tokio::test]
async fn a_call_that_cannot_be_written_down_is_not_made() {
    let bench = bench(&json!({"one": entry("echo")}));
    let (pass, book) = pass(&bench, ALL);
    pass.call(1, "one", "echo", r#"{"text":"hi"}"#, b"").await.unwrap();
    book.full.store(true, Ordering::SeqCst);
    let begun = Instant::now();
    let stopped = pass.call(2, "one", "slow", r#"{"ms":60000}"#, b"").await;
    assert!(matches!(stopped, Err(PassError::Unrecorded(_))), "{stopped:?}");
    assert!(begun.elapsed() < Duration::from_secs(10));
    let refused = pass.call(3, "one", "nothing", "{}", b"").await;
    assert!(matches!(refused, Err(PassError::Unrecorded(_))), "{refused:?}");
    assert!(pass.close().await.is_err());
}

#[tokio::test]
async fn a_call_under_way_at_a_stop_has_an_unknown_end() {
    let bench = bench(&json!({"one": entry("echo")}));
    let (pass, book) = pass(&bench, ALL);
    let calling = {
        let pass = Arc::clone(&pass);
        tokio::spawn(async move { pass.call(1, "one", "slow", r#"{"ms":5000}"#, b"").await })
    };
    while !book.kinds().contains(&"call_started") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    pass.cancel();
    let stopped = calling.await.unwrap();
    let Err(PassError::Refused(refusal)) = stopped else {
        panic!("{stopped:?}")
    };
    assert_eq!(refusal.code, "tool.unknown_effect");
    let made = pass.close().await.unwrap().listed;
    assert_eq!(made[0].outcome, CallOutcome::Unknown);
    let events = book.events.lock().unwrap();
    let last = &events.last().unwrap().kind;
    assert!(
        matches!(
            last,
            EventKind::CallEnded {
                outcome: CallOutcome::Unknown,
                ..
            }
        ),
        "{last:?}"
    );
}

#[tokio::test]
async fn servers_whose_names_read_alike_are_told_apart() {
    let bench = bench(&json!({"a-b": entry("echo"), "a_b": entry("records")}));
    let (pass, book) = pass(&bench, ALL);
    bench.upstreams.list_unlisted().await;
    for (number, server) in (1..).zip(["a-b", "a_b", "a_b_2"]) {
        pass.call(number, server, "echo", r#"{"text":"hi"}"#, b"")
            .await
            .unwrap();
    }
    pass.close().await.unwrap();
    let events = book.events.lock().unwrap();
    let called = events.iter().filter_map(|event| {
        if let EventKind::CallStarted { tool, .. } = &event.kind {
            Some(tool.as_str())
        } else {
            None
        }
    });
    assert_eq!(called.collect::<Vec<_>>(), ["a-b.echo", "a_b.echo", "a-b.echo"]);
}

#[tokio::test]
async fn a_tool_that_takes_too_long_is_given_up() {
    let bench = bench(&json!({"one": entry("echo")}));
    let (pass, _book) = pass(&bench, "tools: { default: allow, call_timeout: 200ms }");
    let stopped = pass.call(1, "one", "slow", r#"{"ms":5000}"#, b"").await;
    let Err(PassError::Refused(refusal)) = stopped else {
        panic!("{stopped:?}")
    };
    assert_eq!(
        (refusal.code.as_str(), refusal.rule.as_deref()),
        ("limit.call", Some("tools.call_timeout"))
    );
}

#[tokio::test]
async fn the_journal_has_names_of_tools_and_not_what_is_called_so() {
    let bench = bench(&json!({"one": entry("echo")}));
    let (pass, book) = pass(&bench, ALL);
    let long = "x".repeat(200);
    let cases = [
        ("one", "no-such.tool_2", "one.no-such.tool_2"),
        ("one", "alice@example.com", "one.unknown"),
        ("alice smith", "echo", "unknown.echo"),
        ("one", "4111111111111111", "one.unknown"),
        ("one", "", "one.unknown"),
        ("one", &long, "one.unknown"),
    ];
    for (number, (server, tool, _)) in (1..).zip(cases) {
        let refused = pass.call(number, server, tool, "{}", b"").await;
        assert!(matches!(refused, Err(PassError::Refused(_))), "{refused:?}");
    }
    pass.close().await.unwrap();
    let events = book.events.lock().unwrap();
    let written = events.iter().filter_map(|event| {
        let EventKind::CallRefused { tool, .. } = &event.kind else {
            return None;
        };
        Some(tool.as_str())
    });
    let expected: Vec<&str> = cases.iter().map(|(_, _, expected)| *expected).collect();
    assert_eq!(written.collect::<Vec<_>>(), expected);
}
