use super::*;
use crate::bounded::{BoundedBytes, BoundedList, BoundedText};
use crate::call::{CallBody, CallRequest, CallTarget};
use crate::emitted_file::EmittedFile;
use crate::job::{JobLanguage, PROTOCOL_VERSION};
use crate::outcome::{JobOutcome, JobOutcomeKind};
use crate::worker_command::ChildLimits;

fn done() -> FromChild {
    FromChild::Done(JobOutcome {
        kind: JobOutcomeKind::Completed,
        exit_code: 0,
        signal: None,
        has_value: false,
        error: None,
        diagnostics: BoundedList::default(),
    })
}

fn call() -> FromChild {
    let body = CallBody::Inline(BoundedText::default());
    let (number, ask) = (1, CallTarget::List);
    let trace = BoundedBytes::default();
    FromChild::Call(CallRequest {
        number,
        ask,
        body,
        trace,
    })
}

fn emit() -> FromChild {
    FromChild::Emit(EmittedFile {
        path: BoundedText::truncated("a.csv"),
        media_type: BoundedText::truncated("text/csv"),
    })
}

#[test]
fn a_number_is_used_once_and_answered_once() {
    let mut calls = OpenCalls::default();
    for number in [0, 2, u32::MAX] {
        assert_eq!(calls.on_call(number), Err(ProtocolViolation::Call { number, next: 1 }));
    }
    assert_eq!(
        (calls.on_call(1), calls.next_number(), calls.on_call(3)),
        (Ok(()), Some(2), Ok(()))
    );
    assert_eq!(calls.on_call(2), Err(ProtocolViolation::Call { number: 2, next: 4 }));
    assert_eq!((calls.on_response(2), calls.is_unanswered(2)), (Ok(()), false));
    for number in [0, 2, 4] {
        assert_eq!(calls.on_response(number), Err(ProtocolViolation::Return { number }));
    }
    assert_eq!(
        (calls.on_response(1), calls.on_response(3), calls.unanswered()),
        (Ok(()), Ok(()), 0)
    );
}

#[test]
fn only_so_many_calls_may_be_unanswered() {
    let mut calls = OpenCalls::default();
    let made = (1..).map_while(|_| calls.next_number()).count();
    assert_eq!((made, calls.unanswered()), (MAX_OPEN_CALLS, MAX_OPEN_CALLS));
    assert_eq!(calls.on_call(4097), Err(ProtocolViolation::TooManyCalls));
    calls.on_response(7).unwrap();
    assert_eq!((calls.next_number(), calls.next_number()), (Some(4097), None));
}

#[test]
fn a_child_speaks_in_turn_only() {
    use ChildState::{Done, JobSent, New, Ready, Started};
    let messages = [FromChild::Ready, FromChild::Started, call(), emit(), done()];
    for (turn, next) in [
        (New, [Some(Ready), None, None, None, None]),
        (Ready, [None, None, None, None, None]),
        (JobSent, [None, Some(Started), None, None, Some(Done)]),
        (Started, [None, None, Some(Started), Some(Started), Some(Done)]),
        (Done, [None, None, None, None, None]),
    ] {
        for (message, next) in messages.iter().zip(next) {
            let mut after = turn;
            let heard = after.on_message(message);
            assert_eq!(heard, next.map(|_| ()).ok_or(ProtocolViolation::Child));
            assert_eq!(after, next.unwrap_or(turn), "{turn:?} {message:?}");
        }
    }
}

#[test]
fn a_job_is_given_once_to_a_child_that_waits() {
    for turn in [
        ChildState::New,
        ChildState::JobSent,
        ChildState::Started,
        ChildState::Done,
    ] {
        let mut after = turn;
        assert_eq!(after.send_job(), Err(ProtocolViolation::Job));
        assert_eq!(after, turn);
    }
    let mut turn = ChildState::Ready;
    turn.send_job().unwrap();
    assert_eq!(turn, ChildState::JobSent);
}

