use super::*;
use crate::{RecordedLimits, ResourceUsage, TruncationFlags};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn event(at: i64, execution: ExecutionId, kind: EventKind) -> Event {
    Event {
        at: Timestamp::from_second(at).unwrap(),
        ..Event::from_host(session(), Some(execution), kind)
    }
}

fn session() -> SessionId {
    "s_01jcr0000000000000000000zz".parse().unwrap()
}

fn execution() -> ExecutionId {
    "x_01jcr0000000000000000000zz".parse().unwrap()
}

fn life(traceparent: Option<&str>) -> Vec<Event> {
    let client = ClientClaims {
        name: Some("agent 1.0".into()),
        call: Some("toolu_1".into()),
        traceparent: traceparent.map(CleanText::clean),
    };
    let kinds = [
        EventKind::ExecutionStarted {
            language: "typescript".into(),
            program: None,
            code: ContentHash::digest(b"1"),
            bytes: 1,
            files: Vec::new(),
            limits: RecordedLimits::default(),
            client: Some(client),
            parent: None,
        },
        EventKind::CallStarted {
            number: 1,
            tool: "github.list_issues".into(),
            rule: "tools.rules[0]".into(),
            arguments: ContentHash::digest(b"{}"),
            bytes: 2,
        },
        EventKind::CallEnded {
            number: 1,
            tool: "github.list_issues".into(),
            outcome: CallOutcome::TimedOut,
            error: Some("call.timeout".into()),
            duration_ms: 1000,
            result: None,
            bytes: 0,
        },
        EventKind::ExecutionEnded {
            status: ExecutionStatus::Completed,
            exit_code: Some(0),
            error: None,
            usage: ResourceUsage::default(),
            policy: "blake3:00".into(),
            truncated: TruncationFlags::default(),
            output: None,
        },
    ];
    (100..)
        .zip(kinds)
        .map(|(at, kind)| event(at, execution(), kind))
        .collect()
}

fn spans(events: &[Event]) -> Vec<TraceSpan> {
    let mut spans = SpanBuilder::default();
    events.iter().filter_map(|event| spans.add(event)).collect()
}

#[test]
fn a_run_and_its_call_hang_below_the_clients_span() {
    let made = spans(&life(Some(PARENT)));
    let [call, run] = &made[..] else { panic!("{made:?}") };
    assert_eq!(
        run.trace,
        crate::chain::parse_hex("4bf92f3577b34da6a3ce929d0e0e4736").unwrap()
    );
    assert_eq!(run.parent, crate::chain::parse_hex("00f067aa0ba902b7"));
    assert_eq!((call.trace, call.parent), (run.trace, Some(run.id)));
    assert_eq!(
        (call.name.as_str(), run.name.as_str()),
        ("execute_tool github.list_issues", "run typescript")
    );
    assert_eq!(
        (call.error.as_deref(), run.error.as_deref()),
        (Some("call.timeout"), None)
    );
    let seconds = |span: &TraceSpan| (span.began.as_second(), span.ended.as_second());
    assert_eq!((seconds(call), seconds(run)), ((101, 102), (100, 103)));
    assert!(
        run.attributes
            .contains(&("gen_ai.tool.call.id", SpanAttribute::text("toolu_1")))
    );
    // The same events give the same spans.
    assert_eq!(made, spans(&life(Some(PARENT))));
}

#[test]
fn without_a_parent_a_run_has_a_trace_of_its_own() {
    let wrong = [
        "",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
        "00-4bf9-00f0-01",
    ];
    for parent in wrong.map(Some).into_iter().chain([None]) {
        let made = spans(&life(parent));
        assert_eq!(made.len(), 2);
        assert_eq!(made[1].parent, None, "{parent:?}");
        assert_eq!(made[1].trace, derive_ids(&execution().to_string()).0);
    }
}

#[test]
fn a_trace_that_the_client_does_not_keep_is_not_sent() {
    let unsampled = PARENT.replace("-01", "-00");
    assert_eq!(spans(&life(Some(&unsampled))), []);
}

#[test]
fn what_began_before_is_left_out_and_what_never_ends_is_forgotten() {
    assert_eq!(spans(&life(None)[1..]), []);
    let mut spans = SpanBuilder::default();
    for number in 0..MAX_OPEN_RUNS + 10 {
        let id = ExecutionId::generate().unwrap();
        let start = life(None).remove(0);
        spans.add(&Event {
            execution: Some(id),
            ..start
        });
        assert!(spans.open.len() <= MAX_OPEN_RUNS, "{number}");
    }
}
