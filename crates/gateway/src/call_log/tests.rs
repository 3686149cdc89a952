use std::time::Duration;

use proptest::prelude::*;
use ringfence_journal::{ApprovalId, CallOutcome, ReplayEntry, ReplayEntryKind};
use ringfence_policy::ToolHints;

use super::{ActiveCall, AnswerParts, CallKind, CallLog, CallLogError, LoggedState};
use crate::refusal::CallErrorBody;

const ECHO: CallKind<&str> = CallKind::Tool {
    server: "one",
    tool: "echo",
};

fn asking(number: u32, body: &str) -> ActiveCall<'_> {
    ActiveCall {
        number,
        kind: ECHO,
        name: Some("one.echo"),
        hints: None,
        body,
    }
}

fn answer<'a>(answer: Result<&'a str, &'a CallErrorBody>) -> AnswerParts<'a> {
    AnswerParts {
        outcome: if answer.is_ok() {
            CallOutcome::Ok
        } else {
            CallOutcome::Failed
        },
        forbidden: false,
        duration: Duration::from_micros(1234),
        rule: Some("tools.rules[3]"),
        answer,
    }
}

fn told() -> CallErrorBody {
    CallErrorBody {
        code: "tool.failed".to_owned(),
        message: "it failed: ünd wie".to_owned(),
        rule: None,
        hint: Some("try".to_owned()),
        retry_after_ms: Some(0),
    }
}

#[test]
fn what_a_server_said_of_a_tool_is_kept_with_the_call() {
    let all = [None, Some(false), Some(true)];
    for read_only in all {
        for destructive in all {
            for open_world in all {
                let hints = ToolHints {
                    read_only,
                    destructive,
                    open_world,
                };
                let tape = CallLog::new();
                let asked = ActiveCall {
                    hints: Some(hints),
                    ..asking(1, "{}")
                };
                // A later entry without it does not remove it.
                let mut entries = tape.start_entries(&asked);
                entries.extend(tape.settled_entries(&asking(1, "{}"), &answer(Ok("1"))));
                let (read, _) = CallLog::from_entries(entries).unwrap();
                assert_eq!(read.calls()[0].1.hints, Some(hints));
            }
        }
    }
}

