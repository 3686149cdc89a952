//! Answers at an inconvenient time: two at once, after a change of rules, too late, for an execution that is over.

use std::thread;

use ringfence_engine::approvals::{AnswerError, ApprovalState};
use ringfence_journal::ApprovalScope;
use serde_json::json;

use super::world::{Begun, RULES, Server, World, say};
use crate::setting::eventually;

const ONE: &str = r#"
const sent = await tools.log.send.try({ text: "it" });
sent.ok ? sent.data : [sent.error.code, sent.error.rule]
"#;

#[test]
fn of_two_people_who_answer_at_once_one_is_heard() {
    for _ in 0..4 {
        let world = World::new();
        let server = world.serve();
        let run = server.begin("typescript", ONE);
        let id = world.pending(1)[0].id;
        let world = &world;
        let (yes, no) = thread::scope(|scope| {
            let yes = scope.spawn(move || world.answer(id, true));
            let no = scope.spawn(move || world.answer(id, false));
            (yes.join().unwrap(), no.join().unwrap())
        });
        let approved = match (&yes, &no) {
            (Ok(_), Err(AnswerError::Conflict(_))) => true,
            (Err(AnswerError::Conflict(_)), Ok(_)) => false,
            both => panic!("{both:?}"),
        };
        let value = server.ended(&run)["value"].clone();
        assert_eq!(value == json!("it"), approved, "{value}");
        assert_eq!(world.calls_of("send"), usize::from(approved));
        // A repeated answer succeeds; a different one is refused, also when the execution is over.
        assert!(world.answer(id, approved).unwrap().already_answered);
        assert!(matches!(world.answer(id, !approved), Err(AnswerError::Conflict(_))));
    }
}

/// Changes the rules while a call waits, then approves the request that was made under the old ones.
fn change(rules: &serde_json::Value) -> (World, super::world::Server, super::world::Begun) {
    let world = World::new();
    let server = world.serve();
    let run = server.begin_with(&json!({ "language": "typescript", "code": ONE, "session_id": "work" }));
    let before = world.pending(1).remove(0);
    let path = format!("/api/v1/sessions/{}/policy", run.session);
    let (status, changed) = server.ask_operator("PUT", &path, Some(&json!({ "tools": { "rules": rules } })));
    assert_eq!(status, 200, "{changed}");
    world.answer(before.id, true).unwrap();
    (world, server, run)
}

#[test]
fn a_yes_to_what_has_changed_meanwhile_is_not_taken_for_what_is_asked_now() {
    let (world, server, run) = change(&json!([{ "allow": "log.note" }, { "ask": "log.send", "rate": "100/min" }]));
    let again = world.pending(1).remove(0);
    assert_eq!(world.calls_of("send"), 0);
    let old = world.questions(Some(ApprovalState::Approved)).remove(0);
    assert_ne!(old.shown, again.shown);
    let mut stale = say(true);
    stale.shown = Some(old.shown.parse().unwrap());
    assert!(matches!(world.say(again.id, stale), Err(AnswerError::Changed(_))));
    world.answer(again.id, true).unwrap();
    assert_eq!(server.ended(&run)["value"], "it");
    assert_eq!(world.calls_of("send"), 1);
}

#[test]
fn a_yes_to_what_is_forbidden_meanwhile_permits_nothing() {
    let (world, server, run) = change(&json!([{ "allow": "log.note" }, { "deny": "log.send" }]));
    let ended = server.ended(&run);
    // A tool that the rules hide is unknown.
    assert_eq!(ended["value"][0], "tool.unknown", "{ended}");
    assert_eq!(world.calls_of("send"), 0);
}

#[test]
fn rules_that_were_changed_while_it_waited_hold_after_a_restart() {
    let world = World::new();
    let server = world.serve();
    // The second call needs no approval under the original rules.
    let code = "const a = await tools.log.send.try({ text: 'a' }); const b = await tools.log.note.try({ text: 'b' }); [a.error?.code, b.error?.code]";
    let run = server.begin("typescript", code);
    let id = world.pending(1)[0].id;
    world.suspended(&run);
    let rules = json!({ "tools": { "default": "deny", "rules": [{ "ask": "log.send" }] } });
    let path = format!("/api/v1/sessions/{}/policy", run.session);
    let (status, changed) = server.ask_operator("PUT", &path, Some(&rules));
    assert_eq!(status, 200, "{changed}");
    server.kill();
    let server = world.serve();
    world.answer(id, true).unwrap();
    // The request was made under other rules: a new one is made, and its approval releases only that call.
    let again = eventually("it is asked anew", || {
        let pending = world.questions(Some(ApprovalState::Pending));
        pending.into_iter().find(|question| question.id != id)
    });
    world.answer(again.id, true).unwrap();
    let ended = server.ended(&run);
    assert_eq!(ended["value"], json!([null, "tool.unknown"]), "{ended}");
    assert_eq!(world.calls_of("note"), 0);
    world.nothing_twice();
}

