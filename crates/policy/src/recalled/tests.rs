use serde_json::json;

use super::{Called, Judged};
use crate::ceiling::Ceiling;
use crate::decide::{Decision, Rule, Verdict};
use crate::draft::Draft;
use crate::policy::Policy;
use crate::standing::StandingRules;
use crate::tools::{Hints, History};

fn policy(text: &str, ceiling: &Ceiling) -> Policy {
    Draft::parse(text, "x").unwrap().under(ceiling).unwrap()
}

/// A letter to a hidden recipient about a visible subject.
fn letter() -> Called {
    Called {
        name: "mail.send".to_owned(),
        hints: Hints::none(),
        args: json!({ "to": "<email:1>", "about": "lunch" }),
        hidden: ["to".to_owned()].into(),
        made: true,
    }
}

fn decided(verdict: Verdict, rule: &str) -> Judged {
    Judged::Decided(Decision::new(verdict, rule))
}

fn depends(rule: &str) -> Judged {
    Judged::Depends {
        argument: "to".to_owned(),
        rule: Rule::new(rule),
    }
}

#[track_caller]
fn check(rules: &str, expected: &Judged) {
    let policy = policy(&format!("tools: {{ {rules} }}"), &Ceiling::own_word());
    assert_eq!(policy.judge(&letter(), &History::new()), *expected, "{rules}");
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
        &decided(Verdict::Ask, "tools.rules[0]"),
    );
}

#[test]
fn what_does_not_depend_on_it_is_decided() {
    check(
        &format!("rules: [{{ deny: mail.send, {ANN} }}]"),
        &decided(Verdict::Deny, "tools.default"),
    );
    check(
        &format!("rules: [{{ deny: mail.send }}, {{ allow: mail.send, {ANN} }}]"),
        &decided(Verdict::Deny, "tools.rules[0]"),
    );
    check(
        &format!("default: allow, rules: [{{ deny: mail.read, {ANN} }}]"),
        &decided(Verdict::Allow, "tools.default"),
    );
    // Another condition does not hold, whatever the hidden value.
    check(
        "default: allow, rules: [{ deny: mail.send, where: { to: { equals: a }, about: { equals: work } } }]",
        &decided(Verdict::Allow, "tools.default"),
    );
    check(
        "default: deny, rules: [{ allow: mail.send, where: { about: { equals: lunch } } }]",
        &decided(Verdict::Allow, "tools.rules[0]"),
    );
}

#[test]
fn ceilings_and_standing_answers_may_depend_on_it_too() {
    let above = policy(
        &format!("tools: {{ default: allow, rules: [{{ ask: mail.send, {ANN} }}] }}"),
        &Ceiling::own_word(),
    );
    let under = policy("tools: { default: allow }", &Ceiling::of(&above));
    assert_eq!(
        under.judge(&letter(), &History::new()),
        depends("ceiling.tools.rules[0]")
    );
    let asks = policy("tools: { rules: [{ ask: 'mail.*' }] }", &Ceiling::own_word());
    let standing = |rule: &str| {
        let rules = StandingRules::parse(&format!("version: 1\nrules:\n  - {rule}\n")).unwrap();
        asks.with_standing(rules).judge(&letter(), &History::new())
    };
    assert_eq!(
        standing(&format!("{{ allow: mail.send, {ANN} }}")),
        depends("rules.yaml[0]")
    );
    assert_eq!(
        standing("{ allow: mail.send, where: { about: { equals: lunch } } }"),
        decided(Verdict::Allow, "rules.yaml[0]")
    );
    assert_eq!(
        standing("{ allow: mail.send, where: { about: { equals: work } } }"),
        decided(Verdict::Ask, "tools.rules[0]")
    );
}

#[test]
fn where_nothing_is_hidden_it_is_what_the_policy_says() {
    let texts = [
        "tools: { default: allow, rules: [{ ask: 'mail.*', hint: destructive }] }",
        "tools: { rules: [{ allow: mail.send, where: { to: { matches: '<.*>' } } }, { ask: mail.send, after: 'web.*' }] }",
        "tools: { default: ask }",
    ];
    let mut after = History::new();
    after.record("web.get".parse().unwrap());
    for text in texts {
        let policy = policy(text, &Ceiling::own_word());
        for history in [History::new(), after.clone()] {
            for read_only in [None, Some(true)] {
                let hints = Hints {
                    read_only,
                    ..Hints::none()
                };
                let call = Called {
                    hidden: [].into(),
                    hints,
                    ..letter()
                };
                let said = policy.tool(&call.name, hints, &call.args, &history);
                assert_eq!(policy.judge(&call, &history), Judged::Decided(said), "{text}");
            }
        }
    }
}
