use super::*;
use crate::bounded::{BoundedBytes, BoundedText};
use crate::call::{CallBody, CallRequest, CallTarget};

fn piece(bytes: usize) -> FromChild {
    FromChild::Trace(BoundedBytes::new(vec![1; bytes]).unwrap())
}

fn call(bytes: usize) -> FromChild {
    FromChild::Call(CallRequest {
        number: 1,
        ask: CallTarget::List,
        body: CallBody::Inline(BoundedText::default()),
        trace: BoundedBytes::new(vec![1; bytes]).unwrap(),
    })
}

const WAITS: FromChild = FromChild::Waits { open: 1, due: None };

fn unrepeatable() -> FromChild {
    FromChild::Unrepeatable {
        why: BoundedText::truncated("threads"),
    }
}

#[test]
fn a_trace_is_bounded_over_all_pieces_and_what_was_given() {
    for given in [0, TRACE_CAP / 2, TRACE_CAP] {
        let mut tracing = TraceMonitor::new(given);
        let mut heard = given;
        let refused = (0..).find_map(|_| {
            let told = tracing.on_message(&piece(MAX_TRACE_PIECE)).err();
            heard += MAX_TRACE_PIECE as u64;
            told
        });
        assert_eq!(refused, Some(ProtocolViolation::Trace { bytes: MAX_TRACE_PIECE }));
        assert!(
            heard > TRACE_CAP && heard <= TRACE_CAP + OVERRUN_ALLOWANCE + MAX_TRACE_PIECE as u64,
            "{heard}"
        );
    }
    assert_eq!(
        TraceMonitor::new(u64::MAX).on_message(&call(1)),
        Err(ProtocolViolation::Trace { bytes: 1 })
    );
    assert_eq!(TraceMonitor::new(u64::MAX).on_message(&call(0)), Ok(()));
}

#[test]
fn there_is_no_trace_after_it_was_given_up() {
    let mut tracing = TraceMonitor::new(0);
    tracing.on_message(&call(10)).unwrap();
    tracing.on_message(&unrepeatable()).unwrap();
    assert_eq!(
        tracing.on_message(&unrepeatable()),
        Err(ProtocolViolation::Unrepeatable)
    );
    assert_eq!(
        tracing.on_message(&piece(1)),
        Err(ProtocolViolation::Trace { bytes: 1 })
    );
    assert_eq!(tracing.on_message(&call(1)), Err(ProtocolViolation::Trace { bytes: 1 }));
    assert_eq!(tracing.on_message(&call(0)), Ok(()));
}

#[test]
fn a_wait_answers_one_look() {
    let mut tracing = TraceMonitor::new(0);
    assert_eq!(tracing.on_message(&WAITS), Err(ProtocolViolation::Waits));
    assert_eq!((tracing.begin_wait_query(), tracing.begin_wait_query()), (true, false));
    tracing.on_message(&WAITS).unwrap();
    assert_eq!(tracing.on_message(&WAITS), Err(ProtocolViolation::Waits));
    assert!(tracing.begin_wait_query());
}