fn ready() -> PendingCommands {
    let mut orders = PendingCommands::new();
    orders
        .on_report(&WorkerReport::Ready {
            version: PROTOCOL_VERSION,
        })
        .unwrap();
    orders
}

fn prepare(number: u32) -> WorkerCommand {
    let limits = ChildLimits {
        address_space: None,
        private_memory: None,
        cpu_seconds: 1,
    };
    WorkerCommand::Prepare(PrepareCommand {
        number,
        language: JobLanguage::Python,
        limits,
        interpreter: BoundedText::default(),
        network: false,
    })
}

#[test]
fn orders_may_be_given_ahead_and_are_answered_in_order() {
    let mut orders = ready();
    for order in [
        prepare(1),
        WorkerCommand::Finish { number: 1 },
        WorkerCommand::Wipe,
        prepare(2),
    ] {
        orders.send_command(&order).unwrap();
    }
    assert!(!orders.is_idle());
    let reason = BoundedText::new("no memory").unwrap();
    for report in [
        WorkerReport::Prepared { number: 1 },
        WorkerReport::Finished { number: 1 },
        WorkerReport::ZygoteFailed { reason: reason.clone() },
        WorkerReport::Wiped,
        WorkerReport::PrepareFailed { number: 2, reason },
    ] {
        orders.on_report(&report).unwrap();
    }
    assert!(orders.is_idle());
}

#[test]
fn a_report_for_another_execution_or_none_is_refused() {
    let reports = [
        WorkerReport::Ready {
            version: PROTOCOL_VERSION,
        },
        WorkerReport::Prepared { number: 8 },
        WorkerReport::Finished { number: 7 },
        WorkerReport::Wiped,
        WorkerReport::WipeFailed {
            reason: BoundedText::default(),
        },
    ];
    for report in &reports {
        let mut idle = ready();
        assert_eq!(idle.on_report(report), Err(ProtocolViolation::Report), "{report:?}");
        let mut waiting = ready();
        waiting.send_command(&prepare(7)).unwrap();
        let before = waiting.clone();
        assert_eq!(waiting.on_report(report), Err(ProtocolViolation::Report), "{report:?}");
        assert_eq!(waiting, before);
    }
    let mut orders = ready();
    orders.send_command(&prepare(7)).unwrap();
    orders.on_report(&WorkerReport::Prepared { number: 7 }).unwrap();
    assert_eq!(
        orders.on_report(&WorkerReport::Prepared { number: 7 }),
        Err(ProtocolViolation::Report),
        "one answer each"
    );
}

#[test]
fn a_sandbox_takes_orders_until_its_shutdown_and_answers_them_when_it_is_ready() {
    let mut orders = PendingCommands::new();
    orders.send_command(&WorkerCommand::Wipe).unwrap();
    assert_eq!(orders.on_report(&WorkerReport::Wiped), Err(ProtocolViolation::Report));
    orders
        .on_report(&WorkerReport::Ready {
            version: PROTOCOL_VERSION,
        })
        .unwrap();
    orders.send_command(&WorkerCommand::Shutdown).unwrap();
    assert_eq!(orders.send_command(&WorkerCommand::Wipe), Err(ProtocolViolation::Order));
    orders.on_report(&WorkerReport::Wiped).unwrap();
}

#[test]
fn what_is_remembered_stays_bounded() {
    let mut orders = ready();
    for number in 0..5_000 {
        orders.send_command(&prepare(number)).unwrap();
        orders.on_report(&WorkerReport::Prepared { number }).unwrap();
    }
    assert!(orders.unanswered.capacity() <= 2 * MAX_PENDING_COMMANDS);
    for number in 0..16 {
        orders.send_command(&prepare(number)).unwrap();
    }
    assert_eq!(
        orders.send_command(&WorkerCommand::Wipe),
        Err(ProtocolViolation::TooMany)
    );
}
