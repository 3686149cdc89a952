use serde_json::json;

use super::*;
use crate::{Ceiling, Draft};

#[track_caller]
fn check(rules: &str, tool: &str, args: &Value, expected: (RuleEffect, &str)) {
    let text = format!("tools: {{ rules: {rules} }}");
    let policy = Draft::parse(&text, "x").unwrap().under(&Ceiling::unlimited()).unwrap();
    let decision = policy.decide_tool(tool, ToolHints::none(), args, &CallHistory::new());
    assert_eq!(
        (decision.effect(), decision.rule().as_str()),
        expected,
        "{rules} {tool} {args}"
    );
}

const DEFAULT: (RuleEffect, &str) = (RuleEffect::Deny, "tools.default");

#[test]
fn deny_beats_ask_beats_allow_in_any_order() {
    let none = json!({});
    check(
        "[{ allow: 'a.*' }]",
        "a.x",
        &none,
        (RuleEffect::Allow, "tools.rules[0]"),
    );
    check(
        "[{ deny: a.x }, { allow: 'a.*' }]",
        "a.x",
        &none,
        (RuleEffect::Deny, "tools.rules[0]"),
    );
    check(
        "[{ allow: 'a.*' }, { deny: a.x }]",
        "a.x",
        &none,
        (RuleEffect::Deny, "tools.rules[1]"),
    );
    check(
        "[{ allow: 'a.*' }, { ask: 'a.x*' }]",
        "a.xy",
        &none,
        (RuleEffect::Ask, "tools.rules[1]"),
    );
    check(
        "[{ ask: a.x }, { deny: 'a.*' }, { allow: a.x }]",
        "a.x",
        &none,
        (RuleEffect::Deny, "tools.rules[1]"),
    );
    check("[{ allow: 'a.*' }]", "b.x", &none, DEFAULT);
    check(
        "[{ allow: '**' }]",
        "bad name",
        &none,
        (RuleEffect::Deny, "builtin.names"),
    );
}

#[test]
fn an_allow_condition_holds_only_when_it_surely_holds() {
    let allow = (RuleEffect::Allow, "tools.rules[0]");
    for (condition, good, bad) in [
        ("equals: 5", json!(5), json!(6)),
        ("equals: null", json!("x"), json!("x")),
        ("one_of: [a, b]", json!("b"), json!("c")),
        ("under: /data/", json!("/data/x/y"), json!("/database/x")),
        ("under: /data", json!("/data"), json!("/data/../etc")),
        ("under: /data", json!("/data/a b"), json!("/data//x")),
        ("under: /data", json!("/data/x"), json!("data/x")),
        ("under: /data", json!("/data/x"), json!("/data/x\u{0}")),
        ("under: /data", json!("/data/x"), json!("/data/.")),
        ("under: /", json!("/anything"), json!("relative")),
        (
            "host: '*.example.com'",
            json!("https://a.example.com/x"),
            json!("https://example.com/x"),
        ),
        (
            "host: '*.example.com'",
            json!("a.example.com"),
            json!("https://a.example.com@evil.org/"),
        ),
        ("max: 10", json!(10), json!(11)),
        ("max: 0.5", json!(0.5), json!(0.6)),
        ("max: 10", json!(-3), json!("3")),
        ("matches: '[a-z]+'", json!("abc"), json!("abc1")),
        ("matches: 'a|b'", json!("b"), json!("ab")),
        ("matches: 'a.*'", json!("ax"), json!("a\nx")),
        ("max: 10, equals: 3", json!(3), json!(4)),
    ] {
        if good == bad {
            continue;
        }
        let rules = format!("[{{ allow: a.x, where: {{ v: {{ {condition} }} }} }}]");
        check(&rules, "a.x", &json!({ "v": good }), allow);
        check(&rules, "a.x", &json!({ "v": bad }), DEFAULT);
        check(&rules, "a.x", &json!({}), DEFAULT);
        check(&rules, "a.x", &json!({ "v": null }), DEFAULT);
        check(&rules, "a.x", &json!([1]), DEFAULT);
        check(&rules, "a.x", &json!({ "v": [good, bad] }), DEFAULT);
        check(&rules, "a.x", &json!({ "v": [] }), DEFAULT);
    }
}

#[test]
fn a_deny_condition_holds_when_it_may_hold() {
    let rules = "[{ allow: a.x }, { deny: a.x, where: { path: { under: /etc } } }]";
    let allow = (RuleEffect::Allow, "tools.rules[0]");
    let deny = (RuleEffect::Deny, "tools.rules[1]");
    check(rules, "a.x", &json!({ "path": "/data/x" }), allow);
    check(rules, "a.x", &json!({ "path": "/etc/passwd" }), deny);
    check(rules, "a.x", &json!({ "path": "/data/../etc/passwd" }), deny);
    check(rules, "a.x", &json!({ "path": "//etc/passwd" }), deny);
    check(rules, "a.x", &json!({ "path": "etc/passwd" }), deny);
    check(rules, "a.x", &json!({ "path": ["/data/x", "/etc/passwd"] }), deny);
    check(rules, "a.x", &json!({ "path": ["/data/x"] }), allow);
    check(rules, "a.x", &json!({ "path": { "file": "/etc/passwd" } }), deny);
    check(rules, "a.x", &json!({}), allow);
}

