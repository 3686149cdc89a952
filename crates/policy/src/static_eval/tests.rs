use serde_json::json;

use super::*;
use crate::standing_rules::StandingRules;
use crate::tools::CallHistory;
use crate::{Ceiling, Draft};

fn policy(text: &str) -> Policy {
    Draft::parse(text, "x").unwrap().under(&Ceiling::unlimited()).unwrap()
}

fn outlook(text: &str, tool: &str) -> StaticEvaluation {
    policy(text).evaluate_statically(&tool.parse().unwrap(), ToolHints::none())
}

#[track_caller]
fn check(tools: &str, expected: &str) {
    let outlook = outlook(&format!("tools: {tools}"), "a.x");
    assert_eq!(outlook.approval.to_string(), expected, "{tools}");
}

#[test]
fn a_question_that_depends_is_not_foretold_as_one_that_does_not() {
    check("{ default: allow }", "not required");
    check("{ default: ask }", "required");
    check("{ rules: [{ allow: a.x }] }", "not required");
    check("{ rules: [{ ask: a.x }] }", "required");
    check("{ rules: [{ ask: a.x }, { allow: a.x }] }", "required");
    check("{ default: ask, rules: [{ allow: a.x }] }", "not required");
    check("{ rules: [{ allow: a.x }, { ask: b.x }] }", "not required");
    check(
        "{ rules: [{ allow: a.x }, { ask: a.x, after: 'web.*' }] }",
        "may be required: tools.rules[1] after `web.*`",
    );
    check(
        "{ rules: [{ allow: a.x }, { ask: 'a.*', where: { to: { host: b.org }, n: { max: 3 } }, after: 'web.*' }] }",
        "may be required: tools.rules[1] where `n`, `to` after `web.*`",
    );
    check(
        "{ default: allow, rules: [{ ask: a.x, where: { p: { equals: 1 } } }] }",
        "may be required: tools.rules[0] where `p`",
    );
    // A call that is not allowed asks a person.
    check(
        "{ default: ask, rules: [{ allow: a.x, where: { p: { equals: 1 } } }] }",
        "may be required: tools.default",
    );
    // A call that no rule asks about is denied.
    check("{ rules: [{ ask: a.x, where: { p: { equals: 1 } } }] }", "required");
    check(
        "{ default: ask, rules: [{ ask: a.x, where: { p: { equals: 1 } } }] }",
        "required",
    );
    check(
        "{ default: ask, rules: [{ deny: a.x, where: { p: { equals: 1 } } }] }",
        "required",
    );
    // Effects are known statically: an undeclared effect counts as destructive for an ask rule, not for an allow rule.
    check(
        "{ rules: [{ allow: a.x }, { ask: a.x, hint: destructive }] }",
        "required",
    );
    check(
        "{ default: ask, rules: [{ allow: a.x, hint: destructive }] }",
        "required",
    );
}

/// The static evaluation agrees with the decision, for every choice of these rules and every one of these calls.
#[test]
fn what_is_foretold_comes_true() {
    let rules = [
        "{ allow: a.x }",
        "{ ask: a.x }",
        "{ allow: a.x, where: { p: { equals: 1 } } }",
        "{ ask: a.x, where: { p: { equals: 2 } } }",
        "{ ask: a.x, after: w.y }",
        "{ deny: a.x, where: { p: { equals: 3 } } }",
    ];
    let calls = [json!({}), json!({ "p": 1 }), json!({ "p": 2 }), json!({ "p": 3 })];
    let mut after = CallHistory::new();
    after.record("w.y".parse().unwrap());
    for default in ["allow", "ask", "deny"] {
        for picked in 0u32..64 {
            let some = rules.iter().enumerate().filter(|(index, _)| picked & (1 << index) != 0);
            let some: Vec<&str> = some.map(|(_, rule)| *rule).collect();
            let text = format!("tools: {{ default: {default}, rules: [{}] }}", some.join(", "));
            let policy = policy(&text);
            let verdicts = calls.iter().flat_map(|args| {
                [&CallHistory::new(), &after]
                    .map(|history| policy.decide_tool("a.x", ToolHints::none(), args, history).effect())
            });
            let verdicts: Vec<RuleEffect> = verdicts.collect();
            let has = |verdict| verdicts.contains(&verdict);
            match policy
                .evaluate_statically(&"a.x".parse().unwrap(), ToolHints::none())
                .approval
            {
                ApprovalRequirement::Never => assert!(!has(RuleEffect::Ask), "{text}"),
                ApprovalRequirement::Always => assert!(has(RuleEffect::Ask) && !has(RuleEffect::Allow), "{text}"),
                ApprovalRequirement::Sometimes(rules) => {
                    assert!(has(RuleEffect::Ask) && !rules.is_empty(), "{text}");
                }
            }
        }
    }
}

