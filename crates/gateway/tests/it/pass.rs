//! The one road of a call, and what is written on the way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ringfence_gateway::{Gateway, Learnt, Pass, Stopped};
use ringfence_journal::{CallOutcome, Event, ExecutionId, Hash, Kind, RecordError, Recorded, Recorder, SessionId};
use ringfence_policy::{Ceiling, Draft};
use serde_json::json;

use crate::harness::{Bench, bench, entry};

/// A journal in memory, which can be full.
#[derive(Debug, Default)]
struct Book {
    events: Mutex<Vec<Event>>,
    full: AtomicBool,
}

impl Recorder for Book {
    async fn record(&self, event: Event) -> Result<Recorded, RecordError> {
        if self.full.load(Ordering::SeqCst) {
            return Err(RecordError::Closed { session: event.session });
        }
        let mut events = self.events.lock().unwrap();
        events.push(event);
        Ok(Recorded {
            seq: events.len() as u64,
            hash: Hash::of(b""),
        })
    }
}

impl Book {
    fn kinds(&self) -> Vec<&'static str> {
        self.events
            .lock()
            .unwrap()
            .iter()
            .map(|event| event.kind.name())
            .collect()
    }
}

fn pass(bench: &Bench, policy: &str) -> (Arc<Pass<Arc<Book>>>, Arc<Book>) {
    let gateway = Gateway::new(bench.upstreams.clone(), Learnt::open(bench.home.path()));
    let policy = Draft::parse(policy, "t").unwrap().under(&Ceiling::own_word()).unwrap();
    let book = Arc::new(Book::default());
    let (session, execution) = (SessionId::generate().unwrap(), ExecutionId::generate().unwrap());
    let pass = Pass::new(
        Arc::new(gateway),
        Arc::new(policy),
        Arc::clone(&book),
        (session, execution),
        Arc::default(),
    );
    (Arc::new(pass), book)
}

const ALL: &str = "tools: { default: allow }";

#[tokio::test]
async fn every_call_is_written_before_and_after() {
    let bench = bench(&json!({"one": entry("echo")}));
    let (pass, book) = pass(&bench, ALL);
    for number in 1..=2 {
        let answer = pass.call(number, "one", "echo", r#"{"text":"hi"}"#).await.unwrap();
        assert_eq!(answer, r#""hi""#);
    }
    let made = pass.close().await.unwrap();
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
    pass.call(1, "one", "echo", r#"{"text":"hi"}"#).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(book.kinds().last(), Some(&"call_ended"));
}

#[tokio::test]
async fn a_call_that_cannot_be_written_down_is_not_made() {
    let bench = bench(&json!({"one": entry("echo")}));
    let (pass, book) = pass(&bench, ALL);
    pass.call(1, "one", "echo", r#"{"text":"hi"}"#).await.unwrap();
    book.full.store(true, Ordering::SeqCst);
    let begun = Instant::now();
    let stopped = pass.call(2, "one", "slow", r#"{"ms":3000}"#).await;
    assert!(matches!(stopped, Err(Stopped::Unrecorded(_))), "{stopped:?}");
    assert!(begun.elapsed() < Duration::from_secs(2));
    let refused = pass.call(3, "one", "nothing", "{}").await;
    assert!(matches!(refused, Err(Stopped::Unrecorded(_))), "{refused:?}");
    assert!(pass.close().await.is_err());
}

#[tokio::test]
async fn a_call_under_way_at_a_stop_has_an_unknown_end() {
    let bench = bench(&json!({"one": entry("echo")}));
    let (pass, book) = pass(&bench, ALL);
    let calling = {
        let pass = Arc::clone(&pass);
        tokio::spawn(async move { pass.call(1, "one", "slow", r#"{"ms":5000}"#).await })
    };
    while !book.kinds().contains(&"call_started") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    pass.cancel();
    let stopped = calling.await.unwrap();
    let Err(Stopped::Refused(refusal)) = stopped else {
        panic!("{stopped:?}")
    };
    assert_eq!(refusal.code, "tool.unknown_effect");
    let made = pass.close().await.unwrap();
    assert_eq!(made[0].outcome, CallOutcome::Unknown);
    let events = book.events.lock().unwrap();
    let last = &events.last().unwrap().kind;
    assert!(
        matches!(
            last,
            Kind::CallEnded {
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
    bench.upstreams.catalog().await;
    for (number, server) in (1..).zip(["a-b", "a_b", "a_b_2"]) {
        pass.call(number, server, "echo", r#"{"text":"hi"}"#).await.unwrap();
    }
    pass.close().await.unwrap();
    let events = book.events.lock().unwrap();
    let called = events.iter().filter_map(|event| {
        if let Kind::CallStarted { tool, .. } = &event.kind {
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
    let stopped = pass.call(1, "one", "slow", r#"{"ms":5000}"#).await;
    let Err(Stopped::Refused(refusal)) = stopped else {
        panic!("{stopped:?}")
    };
    assert_eq!(
        (refusal.code, refusal.rule.as_deref()),
        ("limit.call", Some("tools.call_timeout"))
    );
}
