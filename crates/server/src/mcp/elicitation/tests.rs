use serde_json::json;

use super::*;

#[test]
fn only_a_clear_word_is_an_answer() {
    let once = Some(PersonDecision::Approve(ApprovalScope::Once));
    let session = Some(PersonDecision::Approve(ApprovalScope::Session));
    let cases = [
        (
            json!({ "action": "accept", "content": { "decision": "approve_once" } }),
            once,
        ),
        (
            json!({ "action": "accept", "content": { "decision": "approve_for_session" } }),
            session,
        ),
        (
            json!({ "action": "accept", "content": { "decision": "deny" } }),
            Some(PersonDecision::Deny),
        ),
        (json!({ "action": "decline" }), Some(PersonDecision::Deny)),
        (
            json!({ "action": "decline", "content": { "decision": "approve_once" } }),
            Some(PersonDecision::Deny),
        ),
        (json!({ "action": "cancel" }), None),
        (
            json!({ "action": "cancel", "content": { "decision": "approve_once" } }),
            None,
        ),
        (json!({ "action": "accept" }), None),
        (json!({ "action": "accept", "content": {} }), None),
        (
            json!({ "action": "accept", "content": { "decision": "approve" } }),
            None,
        ),
        (json!({ "action": "accept", "content": { "decision": true } }), None),
        (json!({ "action": "accept", "content": "approve_once" }), None),
        (
            json!({ "action": "yes", "content": { "decision": "approve_once" } }),
            None,
        ),
        (json!({ "content": { "decision": "approve_once" } }), None),
        (json!("accept"), None),
        (json!(null), None),
    ];
    for (answer, decision) in cases {
        assert_eq!(PersonDecision::from_answer(&answer), decision, "{answer}");
    }
}

#[test]
fn what_a_client_kept_is_read_or_refused() {
    assert!(parse_repeated_call(None).unwrap().is_none());
    let state = RepeatState {
        execution_id: "x_00000000000000000000000000".parse().unwrap(),
        asked: vec!["a_00000000000000000000000000".parse().unwrap()],
    };
    let read = parse_repeated_call(Some(&serde_json::to_string(&state).unwrap()))
        .unwrap()
        .unwrap();
    assert_eq!(read.execution, state.execution_id);
    assert_eq!(read.asked, state.asked.into_iter().collect());
    for wrong in [
        "",
        "{}",
        "x_00000000000000000000000000",
        r#"{"execution_id":"x","asked":[]}"#,
    ] {
        assert_eq!(
            parse_repeated_call(Some(wrong)).unwrap_err().code,
            "arguments.invalid",
            "{wrong}"
        );
    }
}

#[test]
fn nobody_is_asked_the_same_twice_at_once() {
    let opened = OpenForms::default();
    let id = "a_00000000000000000000000000".parse().unwrap();
    assert!(opened.add(id));
    assert!(!opened.clone().add(id));
    opened.remove(id);
    assert!(opened.add(id));
}
