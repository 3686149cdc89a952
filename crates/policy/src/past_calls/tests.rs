use serde_json::json;

use super::{PastCallDecision, RedactedCall};
use crate::ceiling::Ceiling;
use crate::decide::{Decision, RuleEffect, RuleRef};
use crate::draft::Draft;
use crate::policy::Policy;
use crate::standing_rules::StandingRules;
use crate::tools::{CallHistory, ToolHints};

fn policy(text: &str, ceiling: &Ceiling) -> Policy {
    Draft::parse(text, "x").unwrap().under(ceiling).unwrap()
}

/// A letter to a hidden recipient about a visible subject.
fn letter() -> RedactedCall {
    RedactedCall {
        name: "mail.send".to_owned(),
        hints: ToolHints::none(),
        args: json!({ "to": "<email:1>", "about": "lunch" }),
        hidden: ["to".to_owned()].into(),
        made: true,
    }
}

fn decided(verdict: RuleEffect, rule: &str) -> PastCallDecision {
    PastCallDecision::Decided(Decision::new(verdict, rule))
}

fn depends(rule: &str) -> PastCallDecision {
    PastCallDecision::Depends {
        argument: "to".to_owned(),
        rule: RuleRef::new(rule),
    }
}

#[track_caller]
fn check(rules: &str, expected: &PastCallDecision) {
    let policy = policy(&format!("tools: {{ {rules} }}"), &Ceiling::unlimited());
    assert_eq!(
        policy.decide_past_call(&letter(), &CallHistory::new()),
        *expected,
        "{rules}"
    );
}

const ANN: &str = "where: { to: { equals: ann@example.com } }";

#[test]
fn what_depends_on_a_hidden_value_is_said_to() {
    check(
        &format!("rules: [{{ allow: mail.send, {ANN} }}]"),
        &depends("tools.rules[0]"),
    );
    check(
        &format!("default: allow, rules: [{{ allow: '**' }}, {{ deny: mail.send, {ANN} }}]"),
        &depends("tools.rules[1]"),
    );
    check(
        &format!("rules: [{{ ask: mail.send }}, {{ allow: mail.send, {ANN} }}]"),
        &decided(RuleEffect::Ask, "tools.rules[0]"),
    );
}

#[test]
fn what_does_not_depend_on_it_is_decided() {
    check(
        &format!("rules: [{{ deny: mail.send, {ANN} }}]"),
        &decided(RuleEffect::Deny, "tools.default"),
    );
    check(
        &format!("rules: [{{ deny: mail.send }}, {{ allow: mail.send, {ANN} }}]"),
        &decided(RuleEffect::Deny, "tools.rules[0]"),
    );
    check(
        &format!("default: allow, rules: [{{ deny: mail.read, {ANN} }}]"),
        &decided(RuleEffect::Allow, "tools.default"),
    );
    // Another condition does not hold, whatever the hidden value.
    check(
        "default: allow, rules: [{ deny: mail.send, where: { to: { equals: a }, about: { equals: work } } }]",
        &decided(RuleEffect::Allow, "tools.default"),
    );
    check(
        "default: deny, rules: [{ allow: mail.send, where: { about: { equals: lunch } } }]",
        &decided(RuleEffect::Allow, "tools.rules[0]"),
    );
}

#[test]
fn ceilings_and_standing_answers_may_depend_on_it_too() {
    let above = policy(
        &format!("tools: {{ default: allow, rules: [{{ ask: mail.send, {ANN} }}] }}"),
        &Ceiling::unlimited(),
    );
    let under = policy("tools: { default: allow }", &Ceiling::from_policy(&above));
    assert_eq!(
        under.decide_past_call(&letter(), &CallHistory::new()),
        depends("ceiling.tools.rules[0]")
    );
    let asks = policy("tools: { rules: [{ ask: 'mail.*' }] }", &Ceiling::unlimited());
    let standing = |rule: &str| {
        let rules = StandingRules::parse(&format!("version: 1\nrules:\n  - {rule}\n")).unwrap();
        asks.with_standing_rules(rules)
            .decide_past_call(&letter(), &CallHistory::new())
    };
    assert_eq!(
        standing(&format!("{{ allow: mail.send, {ANN} }}")),
        depends("rules.yaml[0]")
    );
    assert_eq!(
        standing("{ allow: mail.send, where: { about: { equals: lunch } } }"),
        decided(RuleEffect::Allow, "rules.yaml[0]")
    );
    assert_eq!(
        standing("{ allow: mail.send, where: { about: { equals: work } } }"),
        decided(RuleEffect::Ask, "tools.rules[0]")
    );
}

#[test]
fn where_nothing_is_hidden_it_is_what_the_policy_says() {
    let texts = [
        "tools: { default: allow, rules: [{ ask: 'mail.*', hint: destructive }] }",
        "tools: { rules: [{ allow: mail.send, where: { to: { matches: '<.*>' } } }, { ask: mail.send, after: 'web.*' }] }",
        "tools: { default: ask }",
    ];
    let mut after = CallHistory::new();
    after.record("web.get".parse().unwrap());
    for text in texts {
        let policy = policy(text, &Ceiling::unlimited());
        for history in [CallHistory::new(), after.clone()] {
            for read_only in [None, Some(true)] {
                let hints = ToolHints {
                    read_only,
                    ..ToolHints::none()
                };
                let call = RedactedCall {
                    hidden: [].into(),
                    hints,
                    ..letter()
                };
                let said = policy.decide_tool(&call.name, hints, &call.args, &history);
                assert_eq!(
                    policy.decide_past_call(&call, &history),
                    PastCallDecision::Decided(said),
                    "{text}"
                );
            }
        }
    }
}
