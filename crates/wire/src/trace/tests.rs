use super::*;
use crate::bounded::{Bytes, Text};
use crate::call::{Ask, Body, Call};

fn piece(bytes: usize) -> FromChild {
    FromChild::Trace(Bytes::new(vec![1; bytes]).unwrap())
}

fn call(bytes: usize) -> FromChild {
    FromChild::Call(Call {
        number: 1,
        ask: Ask::List,
        body: Body::Inline(Text::default()),
        trace: Bytes::new(vec![1; bytes]).unwrap(),
    })
}

const WAITS: FromChild = FromChild::Waits { open: 1, due: None };

fn unrepeatable() -> FromChild {
    FromChild::Unrepeatable {
        why: Text::cut("threads"),
    }
}

#[test]
fn a_trace_is_bounded_over_all_pieces_and_what_was_given() {
    for given in [0, TRACE_CAP / 2, TRACE_CAP] {
        let mut tracing = Tracing::new(given);
        let mut heard = given;
        let refused = (0..).find_map(|_| {
            let told = tracing.hear(&piece(TRACE_PIECE)).err();
            heard += TRACE_PIECE as u64;
            told
        });
        assert_eq!(refused, Some(OutOfTurn::Trace { bytes: TRACE_PIECE }));
        assert!(
            heard > TRACE_CAP && heard <= TRACE_CAP + SLACK + TRACE_PIECE as u64,
            "{heard}"
        );
    }
    assert_eq!(
        Tracing::new(u64::MAX).hear(&call(1)),
        Err(OutOfTurn::Trace { bytes: 1 })
    );
    assert_eq!(Tracing::new(u64::MAX).hear(&call(0)), Ok(()));
}

#[test]
fn there_is_no_trace_after_it_was_given_up() {
    let mut tracing = Tracing::new(0);
    tracing.hear(&call(10)).unwrap();
    tracing.hear(&unrepeatable()).unwrap();
    assert_eq!(tracing.hear(&unrepeatable()), Err(OutOfTurn::Unrepeatable));
    assert_eq!(tracing.hear(&piece(1)), Err(OutOfTurn::Trace { bytes: 1 }));
    assert_eq!(tracing.hear(&call(1)), Err(OutOfTurn::Trace { bytes: 1 }));
    assert_eq!(tracing.hear(&call(0)), Ok(()));
}

#[test]
fn a_wait_answers_one_look() {
    let mut tracing = Tracing::new(0);
    assert_eq!(tracing.hear(&WAITS), Err(OutOfTurn::Waits));
    assert_eq!((tracing.look(), tracing.look()), (true, false));
    tracing.hear(&WAITS).unwrap();
    assert_eq!(tracing.hear(&WAITS), Err(OutOfTurn::Waits));
    assert!(tracing.look());
}