#[test]
fn what_was_kept_is_read_back_as_it_was() {
    let (tape, told) = (CallLog::new(), told());
    tape.append_trace(b"abc");
    let mut entries = tape.start_entries(&asking(1, r#"{"text":"hi"}"#));
    entries.extend(tape.end_entry(1, &answer(Ok(r#""hi""#))));
    tape.append_trace(b"de");
    entries.extend(tape.settled_entries(&asking(2, "{}"), &answer(Err(&told))));
    entries.extend(tape.lookup_entries(3, CallKind::Search, "[]", Ok("{}")));
    tape.append_trace(b"f");
    entries.extend(tape.remaining_trace());
    assert!(tape.remaining_trace().is_empty());
    let (read, trace) = CallLog::from_entries(entries).unwrap();
    assert_eq!(trace, b"abcdef");
    assert_eq!((read.answered_count(), read.unknown_count()), (3, 0));
    let calls = read.calls();
    let [(1, one), (2, two), (3, three)] = calls.as_slice() else {
        panic!("{calls:?}")
    };
    assert_eq!(
        (one.name.as_deref(), one.arguments.text()),
        (Some("one.echo"), Some(r#"{"text":"hi"}"#))
    );
    let kept = one.answer.as_ref().unwrap();
    assert_eq!(kept.answer, Ok(r#""hi""#.to_owned()));
    assert_eq!(
        (kept.duration, kept.rule.as_deref()),
        (Duration::from_micros(1234), Some("tools.rules[3]"))
    );
    assert_eq!(two.answer.as_ref().unwrap().answer, Err(told));
    assert_eq!(three.kind, CallKind::Search);
    assert_eq!(
        read.lookup_answer(3, CallKind::Search, "[]").unwrap(),
        Some(&Ok("{}".to_owned()))
    );
}

#[test]
fn a_trace_is_used_as_far_as_it_has_no_gap() {
    let tape = CallLog::new();
    let mut entries = Vec::new();
    for (number, piece) in (1..).zip([b"ab", b"cd", b"ef"]) {
        tape.append_trace(piece);
        entries.push(tape.start_entries(&asking(number, "{}")));
    }
    let of = |order: &[usize]| {
        let chosen = order.iter().flat_map(|index| entries[*index].clone());
        CallLog::from_entries(chosen).unwrap().1
    };
    assert_eq!(of(&[2, 0, 1]), b"abcdef");
    assert_eq!(of(&[0, 2]), b"ab");
    assert_eq!(of(&[1, 2]), b"");
}

#[test]
fn what_comes_after_a_tape_follows_its_trace() {
    let tape = CallLog::new();
    tape.append_trace(b"abc");
    let mut entries = tape.start_entries(&asking(1, "{}"));
    let (again, _) = CallLog::from_entries(entries.clone()).unwrap();
    again.append_trace(b"def");
    entries.extend(again.remaining_trace());
    assert_eq!(CallLog::from_entries(entries).unwrap().1, b"abcdef");
}

#[test]
fn where_a_later_run_goes_its_own_way_an_earlier_one_is_void() {
    let tape = CallLog::new();
    let piece = |tape: &CallLog, number: u32, piece: &[u8]| {
        tape.append_trace(piece);
        tape.start_entries(&asking(number, "{}"))
    };
    let mut entries = piece(&tape, 1, b"ab");
    let lost = piece(&tape, 2, b"cd");
    entries.extend(piece(&tape, 3, b"ef"));
    let (again, trace) = CallLog::from_entries(entries.clone()).unwrap();
    assert_eq!(trace, b"ab");
    entries.extend(piece(&again, 4, b"CD"));
    // From the start of the earlier run's piece on, the trace is this run's alone.
    let (third, trace) = CallLog::from_entries(entries.clone()).unwrap();
    assert_eq!(trace, b"abCD");
    entries.extend(piece(&third, 5, b"E"));
    assert_eq!(CallLog::from_entries(entries.clone()).unwrap().1, b"abCDE");
    assert!(!lost.is_empty());
}

#[test]
fn where_a_call_stood_is_known() {
    let (first, second) = (ApprovalId::generate().unwrap(), ApprovalId::generate().unwrap());
    let tape = CallLog::new();
    let call = asking(1, "{}");
    let asked = |id| tape.approval_entries(&call, id);
    let started = || tape.start_entries(&call);
    let check = |entries: Vec<Vec<ReplayEntry>>, expected: &str| {
        let (tape, _) = CallLog::from_entries(entries.concat()).unwrap();
        let found = format!("{:?}", tape.find_call(1, ECHO, "{}").unwrap());
        assert_eq!(found, expected);
    };
    check(vec![], "New");
    check(vec![asked(first)], &format!("Asked({first:?})"));
    check(vec![asked(first), asked(second)], &format!("Asked({second:?})"));
    check(vec![asked(first), started()], "Unknown(None)");
    check(vec![started(), asked(first)], &format!("Unknown(Some({first:?}))"));
    // Approval of the first repetition does not cover a second.
    check(vec![started(), asked(first), started()], "Unknown(None)");
}

#[test]
fn a_program_that_asks_something_else_does_not_repeat_itself() {
    let tape = CallLog::new();
    let mut entries = tape.start_entries(&asking(1, "{}"));
    entries.extend(tape.end_entry(1, &answer(Ok("1"))));
    entries.extend(tape.start_entries(&asking(2, "{}")));
    let (live, _) = CallLog::from_entries(entries.clone()).unwrap();
    let other = CallKind::Tool {
        server: "one",
        tool: "other",
    };
    let differs = live.find_call(1, other, "{}").unwrap_err();
    assert_eq!(
        differs.to_string(),
        "the program does not repeat itself at call 1: it asked for `one.echo` and now asks for `one.other`"
    );
    let differs = live.find_call(1, ECHO, r#"{"a":1}"#).unwrap_err();
    assert_eq!(differs.number, 1);
    assert!(live.find_call(1, CallKind::List, "{}").is_err());
    assert!(matches!(live.find_call(9, ECHO, "{}"), Ok(LoggedState::New)));
    let only = live.replay_only();
    assert!(matches!(only.find_call(1, ECHO, "{}"), Ok(LoggedState::Answered(_))));
    assert!(only.find_call(2, ECHO, "{}").is_err(), "it has no answer");
    assert!(only.find_call(9, ECHO, "{}").is_err(), "it was not made");
    only.append_trace(b"x");
    assert!(only.remaining_trace().is_empty());
}

#[test]
fn too_much_spoils_the_tape_and_says_so_in_every_entry_that_follows() {
    let tape = CallLog::new();
    let mut entries = tape.start_entries(&asking(1, "{}"));
    let long = "x".repeat(16 * 1024 * 1024 + 1);
    let parts = AnswerParts {
        answer: Ok(&long),
        ..answer(Ok(""))
    };
    let end = tape.end_entry(1, &parts).unwrap();
    assert!(end.bytes.len() < 10);
    assert_eq!(tape.unrepeatable_code(), Some("replay.too_large"));
    let next = tape.start_entries(&asking(2, "{}"));
    let mut whole = entries.clone();
    whole.push(end);
    assert_eq!(CallLog::from_entries(whole).unwrap_err(), CallLogError::TooLarge);
    entries.extend(next);
    assert_eq!(CallLog::from_entries(entries).unwrap_err(), CallLogError::TooLarge);
}

#[test]
fn all_of_an_execution_together_is_bounded() {
    let tape = CallLog::new();
    let half = "x".repeat(15 * 1024 * 1024);
    for number in 1..=5 {
        assert_eq!(tape.unrepeatable_code(), None, "{number}");
        let parts = AnswerParts {
            answer: Ok(&half),
            ..answer(Ok(""))
        };
        tape.end_entry(number, &parts);
    }
    assert!(tape.unrepeatable_code().is_some());
}

#[test]
fn a_tape_that_is_off_keeps_nothing() {
    let tape = CallLog::off();
    tape.append_trace(b"abc");
    assert!(tape.start_entries(&asking(1, "{}")).is_empty());
    assert!(tape.end_entry(1, &answer(Ok("1"))).is_none());
    assert!(tape.settled_entries(&asking(1, "{}"), &answer(Ok("1"))).is_empty());
    assert!(tape.remaining_trace().is_empty());
    assert!(matches!(tape.find_call(1, ECHO, "{}"), Ok(LoggedState::New)));
}

#[test]
fn damage_is_an_error() {
    let entry = |kind, bytes: &[u8]| ReplayEntry {
        number: 1,
        kind,
        bytes: bytes.to_vec(),
    };
    let check = |entry: ReplayEntry, code: &str| assert_eq!(CallLog::from_entries([entry]).unwrap_err().code(), code);
    check(entry(ReplayEntryKind::Call, b""), "replay.damaged");
    check(entry(ReplayEntryKind::Call, &[2, 0]), "replay.version");
    check(entry(ReplayEntryKind::Answer, &[1, 9]), "replay.damaged");
    check(entry(ReplayEntryKind::Answer, &[1, 0, 0, 0, 0, 0]), "replay.damaged");
    check(entry(ReplayEntryKind::Trace, &[1, 0, 0, 0x80]), "replay.damaged");
    check(entry(ReplayEntryKind::Trace, &[1, 0, 9, 3]), "replay.damaged");
    let tape = CallLog::new();
    let mut twice = tape.start_entries(&asking(1, "{}"));
    twice.extend(tape.start_entries(&asking(1, "[]")));
    assert_eq!(CallLog::from_entries(twice).unwrap_err().code(), "replay.damaged");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(kind in 0..3_u8, bytes in proptest::collection::vec(any::<u8>(), 0..64), number in 0..3_u32) {
        let kind = match kind {
            0 => ReplayEntryKind::Call,
            1 => ReplayEntryKind::Answer,
            _ => ReplayEntryKind::Trace,
        };
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = 1;
        }
        match CallLog::from_entries([ReplayEntry { number, kind, bytes }]) {
            Ok((read, _)) => prop_assert!(read.calls().len() <= 1 && read.answered_count() <= 1),
            Err(error) => prop_assert_eq!(error.code(), "replay.damaged"),
        }
    }

    #[test]
    fn an_entry_cut_anywhere_is_an_error_or_a_shorter_text(which in 0..2_usize, cut in 0..80_usize) {
        let (tape, told, body) = (CallLog::new(), told(), r#"{"text":"hi"}"#);
        let mut entries = tape.settled_entries(&asking(1, body), &answer(Err(&told)));
        prop_assert_eq!(entries.len(), 2);
        let whole = entries[which].bytes.len();
        entries[which].bytes.truncate(cut);
        match CallLog::from_entries(entries) {
            Err(error) => {
                prop_assert!(cut < whole);
                prop_assert_eq!(error.code(), "replay.damaged");
            }
            Ok((read, _)) => {
                let calls = read.calls();
                let [(1, call)] = calls.as_slice() else { panic!("{calls:?}") };
                prop_assert_eq!(call.name.as_deref(), Some("one.echo"));
                let Some(Err(refused)) = call.answer.as_ref().map(|kept| &kept.answer) else { panic!("{call:?}") };
                let texts = [(call.arguments.text().unwrap(), body), (refused.message.as_str(), told.message.as_str())];
                for (read, written) in texts {
                    prop_assert!(written.starts_with(read), "{read}");
                    prop_assert!(cut < whole || read == written, "{read}");
                }
                prop_assert_eq!((&refused.code, &refused.hint), (&told.code, &told.hint));
            }
        }
    }
}

#[test]
fn a_flood_of_refused_calls_is_kept_by_digests_and_still_runs_again() {
    let (tape, told) = (CallLog::new(), told());
    let body = |number: u32| format!(r#"{{"text":"{number}{}"}}"#, "x".repeat(400_000));
    let entries: Vec<ReplayEntry> = (1..=300)
        .flat_map(|number| tape.settled_entries(&asking(number, &body(number)), &answer(Err(&told))))
        .collect();
    let bytes: usize = entries.iter().map(|entry| entry.bytes.len()).sum();
    assert!(bytes < 2 << 20, "{bytes} bytes");
    assert_eq!(tape.unrepeatable_code(), None);
    let (read, _) = CallLog::from_entries(entries).unwrap();
    assert_eq!(read.answered_count(), 300);
    let what = asking(300, "").kind;
    assert!(read.check_repeats(300, what, &body(300)).is_ok());
    let other = read.check_repeats(300, what, &body(299)).unwrap_err();
    assert!(other.message.contains("other arguments"), "{other}");
    // The text of the first calls is kept.
    assert_eq!(read.calls()[0].1.arguments.text(), Some(body(1).as_str()));
}

#[test]
fn a_call_that_was_asked_for_and_then_refused_is_one_call() {
    let (tape, told) = (CallLog::new(), told());
    let body = format!(r#"{{"text":"{}"}}"#, "x".repeat(1_100_000));
    let mut entries = tape.approval_entries(&asking(1, &body), ApprovalId::generate().unwrap());
    entries.extend(tape.settled_entries(&asking(1, &body), &answer(Err(&told))));
    let (read, _) = CallLog::from_entries(entries).unwrap();
    assert_eq!(
        (read.answered_count(), read.calls()[0].1.arguments.text()),
        (1, Some(body.as_str()))
    );
}