/// Reads are allowed, sends need an approval, and the workspace outlives the server.
const KEPT: &str = "
version: 1
fs: { mounts: [{ path: /workspace, access: rw, quota: 1MiB, keep: true }, { path: /tmp, access: rw, quota: 1MiB }] }
tools: { rules: [{ allow: 'log.*' }, { ask: log.send }] }
approvals: { timeout: 10m, by: [inbox] }
";

/// A session in which sending was approved once for the whole session.
fn granted(rules: &str) -> (World, Server, String) {
    let world = World::under(rules);
    let server = world.serve();
    let run = send(&server, "one");
    let mut yes = say(true);
    yes.scope = ApprovalScope::Session;
    world.say(world.pending_of("one").id, yes).unwrap();
    assert_eq!(server.ended(&run)["value"], "one");
    let again = send(&server, "two");
    assert_eq!(server.ended(&again)["value"], "two");
    assert_eq!(run.session, again.session);
    (world, server, run.session)
}

fn send(server: &Server, text: &str) -> Begun {
    let code = ONE.replace("\"it\"", &json!(text).to_string());
    server.begin_with(&json!({ "language": "typescript", "code": code, "session_id": "work" }))
}

fn rule(server: &Server, session: &str, rules: &serde_json::Value) {
    let path = format!("/api/v1/sessions/{session}/policy");
    let (status, changed) = server.ask_operator("PUT", &path, Some(&json!({ "tools": { "rules": rules } })));
    assert_eq!(status, 200, "{changed}");
}

/// Other rules, in which the asking rule has the same position.
fn other_rules() -> serde_json::Value {
    json!([{ "allow": "log.note" }, { "ask": "log.send", "rate": "100/min" }])
}

fn first_rules() -> serde_json::Value {
    json!([{ "allow": "log.*" }, { "ask": "log.send" }])
}

#[track_caller]
fn is_asked_again(world: &World, server: &Server, text: &str) {
    let run = send(server, text);
    world.answer(world.pending_of(text).id, false).unwrap();
    assert_eq!(server.ended(&run)["value"][0], "approval.denied");
}

#[test]
fn what_was_granted_for_a_session_ends_with_its_rules_while_nothing_runs() {
    let (world, server, session) = granted(RULES);
    rule(&server, &session, &other_rules());
    is_asked_again(&world, &server, "three");
    // The original rules again differ from those of the approval.
    rule(&server, &session, &first_rules());
    is_asked_again(&world, &server, "four");
    assert_eq!(world.calls_of("send"), 2);
}

#[test]
fn what_was_granted_for_a_session_outlives_its_server_but_not_its_rules() {
    let (world, server, session) = granted(KEPT);
    server.kill();
    let server = world.serve();
    assert_eq!(server.ended(&send(&server, "three"))["value"], "three");
    rule(&server, &session, &other_rules());
    server.kill();
    let server = world.serve();
    is_asked_again(&world, &server, "four");
    rule(&server, &session, &first_rules());
    server.kill();
    let server = world.serve();
    is_asked_again(&world, &server, "five");
    assert_eq!(world.calls_of("send"), 3);
    world.verified();
}

#[test]
fn an_answer_after_the_timeout_is_told_so() {
    let world = World::under(&RULES.replace("10m", "8s"));
    let server = world.serve();
    let run = server.begin("typescript", ONE);
    let id = world.pending(1)[0].id;
    let ended = server.ended(&run);
    assert_eq!(ended["value"][0], "approval.timeout", "{ended}");
    assert!(matches!(world.answer(id, true), Err(AnswerError::Expired(_))));
    assert_eq!(world.calls_of("send"), 0);
}

#[test]
fn the_timeout_runs_on_while_no_server_does() {
    let world = World::under(&RULES.replace("10m", "12s"));
    let server = world.serve();
    let run = server.begin("typescript", ONE);
    let question = world.pending(1).remove(0);
    world.suspended(&run);
    server.kill();
    let is_late = || jiff::Timestamp::now() > question.expires;
    assert!(!is_late(), "its server was there all the time");
    eventually("it is too late", || is_late().then_some(()));
    assert!(matches!(world.answer(question.id, true), Err(AnswerError::Expired(_))));
    let server = world.serve();
    assert_eq!(server.ended(&run)["value"][0], "approval.timeout");
}

#[test]
fn an_answer_for_a_session_that_was_stopped_is_told_so() {
    for suspended in [false, true] {
        let world = World::new();
        let server = world.serve();
        let run = server.begin("typescript", ONE);
        let id = world.pending(1)[0].id;
        if suspended {
            world.suspended(&run);
        }
        let stopped = world.setting.run(&["session", "stop", &run.session]);
        assert_eq!(stopped.code, Some(0), "{stopped:?}");
        assert_eq!(server.ended(&run)["status"], "cancelled");
        assert!(matches!(
            world.answer(id, true),
            Err(AnswerError::Ended(_) | AnswerError::Withdrawn(_))
        ));
        assert!(world.questions(Some(ApprovalState::Pending)).is_empty());
        assert_eq!(world.calls_of("send"), 0);
        assert_eq!(server.end(), Some(0));
        world.verified();
    }
}
