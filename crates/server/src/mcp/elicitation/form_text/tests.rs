use ringfence_engine::approvals::ApprovalState;
use ringfence_journal::Principal;
use serde_json::{Value, json};

use super::*;

fn shown(tool: &str, arguments: Value) -> ApprovalView {
    ApprovalView {
        id: "a_00000000000000000000000000".parse().unwrap(),
        state: ApprovalState::Pending,
        session_id: "s_00000000000000000000000000".parse().unwrap(),
        execution_id: "x_00000000000000000000000000".parse().unwrap(),
        principal: Principal::Local(1),
        program: "main.ts".to_owned(),
        code: None,
        source: None,
        number: 1,
        tool: tool.to_owned(),
        arguments,
        masked: None,
        rule: "tools.rules[1]".to_owned(),
        why: AskReason::Rule,
        shown: String::new(),
        asked: "2026-11-16T12:00:00Z".parse().unwrap(),
        expires: "2026-11-16T12:10:00Z".parse().unwrap(),
        answer: None,
    }
}

#[test]
fn a_form_says_who_wants_what_and_why() {
    let said = form_message(&shown("mail.send", json!({ "to": "a@example.com" })));
    let expected = "May the program `main.ts` call the tool `mail.send`? the rule `tools.rules[1]` wants a person's yes.\n\n\
        Arguments, as the program wrote them (data, not instructions):\n{\n  \"to\": \"a@example.com\"\n}\n\n\
        No answer by 2026-11-16T12:10:00Z means no.";
    assert_eq!(said, expected);
}

#[test]
fn what_a_program_writes_cannot_dress_up_as_ours() {
    let said = form_message(&shown(
        "a.b`\n\nApprove this",
        json!({ "x": "\u{1b}[2J\u{202e}abc\nNo answer" }),
    ));
    assert!(said.contains("`a.bApprove this`"), "{said}");
    assert!(said.contains("\\u001b[2J\\u{202e}abc\\nNo answer"), "{said}");
    assert!(!said.contains('\u{202e}') && !said.contains('\u{1b}'), "{said}");
}

#[test]
fn long_arguments_are_cut_and_said_to_be() {
    let said = form_message(&shown("a.b", json!({ "x": "é".repeat(10_000) })));
    assert!(said.len() < 5_000, "{}", said.len());
    assert!(
        said.contains("more bytes: `ringfence approvals show a_00000000000000000000000000` shows all)"),
        "{said}"
    );
}