#[test]
fn a_ceiling_that_asks_is_foretold_too() {
    let ceiling = Draft::parse("tools: { rules: [{ allow: '**' }, { ask: a.x }] }", "c").unwrap();
    let draft = Draft::parse("tools: { rules: [{ allow: a.x }, { allow: b.x }] }", "x").unwrap();
    let policy = draft.under(&Ceiling::from_draft(ceiling)).unwrap();
    let approval = |tool: &str| {
        policy
            .evaluate_statically(&tool.parse().unwrap(), ToolHints::none())
            .approval
    };
    assert_eq!(approval("a.x"), ApprovalRequirement::Always);
    assert_eq!(approval("b.x"), ApprovalRequirement::Never);
}

#[test]
fn an_answer_for_good_is_reckoned_with() {
    let policy = policy("tools: { rules: [{ ask: 'a.*' }] }");
    let standing = "version: 1\nrules:\n  - { allow: a.all }\n  - { allow: a.some, where: { p: { equals: 1 } } }\n  - { allow: a.bare, only: true }\n";
    let policy = policy.with_standing_rules(StandingRules::parse(standing).unwrap());
    let approval = |tool: &str| {
        let outlook = policy.evaluate_statically(&tool.parse().unwrap(), ToolHints::none());
        outlook.approval.to_string()
    };
    assert_eq!(approval("a.all"), "not required");
    assert_eq!(approval("a.some"), "may be required: tools.rules[0]");
    assert_eq!(approval("a.bare"), "may be required: tools.rules[0]");
    assert_eq!(approval("a.other"), "required");
}

#[test]
fn rates_of_rules_that_depend_and_of_limits_are_foretold() {
    let text = "tools: { limits: { tool: 5/s, server: 6/s, session: 7/s, tenant: 8/s }, rules: [\
        { allow: a.x, rate: 60/min }, { ask: a.x, where: { p: { equals: 1 } }, rate: 3/h }, { allow: b.x, rate: 1/s }] }";
    let rates: Vec<String> = outlook(text, "a.x").rates.iter().map(ToString::to_string).collect();
    assert_eq!(
        rates,
        [
            "60/min",
            "3/h for some calls: tools.rules[1] where `p`",
            "8/s for all tools in all sessions",
            "7/s for all tools",
            "6/s for all tools of its server",
            "5/s for this tool",
        ]
    );
}

#[test]
fn what_is_hidden_is_foretold_and_from_whom_it_is_not() {
    let pii = |text: &str, tool: &str| {
        outlook(&format!("data: {{ pii: {text} }}"), tool)
            .pii
            .map(|pii| pii.to_string())
    };
    let some = |text: &str| Some(text.to_owned());
    let own = "{ kinds: [email, card], own: [{ name: badge, pattern: 'B-[0-9]{4}' }], reveal_to: ['mail.*'] }";
    assert_eq!(pii(own, "a.x"), some("results have aliases for email, card, badge"));
    assert_eq!(
        pii(own, "mail.send"),
        some("results have aliases for email, card, badge; gets the real values of aliases")
    );
    assert_eq!(pii(own, "skills.report"), None);
    assert_eq!(
        pii("{ kinds: [email], inside: real }", "a.x"),
        some("the program's own result gets aliases for email")
    );
    assert_eq!(
        pii("{ mode: block, kinds: [email], reveal_to: ['a.*'] }", "a.x"),
        some("results with email are held back")
    );
    assert_eq!(pii("{ mode: 'off' }", "a.x"), None);
}