#[test]
fn a_flow_rule_matches_only_afterwards() {
    let text = "tools: { rules: [{ allow: mail.send }, { ask: mail.send, after: 'web.*' }] }";
    let policy = Draft::parse(text, "x").unwrap().under(&Ceiling::unlimited()).unwrap();
    let mut history = CallHistory::new();
    assert_eq!(
        policy
            .decide_tool("mail.send", ToolHints::none(), &json!({}), &history)
            .effect(),
        RuleEffect::Allow
    );
    history.record("files.read".parse().unwrap());
    assert_eq!(
        policy
            .decide_tool("mail.send", ToolHints::none(), &json!({}), &history)
            .effect(),
        RuleEffect::Allow
    );
    history.record("web.get".parse().unwrap());
    assert_eq!(
        policy
            .decide_tool("mail.send", ToolHints::none(), &json!({}), &history)
            .effect(),
        RuleEffect::Ask
    );
}

#[test]
fn rates_of_all_matching_rules_hold() {
    let text = "tools: { rules: [{ allow: 'a.*', rate: 60/min }, { allow: a.x, rate: 5/s }, { allow: b.x }] }";
    let policy = Draft::parse(text, "x").unwrap().under(&Ceiling::unlimited()).unwrap();
    let rates = policy.rates(
        &"a.x".parse().unwrap(),
        ToolHints::none(),
        &json!({}),
        &CallHistory::new(),
    );
    let shown: Vec<String> = rates.iter().map(|(rule, rate)| format!("{rule} {rate}")).collect();
    assert_eq!(shown, ["tools.rules[0] 60/min", "tools.rules[1] 5/s"]);
}

#[test]
fn a_tool_that_is_always_denied_is_not_shown() {
    let text = "tools: { rules: [{ allow: 'a.*' }, { deny: a.x }, { deny: a.y, where: { p: { equals: 1 } } }] }";
    let policy = Draft::parse(text, "x").unwrap().under(&Ceiling::unlimited()).unwrap();
    for (tool, shown) in [("a.x", false), ("a.y", true), ("a.z", true), ("b.x", false)] {
        assert_eq!(
            policy.shows_tool(&tool.parse().unwrap(), ToolHints::none()),
            shown,
            "{tool}"
        );
    }
}

#[test]
fn an_expression_cannot_leave_its_anchors() {
    assert!("a)|(b".parse::<FullMatchRegex>().is_err());
    assert!("(a{1000}){1000}".parse::<FullMatchRegex>().is_err());
}

fn hints(read_only: Option<bool>, destructive: Option<bool>, open_world: Option<bool>) -> ToolHints {
    ToolHints {
        read_only,
        destructive,
        open_world,
    }
}

#[test]
fn what_a_server_does_not_say_counts_against_its_tool() {
    let text = "tools: { default: allow, rules: [{ ask: '**', hint: destructive }, { deny: '**', hint: open_world }] }";
    let policy = Draft::parse(text, "x").unwrap().under(&Ceiling::unlimited()).unwrap();
    let check = |hints: ToolHints, expected: RuleEffect| {
        let decision = policy.decide_tool("a.b", hints, &json!({}), &CallHistory::new());
        assert_eq!(decision.effect(), expected, "{hints:?}");
        assert_eq!(
            policy.shows_tool(&"a.b".parse().unwrap(), hints),
            expected != RuleEffect::Deny,
            "{hints:?}"
        );
    };
    let (yes, no) = (Some(true), Some(false));
    check(ToolHints::none(), RuleEffect::Deny);
    check(hints(yes, None, None), RuleEffect::Deny);
    check(hints(yes, None, no), RuleEffect::Allow);
    check(hints(no, None, no), RuleEffect::Ask);
    check(hints(None, None, no), RuleEffect::Ask);
    check(hints(None, no, no), RuleEffect::Allow);
    check(hints(None, yes, no), RuleEffect::Ask);
    // A server that declares both counts as destructive.
    check(hints(yes, yes, no), RuleEffect::Ask);
}

#[test]
fn a_rule_that_allows_by_a_hint_wants_the_servers_word() {
    let text = "tools: { default: deny, rules: [{ allow: '**', hint: destructive }] }";
    let policy = Draft::parse(text, "x").unwrap().under(&Ceiling::unlimited()).unwrap();
    let check = |hints: ToolHints, expected: RuleEffect| {
        let decision = policy.decide_tool("a.b", hints, &json!({}), &CallHistory::new());
        assert_eq!(decision.effect(), expected, "{hints:?}");
        assert_eq!(
            policy.shows_tool(&"a.b".parse().unwrap(), hints),
            expected != RuleEffect::Deny,
            "{hints:?}"
        );
    };
    check(ToolHints::none(), RuleEffect::Deny);
    check(hints(None, Some(true), None), RuleEffect::Allow);
}

#[test]
fn a_hint_is_written_as_it_was_read() {
    let text = "tools: { rules: [{ ask: '**', hint: open_world }] }";
    let draft = Draft::parse(text, "x").unwrap();
    assert_eq!(Draft::parse(&draft.to_yaml().unwrap(), "x").unwrap(), draft);
    let wrong = Draft::parse("tools: { rules: [{ ask: '**', hint: distructive }] }", "x");
    assert!(wrong.unwrap_err().to_string().contains("destructive"));
}

#[test]
fn limits_of_a_policy_and_of_what_is_above_it_hold_at_once() {
    let ceiling = Draft::parse("tools: { limits: { tenant: 100/min, tool: 10/s } }", "top").unwrap();
    let draft = Draft::parse("tools: { limits: { tool: 5/s, server: 7/h } }", "x").unwrap();
    let policy = draft.under(&Ceiling::from_draft(ceiling)).unwrap();
    let limits = policy.tool_limits();
    let words: Vec<String> = limits.iter().map(|(_, rule, rate)| format!("{rule} {rate}")).collect();
    assert_eq!(
        words,
        [
            "tools.limits.tenant 100/min",
            "tools.limits.server 7/h",
            "tools.limits.tool 5/s",
            "ceiling.tools.limits.tenant 100/min",
            "ceiling.tools.limits.tool 10/s",
        ]
    );
}
