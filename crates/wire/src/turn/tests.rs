use super::*;
use crate::bounded::{Bytes, List, Text};
use crate::call::{Ask, Body, Call};
use crate::emit::Emit;
use crate::job::{Language, VERSION};
use crate::order::ChildLimits;
use crate::outcome::{Outcome, OutcomeKind};

fn done() -> FromChild {
    FromChild::Done(Outcome {
        kind: OutcomeKind::Completed,
        exit_code: 0,
        signal: None,
        has_value: false,
        error: None,
        diagnostics: List::default(),
    })
}

fn call() -> FromChild {
    let body = Body::Inline(Text::default());
    let (number, ask) = (1, Ask::List);
    let trace = Bytes::default();
    FromChild::Call(Call {
        number,
        ask,
        body,
        trace,
    })
}

fn emit() -> FromChild {
    FromChild::Emit(Emit {
        path: Text::cut("a.csv"),
        media_type: Text::cut("text/csv"),
    })
}

#[test]
fn a_number_is_used_once_and_answered_once() {
    let mut calls = Calls::default();
    for number in [0, 2, u32::MAX] {
        assert_eq!(calls.ask(number), Err(OutOfTurn::Call { number, next: 1 }));
    }
    assert_eq!((calls.ask(1), calls.number(), calls.ask(3)), (Ok(()), Some(2), Ok(())));
    assert_eq!(calls.ask(2), Err(OutOfTurn::Call { number: 2, next: 4 }));
    assert_eq!((calls.answer(2), calls.is_unanswered(2)), (Ok(()), false));
    for number in [0, 2, 4] {
        assert_eq!(calls.answer(number), Err(OutOfTurn::Return { number }));
    }
    assert_eq!(
        (calls.answer(1), calls.answer(3), calls.unanswered()),
        (Ok(()), Ok(()), 0)
    );
}

#[test]
fn only_so_many_calls_may_be_unanswered() {
    let mut calls = Calls::default();
    let made = (1..).map_while(|_| calls.number()).count();
    assert_eq!((made, calls.unanswered()), (CALLS_MAX, CALLS_MAX));
    assert_eq!(calls.ask(4097), Err(OutOfTurn::TooManyCalls));
    calls.answer(7).unwrap();
    assert_eq!((calls.number(), calls.number()), (Some(4097), None));
}

#[test]
fn a_child_speaks_in_turn_only() {
    use ChildTurn::{Done, Given, New, Ready, Started};
    let messages = [FromChild::Ready, FromChild::Started, call(), emit(), done()];
    for (turn, next) in [
        (New, [Some(Ready), None, None, None, None]),
        (Ready, [None, None, None, None, None]),
        (Given, [None, Some(Started), None, None, Some(Done)]),
        (Started, [None, None, Some(Started), Some(Started), Some(Done)]),
        (Done, [None, None, None, None, None]),
    ] {
        for (message, next) in messages.iter().zip(next) {
            let mut after = turn;
            let heard = after.hear(message);
            assert_eq!(heard, next.map(|_| ()).ok_or(OutOfTurn::Child));
            assert_eq!(after, next.unwrap_or(turn), "{turn:?} {message:?}");
        }
    }
}

#[test]
fn a_job_is_given_once_to_a_child_that_waits() {
    for turn in [ChildTurn::New, ChildTurn::Given, ChildTurn::Started, ChildTurn::Done] {
        let mut after = turn;
        assert_eq!(after.give(), Err(OutOfTurn::Job));
        assert_eq!(after, turn);
    }
    let mut turn = ChildTurn::Ready;
    turn.give().unwrap();
    assert_eq!(turn, ChildTurn::Given);
}

fn ready() -> Orders {
    let mut orders = Orders::new();
    orders.hear(&Report::Ready { version: VERSION }).unwrap();
    orders
}

fn prepare(number: u32) -> Order {
    let limits = ChildLimits {
        address_space: None,
        private_memory: None,
        cpu_seconds: 1,
    };
    Order::Prepare(Preparation {
        number,
        language: Language::Python,
        limits,
        interpreter: Text::default(),
        network: false,
    })
}

#[test]
fn orders_may_be_given_ahead_and_are_answered_in_order() {
    let mut orders = ready();
    for order in [prepare(1), Order::Finish { number: 1 }, Order::Wipe, prepare(2)] {
        orders.give(&order).unwrap();
    }
    assert!(!orders.settled());
    let reason = Text::new("no memory").unwrap();
    for report in [
        Report::Prepared { number: 1 },
        Report::Finished { number: 1 },
        Report::ZygoteFailed { reason: reason.clone() },
        Report::Wiped,
        Report::PrepareFailed { number: 2, reason },
    ] {
        orders.hear(&report).unwrap();
    }
    assert!(orders.settled());
}

#[test]
fn a_report_for_another_execution_or_none_is_refused() {
    let reports = [
        Report::Ready { version: VERSION },
        Report::Prepared { number: 8 },
        Report::Finished { number: 7 },
        Report::Wiped,
        Report::WipeFailed {
            reason: Text::default(),
        },
    ];
    for report in &reports {
        let mut idle = ready();
        assert_eq!(idle.hear(report), Err(OutOfTurn::Report), "{report:?}");
        let mut waiting = ready();
        waiting.give(&prepare(7)).unwrap();
        let before = waiting.clone();
        assert_eq!(waiting.hear(report), Err(OutOfTurn::Report), "{report:?}");
        assert_eq!(waiting, before);
    }
    let mut orders = ready();
    orders.give(&prepare(7)).unwrap();
    orders.hear(&Report::Prepared { number: 7 }).unwrap();
    assert_eq!(
        orders.hear(&Report::Prepared { number: 7 }),
        Err(OutOfTurn::Report),
        "one answer each"
    );
}

#[test]
fn a_sandbox_takes_orders_until_its_shutdown_and_answers_them_when_it_is_ready() {
    let mut orders = Orders::new();
    orders.give(&Order::Wipe).unwrap();
    assert_eq!(orders.hear(&Report::Wiped), Err(OutOfTurn::Report));
    orders.hear(&Report::Ready { version: VERSION }).unwrap();
    orders.give(&Order::Shutdown).unwrap();
    assert_eq!(orders.give(&Order::Wipe), Err(OutOfTurn::Order));
    orders.hear(&Report::Wiped).unwrap();
}

#[test]
fn what_is_remembered_stays_bounded() {
    let mut orders = ready();
    for number in 0..5_000 {
        orders.give(&prepare(number)).unwrap();
        orders.hear(&Report::Prepared { number }).unwrap();
    }
    assert!(orders.unanswered.capacity() <= 2 * UNANSWERED);
    for number in 0..16 {
        orders.give(&prepare(number)).unwrap();
    }
    assert_eq!(orders.give(&Order::Wipe), Err(OutOfTurn::TooMany));
}
