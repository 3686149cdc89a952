//! Tests of personal data in calls: aliases in the sandbox, values where the policy allows them, and never a value in
//! the journal.

use std::path::Path;
use std::sync::atomic::Ordering;

use ringfence_gateway::{ApprovalPort, PassError, Redactor};
use ringfence_journal::{EventKind, SessionId};
use serde_json::{Value, json};

use crate::book::{Book, Road};
use crate::harness::{Bench, bench, program};

const MAIL: &str = "ann.lee@example.com";
const KEY: &str = "ghp_0123456789abcdefABCDEF0123456789abcd";

fn servers(ledger: &Path) -> Bench {
    bench(&json!({ "one": {
        "command": program(), "args": ["ledger"], "env": { "LEDGER": ledger.to_str().unwrap() },
    } }))
}

/// Returns the requests that the server got, line by line.
fn asked(ledger: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(ledger).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn events(book: &Book) -> String {
    let events = book.events.lock().unwrap();
    events.iter().map(|event| event.canonical().unwrap()).collect()
}

fn body(text: &str) -> String {
    json!({ "text": text }).to_string()
}

#[tokio::test]
async fn the_program_has_an_alias_and_the_named_tool_the_value() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger");
    let bench = servers(&ledger);
    let road = Road::new(
        &bench,
        "tools: { rules: [ { allow: one.note }, { allow: one.send, where: { text: { matches: '^to ann.lee@example[.]com$' } } } ] }\n\
         data: { pii: { mode: alias, reveal_to: [one.send] } }",
    );
    let pass = road.pass(ApprovalPort::closed());
    let answer = pass.call(1, "one", "note", &body(MAIL), b"").await.unwrap();
    let alias: String = serde_json::from_str(&answer).unwrap();
    assert!(alias.starts_with("‹email:") && alias.ends_with('›'), "{alias}");

    // The checked arguments are the sent ones: the rule above knows the value only.
    pass.call(2, "one", "send", &body(&format!("to {alias}")), b"")
        .await
        .unwrap();
    let changed = alias.to_uppercase().replace(':', " : ");
    pass.call(3, "one", "send", &body(&format!("to {changed}")), b"")
        .await
        .unwrap();
    // Another tool gets the alias, and repeats it.
    let again = pass.call(4, "one", "note", &body(&alias), b"").await.unwrap();
    assert_eq!(again, answer);
    pass.close().await.unwrap();

    let texts: Vec<String> = asked(&ledger)
        .iter()
        .map(|one| one["arguments"]["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(texts, [MAIL, &format!("to {MAIL}"), &format!("to {MAIL}"), &alias]);
    let events = events(&road.book);
    assert!(!events.contains("ann.lee"), "{events}");
    assert!(events.contains(r#""found":[{"count":1,"what":"email"}]"#), "{events}");
    assert_eq!(road.book.count("data_revealed"), 2);
    assert!(
        !road
            .book
            .entries()
            .iter()
            .any(|entry| contains(&entry.bytes, b"send") && contains(&entry.bytes, b"ann.lee"))
    );
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[tokio::test]
async fn an_alias_that_was_never_given_is_refused_and_nothing_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger");
    let bench = servers(&ledger);
    let road = Road::new(
        &bench,
        "tools: { default: allow }\ndata: { pii: { reveal_to: [one.send] } }",
    );
    let pass = road.pass(ApprovalPort::closed());
    for (number, tool) in [(1, "send"), (2, "note")] {
        match pass.call(number, "one", tool, &body("‹email:zzzzzz›"), b"").await {
            Err(PassError::Refused(told)) => {
                assert_eq!(
                    (told.code.as_str(), told.rule.as_deref()),
                    ("data.alias", Some("data.pii.mode"))
                );
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(!ledger.exists());
}

#[tokio::test]
async fn inside_may_be_real_and_secrets_go_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let bench = servers(&folder.path().join("ledger"));
    let road = Road::new(&bench, "tools: { default: allow }\ndata: { pii: { inside: real } }");
    let pass = road.pass(ApprovalPort::closed());
    let answer = pass
        .call(1, "one", "note", &body(&format!("{MAIL} {KEY}")), b"")
        .await
        .unwrap();
    assert_eq!(answer, format!("\"{MAIL} ⟦secret removed⟧\""));
}

#[tokio::test]
async fn nothing_is_hidden_where_the_policy_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let bench = servers(&folder.path().join("ledger"));
    let road = Road::new(
        &bench,
        "tools: { default: allow }\ndata: { pii: { mode: 'off' }, secrets: 'off' }",
    );
    let pass = road.pass(ApprovalPort::closed());
    let text = format!("{MAIL} {KEY} ‹email:zzzzzz›");
    let answer = pass.call(1, "one", "note", &body(&text), b"").await.unwrap();
    assert_eq!(answer, Value::String(text).to_string());
}

#[tokio::test]
async fn block_holds_an_answer_back_and_says_for_what() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger");
    let bench = servers(&ledger);
    let road = Road::new(&bench, "tools: { default: allow }\ndata: { pii: { mode: block } }");
    let pass = road.pass(ApprovalPort::closed());
    match pass.call(1, "one", "note", &body(MAIL), b"").await {
        Err(PassError::Refused(told)) => {
            assert_eq!(
                (told.code.as_str(), told.rule.as_deref()),
                ("data.blocked", Some("data.pii.mode"))
            );
            assert!(
                told.message.contains("1 email") && !told.message.contains("ann"),
                "{}",
                told.message
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        pass.call(2, "one", "note", &body("harmless"), b"").await.unwrap(),
        r#""harmless""#
    );
    pass.close().await.unwrap();
    assert_eq!(asked(&ledger).len(), 2);
    let blocked = |kind: &EventKind| {
        matches!(
            kind,
            EventKind::DataHidden {
                blocked: true,
                number: Some(1),
                ..
            }
        )
    };
    assert!(
        road.book
            .events
            .lock()
            .unwrap()
            .iter()
            .any(|event| blocked(&event.kind))
    );
}

#[tokio::test]
async fn an_alias_is_kept_before_it_is_seen_and_means_the_same_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger");
    let bench = servers(&ledger);
    let mut road = Road::new(
        &bench,
        "tools: { default: allow }\ndata: { pii: { reveal_to: [one.send] } }",
    );
    let pass = road.pass(ApprovalPort::closed());
    let answer = pass.call(1, "one", "note", &body(MAIL), b"").await.unwrap();
    let alias: String = serde_json::from_str(&answer).unwrap();
    let parts: Vec<Vec<u8>> = road
        .book
        .aliases
        .lock()
        .unwrap()
        .iter()
        .map(|part| part.to_vec())
        .collect();
    assert_eq!(parts.len(), 1);

    road.screen = Redactor::restore(parts.iter().map(Vec::as_slice)).unwrap().into();
    let pass = road.pass(ApprovalPort::closed());
    pass.call(2, "one", "send", &body(&alias), b"").await.unwrap();
    assert_eq!(asked(&ledger)[1]["arguments"]["text"], MAIL);

    // With a journal that is full, nobody sees the next alias.
    let waits = body("bob@example.com");
    let call = pass.call(3, "one", "note", &waits, b"");
    road.book.full.store(true, Ordering::SeqCst);
    assert!(matches!(call.await, Err(PassError::Unrecorded(_))));
}

#[tokio::test]
async fn what_a_tool_was_given_it_cannot_say_again_to_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger");
    let bench = servers(&ledger);
    let road = Road::new(
        &bench,
        "tools: { default: allow }\ndata: { pii: { reveal_to: [one.send] } }",
    );
    let pass = road.pass(ApprovalPort::closed());
    let known = r#"{"customer":{"name":"Ann Lee","born":"1980-02-03"}}"#;
    let answer = pass.call(1, "one", "note", &body(known), b"").await.unwrap();
    let customer: Value = serde_json::from_str(&answer).unwrap();
    let name = customer["customer"]["name"].as_str().unwrap();
    assert!(name.starts_with("‹name:"), "{answer}");
    // In running text nothing shows that it is a name.
    let said = pass
        .call(2, "one", "send", &body(&format!("queued for {name}")), b"")
        .await
        .unwrap();
    assert_eq!(asked(&ledger)[1]["arguments"]["text"], "queued for Ann Lee");
    assert_eq!(said, Value::String(format!("queued for {name}")).to_string());
}

#[tokio::test]
async fn what_a_program_prints_never_has_the_alias_of_an_answer() {
    for (inside, is_linked) in [("alias", false), ("real", true)] {
        let folder = tempfile::tempdir().unwrap();
        let bench = servers(&folder.path().join("ledger"));
        let rules = format!("tools: {{ default: allow }}\ndata: {{ pii: {{ inside: {inside} }} }}");
        let road = Road::new(&bench, &rules);
        let pass = road.pass(ApprovalPort::closed());
        let answer = pass.call(1, "one", "note", &body(MAIL), b"").await.unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let sight = road.screen.rules_for(&road.policy).await.unwrap();
        let keep = (&road.book, SessionId::generate().unwrap());
        let returned = road
            .screen
            .redact_value(keep, &sight, json!([answer.clone(), MAIL]))
            .await;
        let returned = returned.unwrap().shown.unwrap();
        assert_eq!(returned[0] == returned[1], is_linked, "{returned}");
        let printed = road
            .screen
            .redact_text(keep, &sight, MAIL, 0)
            .await
            .unwrap()
            .shown
            .unwrap();
        assert_eq!(returned[1], printed);
        let wrong = road
            .screen
            .redact_text(keep, &sight, "bob@example.com", 0)
            .await
            .unwrap();
        let wrong = wrong.shown.unwrap();
        assert!(
            wrong.starts_with("‹email:") && wrong.len() == printed.len(),
            "{wrong} {printed}"
        );
        for alias in [returned[0].as_str().unwrap(), &printed] {
            assert_eq!(road.screen.reveal(alias).await, MAIL);
        }
    }
}

#[tokio::test]
async fn what_does_not_fit_is_not_told_by_its_value() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger");
    let bench = servers(&ledger);
    let road = Road::new(
        &bench,
        "tools: { default: allow }\ndata: { pii: { reveal_to: ['one.*'] } }",
    );
    let pass = road.pass(ApprovalPort::closed());
    let answer = pass.call(1, "one", "note", &body(MAIL), b"").await.unwrap();
    let alias: String = serde_json::from_str(&answer).unwrap();
    let wrong = json!({ "text": { alias: 1 } }).to_string();
    match pass.call(2, "one", "note", &wrong, b"").await {
        Err(PassError::Refused(told)) => {
            assert_eq!(told.code, "tool.arguments");
            assert!(!format!("{told:?}").contains("ann.lee"), "{told:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_form_shows_stand_ins_whatever_the_program_works_on() {
    for (inside, mode) in [("alias", "alias"), ("real", "alias"), ("real", "block")] {
        let folder = tempfile::tempdir().unwrap();
        let bench = servers(&folder.path().join("ledger"));
        let rules = format!(
            "tools: {{ default: allow, rules: [{{ ask: one.send }}] }}\n\
             data: {{ pii: {{ mode: {mode}, inside: {inside}, reveal_to: [one.send] }} }}"
        );
        let road = Road::new(&bench, &rules);
        let (desk, mut inbox) = road.desk();
        let pass = road.pass(desk);
        let mut name = "Ann Lee".to_owned();
        let mut alias = None;
        if mode == "alias" {
            let customer = r#"{"customer":{"name":"Ann Lee"}}"#;
            let answer = pass.call(1, "one", "note", &body(customer), b"").await.unwrap();
            let answer: Value = serde_json::from_str(&answer).unwrap();
            answer["customer"]["name"].as_str().unwrap().clone_into(&mut name);
            let sight = road.screen.rules_for(&road.policy).await.unwrap();
            let keep = (&road.book, SessionId::generate().unwrap());
            let shown = road.screen.redact_value(keep, &sight, json!("Ann Lee"));
            alias = shown.await.unwrap().shown;
            if inside == "alias" {
                // What a program says has another alias than what the tool said.
                assert_ne!(alias, Some(Value::from(name.clone())));
                alias = Some(name.clone().into());
            }
        }
        let kept = road.book.aliases.lock().unwrap().len();
        let said = body(&format!("for {name}, from {MAIL} with {KEY}"));
        let calling = crate::book::spawn(&pass, 2, "send", said.leak());
        let (petition, ruling) = inbox.next().await;
        assert!(petition.arguments.contains("for Ann Lee"), "{petition:?}");
        assert!(petition.arguments.contains(MAIL), "{petition:?}");
        let masked = petition.masked.unwrap();
        assert!(!masked.contains(MAIL) && !masked.contains(KEY), "{masked}");
        if let Some(Value::String(alias)) = alias {
            assert!(masked.contains(&format!("for {alias}, from ‹email:")), "{masked}");
        }
        // A value that the program wrote itself is not learnt from an approval request.
        assert_eq!(road.book.aliases.lock().unwrap().len(), kept);
        ruling.send(ringfence_gateway::ApprovalOutcome::Withdrawn).unwrap();
        assert!(calling.await.unwrap().is_err());
    }
}

#[tokio::test]
async fn a_form_that_has_nothing_to_hide_shows_what_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let bench = servers(&folder.path().join("ledger"));
    let road = Road::new(&bench, "tools: { rules: [{ ask: one.send }] }");
    let (desk, mut inbox) = road.desk();
    let pass = road.pass(desk);
    let calling = crate::book::spawn(&pass, 1, "send", body("the monthly report").leak());
    let (petition, ruling) = inbox.next().await;
    assert_eq!(
        (petition.masked, petition.arguments),
        (None, body("the monthly report"))
    );
    ruling.send(ringfence_gateway::ApprovalOutcome::Withdrawn).unwrap();
    assert!(calling.await.unwrap().is_err());
}

#[tokio::test]
async fn keys_that_are_somebodys_names_are_not_learnt() {
    for (inside, answer) in [
        ("alias", r#"{"total":12,"balances":{"Ann Lee":12}}"#),
        (
            "real",
            r#"{"total":12,"customer":{"name":"ann"},"balances":{"ann":12}}"#,
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let bench = servers(&folder.path().join("ledger"));
        let rules = format!("tools: {{ default: allow }}\ndata: {{ pii: {{ inside: {inside} }} }}");
        let road = Road::new(&bench, &rules);
        let pass = road.pass(ApprovalPort::closed());
        pass.call(1, "one", "note", &body(r#"{"total":12}"#), b"")
            .await
            .unwrap();
        pass.call(2, "one", "note", &body(answer), b"").await.unwrap();
        let known = road
            .gateway
            .observed_types()
            .schemas_for(&road.gateway.catalog_snapshot().await.catalog);
        let known = known["one.note"].to_string();
        assert!(known.contains("total"), "{known}");
        assert!(!known.to_lowercase().contains("ann"), "{known}");
    }
}

/// A server whose schema marks one field as personal data, and denies it for another.
const HOTEL: &str = r#"
import json, sys
GUEST = {"who": "ann", "customer": "Bo Ek", "room": "ann"}
SCHEMA = {"type": "object", "properties": {
    "who": {"type": "string", "description": "Full name of the guest"}, "customer": {"type": "string", "x-pii": False}}}
TOOL = {"name": "guest", "inputSchema": {"type": "object"}, "outputSchema": SCHEMA}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked: continue
    results = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "hotel", "version": "1"}},
        "tools/list": {"tools": [TOOL]},
        "tools/call": {"content": [{"type": "text", "text": json.dumps(GUEST)}], "structuredContent": GUEST},
    }
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    result = results.get(asked["method"])
    answer.update({"result": result} if result else {"error": {"code": -32601, "message": "no such method"}})
    print(json.dumps(answer), flush=True)
"#;

#[tokio::test]
async fn a_servers_own_schema_adds_to_what_is_found_and_takes_nothing_back() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("hotel.py");
    std::fs::write(&script, HOTEL).unwrap();
    let bench = bench(&json!({ "one": { "command": "/usr/bin/python3", "args": [script] } }));
    let road = Road::new(&bench, "tools: { default: allow }");
    let pass = road.pass(ApprovalPort::closed());
    for number in [1, 2] {
        let answer = pass.call(number, "one", "guest", "{}", b"").await.unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        for key in ["who", "customer"] {
            assert!(answer[key].as_str().unwrap().starts_with("‹name:"), "{answer}");
        }
        // Neither key nor schema marks this one.
        assert_eq!(answer["room"], "ann");
    }
}
