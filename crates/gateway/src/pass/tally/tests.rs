use std::time::Duration;

use super::*;

fn refused(number: u32, tool: &str) -> CompletedCall {
    CompletedCall {
        number,
        tool: tool.to_owned(),
        outcome: CallOutcome::Refused,
        rule: Some("tools.default".to_owned()),
        forbidden: true,
        duration: Duration::ZERO,
        bytes_in: 2,
        bytes_out: 0,
    }
}

#[test]
fn the_first_hundred_of_a_kind_are_listed_and_the_rest_is_counted() {
    let mut tally = CallTally::default();
    for number in 1..=5000 {
        tally.add_call(refused(number, "a.b"));
    }
    tally.add_call(refused(5001, "a.c"));
    let made = tally.finish();
    assert_eq!((made.listed.len(), made.total, made.bytes), (101, 5001, 10_002));
    let [more] = &made.unlisted[..] else {
        panic!("{:?}", made.unlisted)
    };
    assert_eq!((more.tool.as_str(), more.count, more.forbidden), ("a.b", 4900, true));
}

#[test]
fn names_that_a_program_makes_up_are_not_told_apart_for_ever() {
    let mut tally = CallTally::default();
    for number in 1..=100_000 {
        tally.add_call(refused(number, &format!("a.t{number}")));
    }
    let made = tally.finish();
    assert_eq!((made.listed.len(), made.unlisted.len(), made.total), (64, 1, 100_000));
    assert_eq!(
        (made.unlisted[0].tool.as_str(), made.unlisted[0].count),
        ("other", 99_936)
    );
}

#[test]
fn refusals_are_events_a_hundred_times_and_then_counted() {
    let mut tally = RefusalTally::default();
    let (mut events, mut said) = (0, 0);
    for number in 0..10_000 {
        let name = format!("a.t{}", number % 3);
        if tally.add(&name, "tool.denied", "tools.default") {
            events += 1;
        } else if tally.hold_entries(Vec::new()) {
            for (kind, _) in tally.drain_events("call_refused") {
                let EventKind::Repeated { count, .. } = kind else {
                    panic!("{kind:?}")
                };
                (events, said) = (events + 1, said + count);
            }
        }
    }
    for (kind, _) in tally.drain_events("call_refused") {
        let EventKind::Repeated { count, .. } = kind else {
            panic!("{kind:?}")
        };
        (events, said) = (events + 1, said + count);
    }
    assert_eq!(said, 10_000 - 300);
    assert!(events <= 300 + 3 * 98, "{events}");
}

#[test]
fn a_name_that_is_our_word_for_many_hides_no_other() {
    let mut tally = RefusalTally::default();
    for _ in 0..200 {
        tally.add("other", "net.denied", "net.allowlist");
    }
    assert!(tally.add("evil.example", "net.denied", "net.allowlist"));
}

#[test]
fn a_skill_counts_with_whoever_called_it() {
    let counts = CallCounts::default();
    let (parent, child) = (ExecutionId::generate().unwrap(), ExecutionId::generate().unwrap());
    let first = counts.for_execution(parent, None);
    assert_eq!(first.next_call(), 1);
    assert_eq!(counts.for_execution(child, Some(parent)).next_call(), 2);
    drop(first);
    assert_eq!(
        counts.for_execution(parent, None).next_call(),
        1,
        "another run counts anew"
    );
}
