//! Tests of calls that need approval: requested, answered, and checked again before they are sent.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringfence_gateway::{ApprovalOutcome, PassError, WaitingCalls};
use ringfence_journal::{ApprovalScope, AskReason, EventKind};
use ringfence_policy::StandingRules;
use serde_json::json;

use crate::book::{Road, policy, refused, spawn};
use crate::harness::{bench, entry};

const ASK: &str = "tools: { default: allow, rules: [{ ask: 'one.echo' }] }";
const HI: &str = r#"{"text":"hi"}"#;
const ONCE: ApprovalOutcome = ApprovalOutcome::Approved {
    scope: ApprovalScope::Once,
};

#[tokio::test]
async fn a_call_waits_for_a_yes_and_goes_by_the_rule_that_asked() {
    let bench = bench(&json!({"one": entry("echo")}));
    let road = Road::new(&bench, ASK);
    let (desk, mut inbox) = road.desk();
    let pass = road.pass(desk);
    let calling = spawn(&pass, 1, "echo", HI);
    let (petition, answer) = inbox.next().await;
    assert_eq!(
        (petition.number, petition.server.as_str(), petition.tool.as_str()),
        (1, "one", "one.echo")
    );
    assert_eq!(
        (petition.arguments.as_str(), petition.rule.as_str()),
        (HI, "tools.rules[0]")
    );
    assert_eq!((petition.reason, petition.previous), (AskReason::Rule, None));
    assert_eq!(road.book.kinds(), ["approval_asked"]);
    answer.send(ONCE).unwrap();
    assert_eq!(calling.await.unwrap().unwrap(), r#""hi""#);
    let again = spawn(&pass, 2, "echo", HI);
    let (second, answer) = inbox.next().await;
    assert_eq!(
        second.shown_digest, petition.shown_digest,
        "the same is shown for the same"
    );
    answer.send(ONCE).unwrap();
    again.await.unwrap().unwrap();
    let made = pass.close().await.unwrap().listed;
    assert_eq!(made[0].rule.as_deref(), Some("tools.rules[0]"));
    let expected = ["approval_asked", "server_used", "call_started", "call_ended"];
    assert_eq!(road.book.kinds()[..4], expected);
}

#[tokio::test]
async fn a_no_a_silence_and_a_withdrawal_each_say_so() {
    let bench = bench(&json!({"one": entry("echo")}));
    let road = Road::new(&bench, ASK);
    let (desk, mut inbox) = road.desk();
    let pass = road.pass(desk);
    let note = Some("not on Fridays".to_owned());
    let rulings = [
        (
            ApprovalOutcome::Denied { note },
            "approval.denied",
            "`one.echo` was refused by a person: not on Fridays",
        ),
        (
            ApprovalOutcome::Expired,
            "approval.timeout",
            "nobody answered in time whether `one.echo` may be called",
        ),
        (
            ApprovalOutcome::Withdrawn,
            "approval.withdrawn",
            "the question whether `one.echo` may be called was taken back",
        ),
    ];
    for (number, (ruling, code, message)) in (1..).zip(rulings) {
        let calling = spawn(&pass, number, "echo", HI);
        inbox.next().await.1.send(ruling).unwrap();
        let told = refused(calling.await.unwrap());
        let rule = Some("tools.rules[0]".to_owned());
        assert_eq!(told, (code.to_owned(), rule, message.to_owned()));
    }
    let made = pass.close().await.unwrap().listed;
    assert!(made.iter().all(|call| call.forbidden), "{made:?}");
    assert_eq!(
        (road.book.count("call_started"), road.book.count("call_refused")),
        (0, 3)
    );
}

#[tokio::test]
async fn parallel_questions_hold_up_nobody_else() {
    let bench = bench(&json!({"one": entry("echo")}));
    let road = Road::new(&bench, ASK);
    let (desk, mut inbox) = road.desk();
    let pass = road.pass(desk);
    let mut waiting = pass.watch_waiting();
    let calls = [1, 2, 3].map(|number| spawn(&pass, number, "echo", HI));
    let mut asked = Vec::new();
    for _ in 0..3 {
        asked.push(inbox.next().await);
    }
    let other = pass.call(4, "one", "structured", "{}", b"").await;
    assert_eq!(other.unwrap(), r#"{"given":{}}"#);
    let all = WaitingCalls {
        open: 3,
        awaiting_approval: 3,
    };
    assert_eq!(
        (*waiting.borrow_and_update(), all.all_awaiting_approval()),
        (all, Some(3))
    );
    asked.sort_by_key(|(petition, _)| petition.number);
    let rulings = [ONCE, ApprovalOutcome::Denied { note: None }, ApprovalOutcome::Expired];
    for ((_, answer), ruling) in asked.into_iter().zip(rulings) {
        answer.send(ruling).unwrap();
    }
    let [one, two, three] = calls;
    one.await.unwrap().unwrap();
    assert_eq!(refused(two.await.unwrap()).0, "approval.denied");
    assert_eq!(refused(three.await.unwrap()).0, "approval.timeout");
    assert_eq!(*waiting.borrow_and_update(), WaitingCalls::default());
}

#[tokio::test]
async fn a_yes_for_the_session_holds_for_that_tool() {
    let bench = bench(&json!({"one": entry("echo")}));
    let road = Road::new(&bench, "tools: { default: ask }");
    let (desk, mut inbox) = road.desk();
    let pass = road.pass(desk);
    let calling = spawn(&pass, 1, "echo", HI);
    let yes = ApprovalOutcome::Approved {
        scope: ApprovalScope::Session,
    };
    inbox.next().await.1.send(yes).unwrap();
    calling.await.unwrap().unwrap();
    pass.call(2, "one", "echo", r#"{"text":"other"}"#, b"").await.unwrap();
    assert!(inbox.is_empty());
    let other = spawn(&pass, 3, "structured", "{}");
    inbox
        .next()
        .await
        .1
        .send(ApprovalOutcome::Denied { note: None })
        .unwrap();
    assert_eq!(refused(other.await.unwrap()).0, "approval.denied");
    // A grant only replaces the approval.
    pass.set_policy(policy(
        "tools: { default: ask, rules: [{ deny: 'one.echo', where: { text: { equals: no } } }] }",
    ));
    let told = refused(pass.call(4, "one", "echo", r#"{"text":"no"}"#, b"").await);
    assert_eq!(told.0, "policy.denied");
}

#[tokio::test]
async fn a_yes_for_the_session_ends_with_the_policy_that_asked() {
    let bench = bench(&json!({"one": entry("echo")}));
    let road = Road::new(&bench, ASK);
    let (desk, mut inbox) = road.desk();
    let pass = road.pass(desk);
    let calling = spawn(&pass, 1, "echo", HI);
    let yes = ApprovalOutcome::Approved {
        scope: ApprovalScope::Session,
    };
    inbox.next().await.1.send(yes).unwrap();
    calling.await.unwrap().unwrap();
    // Another rule at the same position asks for itself.
    pass.set_policy(policy(
        "tools: { default: allow, rules: [{ ask: 'one.echo', where: { text: { equals: hi } } }] }",
    ));
    let calling = spawn(&pass, 2, "echo", HI);
    let (petition, answer) = inbox.next().await;
    assert_eq!(petition.rule, "tools.rules[0]");
    answer.send(ApprovalOutcome::Denied { note: None }).unwrap();
    assert_eq!(refused(calling.await.unwrap()).0, "approval.denied");
}

#[tokio::test]
async fn what_changes_while_a_person_thinks_is_looked_at_again() {
    let bench = bench(&json!({"one": entry("echo")}));
    let cases = [
        ("tools: { default: deny }", "tool.unknown"),
        (
            "tools: { default: allow, rules: [{ deny: 'one.echo', where: { text: { equals: hi } } }] }",
            "policy.denied",
        ),
        ("tools: { default: allow }", ""),
    ];
    for (rules, code) in cases {
        let road = Road::new(&bench, ASK);
        let (desk, mut inbox) = road.desk();
        let pass = road.pass(desk);
        let calling = spawn(&pass, 1, "echo", HI);
        let (_, answer) = inbox.next().await;
        pass.set_policy(policy(rules));
        answer.send(ONCE).unwrap();
        match calling.await.unwrap() {
            Ok(text) => assert_eq!((text.as_str(), code), (r#""hi""#, "")),
            Err(stopped) => assert_eq!(refused(Err(stopped)).0, code),
        }
    }
}

#[tokio::test]
async fn a_yes_to_what_is_no_longer_so_is_asked_anew() {
    let bench = bench(&json!({"one": entry("echo")}));
    let road = Road::new(&bench, ASK);
    let (desk, mut inbox) = road.desk();
    let pass = road.pass(desk);
    let calling = spawn(&pass, 1, "echo", HI);
    let (first, answer) = inbox.next().await;
    pass.set_policy(policy("tools: { default: allow, rules: [{ ask: 'one.*' }] }"));
    answer.send(ONCE).unwrap();
    let (second, answer) = inbox.next().await;
    assert_ne!((first.id, first.shown_digest), (second.id, second.shown_digest));
    assert_eq!(second.previous, None);
    answer.send(ONCE).unwrap();
    calling.await.unwrap().unwrap();
    assert_eq!(road.book.count("call_started"), 1);
}

#[tokio::test]
async fn a_call_at_the_desk_counts_only_when_it_goes() {
    let bench = bench(&json!({"one": entry("echo")}));
    let road = Road::new(
        &bench,
        "tools: { max_calls: 4, default: allow, rules: [{ ask: 'one.echo', rate: 1/h }] }",
    );
    let (desk, mut inbox) = road.desk();
    let pass = road.pass(desk);
    let (one, two, three) = (
        spawn(&pass, 1, "echo", HI),
        spawn(&pass, 2, "echo", HI),
        spawn(&pass, 3, "echo", HI),
    );
    let mut asked = [inbox.next().await, inbox.next().await, inbox.next().await];
    asked.sort_by_key(|(petition, _)| petition.number);
    let [(_, first), (_, second), (_, third)] = asked;
    first.send(ApprovalOutcome::Denied { note: None }).unwrap();
    assert_eq!(refused(one.await.unwrap()).0, "approval.denied");
    second.send(ONCE).unwrap();
    two.await.unwrap().unwrap();
    third.send(ONCE).unwrap();
    let Err(PassError::Refused(told)) = three.await.unwrap() else {
        panic!("the rate is used up")
    };
    assert_eq!(
        (told.code.as_str(), told.rule.as_deref()),
        ("limit.rate", Some("tools.rules[0]"))
    );
    let wait = told.retry_after_ms.unwrap();
    assert!((3_500_000..=3_600_001).contains(&wait), "{wait}");
    pass.call(4, "one", "structured", "{}", b"").await.unwrap();
    let told = refused(pass.call(5, "one", "structured", "{}", b"").await);
    assert_eq!(told.0, "limit.calls");
}

#[tokio::test]
async fn a_question_goes_with_its_program() {
    let bench = bench(&json!({"one": entry("echo")}));
    let road = Road::new(&bench, ASK);
    let (desk, mut inbox) = road.desk();
    let pass = road.pass(desk);
    let calling = spawn(&pass, 1, "echo", HI);
    let (_, answer) = inbox.next().await;
    pass.cancel();
    assert_eq!(refused(calling.await.unwrap()).0, "approval.withdrawn");
    assert!(answer.send(ONCE).is_err(), "nobody waits any more");
    assert_eq!(road.book.kinds(), ["approval_asked", "call_refused"]);
}

#[tokio::test]
async fn a_released_program_leaves_its_question_and_finds_it_again() {
    let bench = bench(&json!({"one": entry("echo")}));
    let road = Road::new(&bench, ASK);
    let (desk, mut inbox) = road.desk();
    let pass = road.pass(desk);
    let slow = spawn(&pass, 1, "slow", r#"{"ms":300}"#);
    while road.book.count("call_started") == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let calling = spawn(&pass, 2, "echo", HI);
    let (first, _answer) = inbox.next().await;
    pass.release();
    assert!(matches!(calling.await.unwrap(), Err(PassError::Released)));
    slow.await.unwrap().expect("what is under way is seen out");
    pass.close().await.unwrap();
    assert_eq!(road.book.count("call_refused"), 0);

    let road = road.again();
    let (desk, mut inbox) = road.desk();
    let pass = road.pass(desk);
    assert_eq!(
        pass.call(1, "one", "slow", r#"{"ms":300}"#, b"").await.unwrap(),
        r#""done""#
    );
    let calling = spawn(&pass, 2, "echo", HI);
    let (second, answer) = inbox.next().await;
    assert_eq!(
        (second.previous, second.shown_digest),
        (Some(first.id), first.shown_digest)
    );
    answer.send(ONCE).unwrap();
    assert_eq!(calling.await.unwrap().unwrap(), r#""hi""#);
    assert_eq!(
        (road.book.count("call_started"), road.book.count("approval_asked")),
        (2, 1)
    );
}

#[tokio::test]
async fn a_question_that_needs_no_answer_any_more_is_taken_back() {
    let bench = bench(&json!({"one": entry("echo")}));
    for (rules, code) in [
        ("tools: { default: allow }", None),
        ("tools: { default: deny }", Some("tool.unknown")),
    ] {
        let road = Road::new(&bench, ASK);
        let (desk, mut inbox) = road.desk();
        let pass = road.pass(desk);
        let calling = spawn(&pass, 1, "echo", HI);
        let (first, _answer) = inbox.next().await;
        pass.release();
        assert!(calling.await.unwrap().is_err());
        let mut road = road.again();
        road.policy = policy(rules);
        let (desk, inbox) = road.desk();
        let answer = road.pass(desk).call(1, "one", "echo", HI, b"").await;
        assert_eq!(*inbox.withdrawn.lock().unwrap(), [first.id]);
        match code {
            None => assert_eq!(answer.unwrap(), r#""hi""#),
            Some(code) => assert_eq!(refused(answer).0, code),
        }
    }
}

#[tokio::test]
async fn a_changed_tool_is_a_question_too() {
    let bench = bench(&json!({"one": entry("drift")}));
    let road = Road::new(&bench, "tools: { default: allow }");
    let (desk, mut inbox) = road.desk();
    let pass = road.pass(desk);
    pass.call(1, "one", "echo", HI, b"").await.unwrap();
    pass.call(2, "one", "change", "{}", b"").await.unwrap();
    // The server announces that its tools changed; until it is listed again, no call uses the old definition.
    let mut number = 3;
    let (petition, answer, calling) = loop {
        let calling = spawn(&pass, number, "echo", HI);
        number += 1;
        tokio::select! {
            (petition, answer) = inbox.next() => break (petition, answer, calling),
            () = tokio::time::sleep(Duration::from_millis(300)) => {}
        }
    };
    assert_eq!(
        (petition.reason, petition.rule.as_str()),
        (AskReason::Drift, "tools.drift")
    );
    answer.send(ApprovalOutcome::Denied { note: None }).unwrap();
    let told = refused(calling.await.unwrap());
    assert_eq!(
        (told.0.as_str(), told.1.as_deref()),
        ("approval.denied", Some("tools.drift"))
    );
    let calling = spawn(&pass, 90, "echo", HI);
    inbox.next().await.1.send(ONCE).unwrap();
    calling.await.unwrap().unwrap();
    pass.call(91, "one", "echo", HI, b"")
        .await
        .expect("the new definition is pinned");
    assert!(inbox.is_empty());
    assert_eq!(road.book.count("tool_drifted"), 2);
}

#[tokio::test]
async fn a_question_that_cannot_be_written_down_stops_everything() {
    let bench = bench(&json!({"one": entry("echo")}));
    let road = Road::new(&bench, ASK);
    let (desk, inbox) = road.desk();
    let pass = road.pass(desk);
    road.book.full.store(true, std::sync::atomic::Ordering::SeqCst);
    let stopped = pass.call(1, "one", "echo", HI, b"").await;
    assert!(matches!(stopped, Err(PassError::Unrecorded(_))), "{stopped:?}");
    assert!(inbox.is_empty());
}

#[tokio::test]
async fn nobody_at_the_desk_means_no() {
    let bench = bench(&json!({"one": entry("echo")}));
    let road = Road::new(&bench, ASK);
    let pass = road.pass(ringfence_gateway::ApprovalPort::closed());
    let told = refused(pass.call(1, "one", "echo", HI, b"").await);
    assert_eq!(
        (told.0.as_str(), told.1.as_deref()),
        ("approval.needed", Some("tools.rules[0]"))
    );
    let events = Arc::clone(&road.book);
    let events = events.events.lock().unwrap();
    assert!(matches!(events[0].kind, EventKind::CallRefused { .. }));
}

#[tokio::test]
async fn an_answer_given_for_good_holds_until_it_is_taken_back() {
    let bench = bench(&json!({"one": entry("echo")}));
    let road = Road::new(&bench, ASK);
    let (desk, mut inbox) = road.desk();
    let rules = Arc::new(Mutex::new(StandingRules::default()));
    let file = Arc::clone(&rules);
    let pass = road.pass(desk.with_standing_rules(move || file.lock().unwrap().clone()));
    let given = StandingRules::parse("version: 1\nrules: [{ allow: one.echo }]").unwrap();
    for number in [1, 3] {
        *rules.lock().unwrap() = given.clone();
        pass.call(number, "one", "echo", HI, b"").await.unwrap();
        assert!(inbox.is_empty());
        // The rule is gone from the file: a person is asked again, in the same execution.
        *rules.lock().unwrap() = StandingRules::default();
        let calling = spawn(&pass, number + 1, "echo", HI);
        inbox
            .next()
            .await
            .1
            .send(ApprovalOutcome::Denied { note: None })
            .unwrap();
        assert_eq!(refused(calling.await.unwrap()).0, "approval.denied");
    }
}

#[tokio::test]
async fn a_person_has_as_long_as_the_rules_in_force_say() {
    let bench = bench(&json!({"one": entry("echo")}));
    let road = Road::new(&bench, ASK);
    let (desk, mut inbox) = road.desk();
    let pass = road.pass(desk);
    for (number, minutes) in (1..).zip([5, 7]) {
        pass.set_policy(policy(&format!("{ASK}\napprovals: {{ timeout: {minutes}m }}")));
        let calling = spawn(&pass, number, "echo", HI);
        let (petition, answer) = inbox.next().await;
        assert_eq!(petition.timeout, Some(Duration::from_mins(minutes)));
        answer.send(ONCE).unwrap();
        calling.await.unwrap().unwrap();
    }
}
