use std::time::Duration;

use proptest::prelude::*;
use ringfence_journal::{ApprovalId, CallOutcome, Entry, EntryKind};
use ringfence_policy::Hints;

use super::{AnswerParts, Asking, Known, Tape, TapeError, What};
use crate::refusal::Told;

const ECHO: What<&str> = What::Tool {
    server: "one",
    tool: "echo",
};

fn asking(number: u32, body: &str) -> Asking<'_> {
    Asking {
        number,
        what: ECHO,
        name: Some("one.echo"),
        hints: None,
        body,
    }
}

fn answer<'a>(answer: Result<&'a str, &'a Told>) -> AnswerParts<'a> {
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

fn told() -> Told {
    Told {
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
                let hints = Hints {
                    read_only,
                    destructive,
                    open_world,
                };
                let tape = Tape::new();
                let asked = Asking {
                    hints: Some(hints),
                    ..asking(1, "{}")
                };
                // A later entry without it does not remove it.
                let mut entries = tape.started(&asked);
                entries.extend(tape.settled(&asking(1, "{}"), &answer(Ok("1"))));
                let (read, _) = Tape::read(entries).unwrap();
                assert_eq!(read.calls()[0].1.hints, Some(hints));
            }
        }
    }
}

#[test]
fn what_was_kept_is_read_back_as_it_was() {
    let (tape, told) = (Tape::new(), told());
    tape.heard(b"abc");
    let mut entries = tape.started(&asking(1, r#"{"text":"hi"}"#));
    entries.extend(tape.ended(1, &answer(Ok(r#""hi""#))));
    tape.heard(b"de");
    entries.extend(tape.settled(&asking(2, "{}"), &answer(Err(&told))));
    entries.extend(tape.answered(3, What::Search, "[]", Ok("{}")));
    tape.heard(b"f");
    entries.extend(tape.rest());
    assert!(tape.rest().is_empty());
    let (read, trace) = Tape::read(entries).unwrap();
    assert_eq!(trace, b"abcdef");
    assert_eq!((read.known(), read.unknown()), (3, 0));
    let calls = read.calls();
    let [(1, one), (2, two), (3, three)] = calls.as_slice() else {
        panic!("{calls:?}")
    };
    assert_eq!(
        (one.name.as_deref(), one.arguments.text()),
        (Some("one.echo"), Some(r#"{"text":"hi"}"#))
    );
    let kept = one.answered.as_ref().unwrap();
    assert_eq!(kept.answer, Ok(r#""hi""#.to_owned()));
    assert_eq!(
        (kept.duration, kept.rule.as_deref()),
        (Duration::from_micros(1234), Some("tools.rules[3]"))
    );
    assert_eq!(two.answered.as_ref().unwrap().answer, Err(told));
    assert_eq!(three.what, What::Search);
    assert_eq!(read.answer(3, What::Search, "[]").unwrap(), Some(&Ok("{}".to_owned())));
}

#[test]
fn a_trace_is_used_as_far_as_it_has_no_gap() {
    let tape = Tape::new();
    let mut entries = Vec::new();
    for (number, piece) in (1..).zip([b"ab", b"cd", b"ef"]) {
        tape.heard(piece);
        entries.push(tape.started(&asking(number, "{}")));
    }
    let of = |order: &[usize]| {
        let chosen = order.iter().flat_map(|index| entries[*index].clone());
        Tape::read(chosen).unwrap().1
    };
    assert_eq!(of(&[2, 0, 1]), b"abcdef");
    assert_eq!(of(&[0, 2]), b"ab");
    assert_eq!(of(&[1, 2]), b"");
}

#[test]
fn what_comes_after_a_tape_follows_its_trace() {
    let tape = Tape::new();
    tape.heard(b"abc");
    let mut entries = tape.started(&asking(1, "{}"));
    let (again, _) = Tape::read(entries.clone()).unwrap();
    again.heard(b"def");
    entries.extend(again.rest());
    assert_eq!(Tape::read(entries).unwrap().1, b"abcdef");
}

#[test]
fn where_a_later_run_goes_its_own_way_an_earlier_one_is_void() {
    let tape = Tape::new();
    let piece = |tape: &Tape, number: u32, piece: &[u8]| {
        tape.heard(piece);
        tape.started(&asking(number, "{}"))
    };
    let mut entries = piece(&tape, 1, b"ab");
    let lost = piece(&tape, 2, b"cd");
    entries.extend(piece(&tape, 3, b"ef"));
    let (again, trace) = Tape::read(entries.clone()).unwrap();
    assert_eq!(trace, b"ab");
    entries.extend(piece(&again, 4, b"CD"));
    // From the start of the earlier run's piece on, the trace is this run's alone.
    let (third, trace) = Tape::read(entries.clone()).unwrap();
    assert_eq!(trace, b"abCD");
    entries.extend(piece(&third, 5, b"E"));
    assert_eq!(Tape::read(entries.clone()).unwrap().1, b"abCDE");
    assert!(!lost.is_empty());
}

#[test]
fn where_a_call_stood_is_known() {
    let (first, second) = (ApprovalId::generate().unwrap(), ApprovalId::generate().unwrap());
    let tape = Tape::new();
    let call = asking(1, "{}");
    let asked = |id| tape.asked(&call, id);
    let started = || tape.started(&call);
    let check = |entries: Vec<Vec<Entry>>, expected: &str| {
        let (tape, _) = Tape::read(entries.concat()).unwrap();
        let found = format!("{:?}", tape.find(1, ECHO, "{}").unwrap());
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
    let tape = Tape::new();
    let mut entries = tape.started(&asking(1, "{}"));
    entries.extend(tape.ended(1, &answer(Ok("1"))));
    entries.extend(tape.started(&asking(2, "{}")));
    let (live, _) = Tape::read(entries.clone()).unwrap();
    let other = What::Tool {
        server: "one",
        tool: "other",
    };
    let differs = live.find(1, other, "{}").unwrap_err();
    assert_eq!(
        differs.to_string(),
        "the program does not repeat itself at call 1: it asked for `one.echo` and now asks for `one.other`"
    );
    let differs = live.find(1, ECHO, r#"{"a":1}"#).unwrap_err();
    assert_eq!(differs.number, 1);
    assert!(live.find(1, What::List, "{}").is_err());
    assert!(matches!(live.find(9, ECHO, "{}"), Ok(Known::New)));
    let only = live.only();
    assert!(matches!(only.find(1, ECHO, "{}"), Ok(Known::Answered(_))));
    assert!(only.find(2, ECHO, "{}").is_err(), "it has no answer");
    assert!(only.find(9, ECHO, "{}").is_err(), "it was not made");
    only.heard(b"x");
    assert!(only.rest().is_empty());
}

#[test]
fn too_much_spoils_the_tape_and_says_so_in_every_entry_that_follows() {
    let tape = Tape::new();
    let mut entries = tape.started(&asking(1, "{}"));
    let long = "x".repeat(16 * 1024 * 1024 + 1);
    let parts = AnswerParts {
        answer: Ok(&long),
        ..answer(Ok(""))
    };
    let end = tape.ended(1, &parts).unwrap();
    assert!(end.bytes.len() < 10);
    assert_eq!(tape.spoiled(), Some("replay.too_large"));
    let next = tape.started(&asking(2, "{}"));
    let mut whole = entries.clone();
    whole.push(end);
    assert_eq!(Tape::read(whole).unwrap_err(), TapeError::TooLarge);
    entries.extend(next);
    assert_eq!(Tape::read(entries).unwrap_err(), TapeError::TooLarge);
}

#[test]
fn all_of_an_execution_together_is_bounded() {
    let tape = Tape::new();
    let half = "x".repeat(15 * 1024 * 1024);
    for number in 1..=5 {
        assert_eq!(tape.spoiled(), None, "{number}");
        let parts = AnswerParts {
            answer: Ok(&half),
            ..answer(Ok(""))
        };
        tape.ended(number, &parts);
    }
    assert!(tape.spoiled().is_some());
}

#[test]
fn a_tape_that_is_off_keeps_nothing() {
    let tape = Tape::off();
    tape.heard(b"abc");
    assert!(tape.started(&asking(1, "{}")).is_empty());
    assert!(tape.ended(1, &answer(Ok("1"))).is_none());
    assert!(tape.settled(&asking(1, "{}"), &answer(Ok("1"))).is_empty());
    assert!(tape.rest().is_empty());
    assert!(matches!(tape.find(1, ECHO, "{}"), Ok(Known::New)));
}

#[test]
fn damage_is_an_error() {
    let entry = |kind, bytes: &[u8]| Entry {
        number: 1,
        kind,
        bytes: bytes.to_vec(),
    };
    let check = |entry: Entry, code: &str| assert_eq!(Tape::read([entry]).unwrap_err().code(), code);
    check(entry(EntryKind::Call, b""), "replay.damaged");
    check(entry(EntryKind::Call, &[2, 0]), "replay.version");
    check(entry(EntryKind::Answer, &[1, 9]), "replay.damaged");
    check(entry(EntryKind::Answer, &[1, 0, 0, 0, 0, 0]), "replay.damaged");
    check(entry(EntryKind::Trace, &[1, 0, 0, 0x80]), "replay.damaged");
    check(entry(EntryKind::Trace, &[1, 0, 9, 3]), "replay.damaged");
    let tape = Tape::new();
    let mut twice = tape.started(&asking(1, "{}"));
    twice.extend(tape.started(&asking(1, "[]")));
    assert_eq!(Tape::read(twice).unwrap_err().code(), "replay.damaged");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(kind in 0..3_u8, bytes in proptest::collection::vec(any::<u8>(), 0..64), number in 0..3_u32) {
        let kind = match kind {
            0 => EntryKind::Call,
            1 => EntryKind::Answer,
            _ => EntryKind::Trace,
        };
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = 1;
        }
        let _ = Tape::read([Entry { number, kind, bytes }]);
    }

    #[test]
    fn an_entry_cut_anywhere_is_an_error_or_a_shorter_text(cut in 0..80_usize) {
        let tape = Tape::new();
        let told = told();
        for entry in tape.settled(&asking(1, r#"{"text":"hi"}"#), &answer(Err(&told))) {
            let mut entry = entry;
            entry.bytes.truncate(cut);
            let _ = Tape::read([entry]);
        }
    }
}

#[test]
fn a_flood_of_refused_calls_is_kept_by_digests_and_still_runs_again() {
    let (tape, told) = (Tape::new(), told());
    let body = |number: u32| format!(r#"{{"text":"{number}{}"}}"#, "x".repeat(400_000));
    let entries: Vec<Entry> = (1..=300)
        .flat_map(|number| tape.settled(&asking(number, &body(number)), &answer(Err(&told))))
        .collect();
    let bytes: usize = entries.iter().map(|entry| entry.bytes.len()).sum();
    assert!(bytes < 2 << 20, "{bytes} bytes");
    assert_eq!(tape.spoiled(), None);
    let (read, _) = Tape::read(entries).unwrap();
    assert_eq!(read.known(), 300);
    let what = asking(300, "").what;
    assert!(read.compare(300, what, &body(300)).is_ok());
    let other = read.compare(300, what, &body(299)).unwrap_err();
    assert!(other.message.contains("other arguments"), "{other}");
    // The text of the first calls is kept.
    assert_eq!(read.calls()[0].1.arguments.text(), Some(body(1).as_str()));
}

#[test]
fn a_call_that_was_asked_for_and_then_refused_is_one_call() {
    let (tape, told) = (Tape::new(), told());
    let body = format!(r#"{{"text":"{}"}}"#, "x".repeat(1_100_000));
    let mut entries = tape.asked(&asking(1, &body), ApprovalId::generate().unwrap());
    entries.extend(tape.settled(&asking(1, &body), &answer(Err(&told))));
    let (read, _) = Tape::read(entries).unwrap();
    assert_eq!(
        (read.known(), read.calls()[0].1.arguments.text()),
        (1, Some(body.as_str()))
    );
}
