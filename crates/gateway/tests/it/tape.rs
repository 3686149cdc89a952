//! Tests of executions that are run again from their call log.

use std::sync::Arc;

use ringfence_gateway::{ApprovalOutcome, ApprovalPort, CallLog, PassError};
use ringfence_journal::{ApprovalScope, AskReason, CallOutcome, EventKind, ReplayEntryKind};
use serde_json::json;

use crate::book::{Road, refused, spawn};
use crate::harness::{bench, bench_at, entry};

const ALL: &str = "tools: { default: allow, rules: [{ deny: 'one.fail', where: { a: { equals: 1 } } }] }";
const HI: &str = r#"{"text":"hi"}"#;
/// The calls that the program makes.
const CALLS: [(&str, &str); 5] = [
    ("echo", HI),
    ("fail", "{}"),
    ("fail", r#"{"a":1}"#),
    ("echo", r#"{"text":7}"#),
    ("nothing", "{}"),
];

async fn run(pass: &crate::book::Pass) -> Vec<String> {
    let mut answers = Vec::new();
    for (number, (tool, body)) in (1..).zip(CALLS) {
        let answer = pass
            .call(number, "one", tool, body, &[u8::try_from(number).unwrap()])
            .await;
        answers.push(format!("{answer:?}"));
    }
    answers
}

#[tokio::test]
async fn a_program_has_the_same_answers_again_and_nothing_is_called() {
    let bench = bench(&json!({"one": entry("echo")}));
    let road = Road::new(&bench, ALL);
    let pass = road.pass(ApprovalPort::closed());
    let first = run(&pass).await;
    let made = pass.close().await.unwrap().listed;
    let written = road.book.kinds().len();

    // The server is gone, which makes no difference.
    let nothing = bench_at(&json!({}), Arc::clone(&bench.home));
    let mut again = Road::new(&nothing, "tools: { default: deny }");
    let (tape, trace) = CallLog::from_entries(road.book.entries()).unwrap();
    assert_eq!(trace, [1, 2, 3, 4, 5]);
    assert_eq!((tape.answered_count(), tape.unknown_count()), (5, 0));
    again.tape = Arc::new(tape);
    let pass = again.pass(ApprovalPort::closed());
    assert_eq!(run(&pass).await, first);
    let known: Vec<_> = pass.close().await.unwrap().listed;
    for (again, before) in known.iter().zip(&made) {
        assert_eq!(
            (again.number, again.outcome, &again.rule),
            (before.number, before.outcome, &before.rule)
        );
        assert_eq!((again.forbidden, again.bytes_out), (before.forbidden, before.bytes_out));
    }
    assert_eq!((known.len(), again.book.kinds().len()), (made.len(), 0));
    assert_eq!(road.book.kinds().len(), written);
}

#[tokio::test]
async fn what_is_not_on_the_tape_goes_on_live_and_is_kept() {
    let bench = bench(&json!({"one": entry("echo")}));
    let road = Road::new(&bench, ALL);
    let pass = road.pass(ApprovalPort::closed());
    pass.call(1, "one", "echo", HI, b"a").await.unwrap();
    pass.close().await.unwrap();
    let road = road.again();
    let pass = road.pass(ApprovalPort::closed());
    pass.call(1, "one", "echo", HI, b"").await.unwrap();
    pass.call(2, "one", "structured", "{}", b"b").await.unwrap();
    pass.close().await.unwrap();
    assert_eq!(road.book.count("call_started"), 2);
    let (tape, trace) = CallLog::from_entries(road.book.entries()).unwrap();
    assert_eq!((tape.answered_count(), trace.as_slice()), (2, b"ab".as_slice()));
}

#[tokio::test]
async fn a_lower_number_of_calls_takes_back_none_that_was_answered() {
    let bench = bench(&json!({"one": entry("echo")}));
    let road = Road::new(&bench, ALL);
    let pass = road.pass(ApprovalPort::closed());
    let first = run(&pass).await;
    pass.close().await.unwrap();
    let written = road.book.count("call_refused");

    let mut again = Road::new(&bench, "tools: { default: allow, max_calls: 2 }");
    again.tape = Arc::new(CallLog::from_entries(road.book.entries()).unwrap().0);
    let pass = again.pass(ApprovalPort::closed());
    assert_eq!(run(&pass).await, first);
    // A new call exceeds the limit, which is recorded once.
    for number in [6, 7] {
        let (code, rule, _) = refused(pass.call(number, "one", "echo", HI, b"").await);
        assert_eq!(
            (code.as_str(), rule.as_deref()),
            ("limit.calls", Some("tools.max_calls"))
        );
    }
    pass.close().await.unwrap();
    assert_eq!(
        (again.book.count("call_started"), again.book.count("call_refused")),
        (0, 1)
    );
    assert_eq!(road.book.count("call_refused"), written);
}

#[tokio::test]
async fn a_program_that_does_not_repeat_itself_goes_no_further() {
    let bench = bench(&json!({"one": entry("echo")}));
    let road = Road::new(&bench, ALL);
    let pass = road.pass(ApprovalPort::closed());
    pass.call(1, "one", "echo", HI, b"").await.unwrap();
    pass.close().await.unwrap();
    let road = road.again();
    let pass = road.pass(ApprovalPort::closed());
    let differs = pass.call(1, "one", "echo", r#"{"text":"ho"}"#, b"").await;
    let Err(PassError::Diverged(diverged)) = differs else {
        panic!("{differs:?}")
    };
    assert_eq!(diverged.number, 1);
    assert_eq!(
        diverged.to_string(),
        "the program does not repeat itself at call 1: it asks for `one.echo` with other arguments than before"
    );
    assert_eq!(road.book.count("call_started"), 1);
}

/// Returns an execution whose first call was in flight when its process died.
async fn interrupted(bench: &crate::harness::Bench) -> Road {
    let road = Road::new(bench, ALL);
    let pass = road.pass(ApprovalPort::closed());
    pass.call(1, "one", "echo", HI, b"").await.unwrap();
    pass.close().await.unwrap();
    let mut entries = road.book.entries.lock().unwrap();
    entries.retain(|entry| entry.kind != ReplayEntryKind::Answer);
    drop(entries);
    road.again()
}

#[tokio::test]
async fn a_call_under_way_at_a_crash_is_made_again_only_if_a_person_says_so() {
    let bench = bench(&json!({"one": entry("echo")}));
    let road = interrupted(&bench).await;
    assert_eq!(road.tape.unknown_count(), 1);
    let (desk, mut inbox) = road.desk();
    let pass = road.pass(desk);
    let calling = spawn(&pass, 1, "echo", HI);
    let (petition, answer) = inbox.next().await;
    assert_eq!(
        (petition.reason, petition.rule.as_str()),
        (AskReason::Unknown, "tools.unknown")
    );
    let scope = ApprovalScope::Once;
    answer.send(ApprovalOutcome::Approved { scope }).unwrap();
    assert_eq!(calling.await.unwrap().unwrap(), r#""hi""#);
    pass.close().await.unwrap();
    assert_eq!(road.book.count("call_started"), 2);
    let (tape, _) = CallLog::from_entries(road.book.entries()).unwrap();
    assert_eq!((tape.answered_count(), tape.unknown_count()), (1, 0));
}

#[tokio::test]
async fn an_unknown_call_that_is_not_made_again_stays_unknown() {
    let bench = bench(&json!({"one": entry("echo")}));
    for ruling in [
        Some(ApprovalOutcome::Denied { note: None }),
        Some(ApprovalOutcome::Expired),
        None,
    ] {
        let road = interrupted(&bench).await;
        let (desk, mut inbox) = road.desk();
        let pass = road.pass(if ruling.is_some() { desk } else { ApprovalPort::closed() });
        let calling = spawn(&pass, 1, "echo", HI);
        if let Some(ruling) = ruling {
            inbox.next().await.1.send(ruling).unwrap();
        }
        let (code, rule, message) = refused(calling.await.unwrap());
        assert_eq!(
            (code.as_str(), rule.as_deref()),
            ("tool.unknown_effect", Some("tools.unknown"))
        );
        assert!(
            message.starts_with("nobody knows whether `one.echo` took effect"),
            "{message}"
        );
        assert_eq!(pass.close().await.unwrap().listed[0].outcome, CallOutcome::Unknown);
        assert_eq!(road.book.count("call_started"), 1);
        let events = road.book.events.lock().unwrap();
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
        drop(events);
        // From here on the log says that the effect is unknown.
        let (tape, _) = CallLog::from_entries(road.book.entries()).unwrap();
        assert_eq!((tape.answered_count(), tape.unknown_count()), (1, 0));
    }
}

#[tokio::test]
async fn looking_back_calls_nothing() {
    let bench = bench(&json!({"one": entry("echo")}));
    let road = Road::new(&bench, ALL);
    let pass = road.pass(ApprovalPort::closed());
    pass.call(1, "one", "echo", HI, b"").await.unwrap();
    pass.close().await.unwrap();
    let (tape, _) = CallLog::from_entries(road.book.entries()).unwrap();
    let mut back = Road::new(&bench, ALL);
    back.tape = Arc::new(tape.replay_only());
    let pass = back.pass(ApprovalPort::closed());
    pass.call(1, "one", "echo", HI, b"").await.unwrap();
    let beyond = pass.call(2, "one", "echo", HI, b"").await;
    assert!(matches!(beyond, Err(PassError::Diverged(_))), "{beyond:?}");
    assert!(back.book.kinds().is_empty() && back.book.entries().is_empty());
}
