use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{CallHistory, Ceiling, Decision, Draft, Policy, ToolHints};

fn policy(text: &str) -> Policy {
    Draft::parse(text, "x").unwrap().under(&Ceiling::unlimited()).unwrap()
}

fn rules(lines: &str) -> StandingRules {
    StandingRules::parse(&format!("version: 1\nrules: {lines}")).unwrap()
}

fn decide(policy: &Policy, tool: &str, args: &Value) -> (RuleEffect, String) {
    let decision = policy.decide_tool(tool, ToolHints::none(), args, &CallHistory::new());
    (decision.effect(), decision.rule().to_string())
}

#[test]
fn an_answer_for_these_very_arguments_takes_no_others() {
    let tool: ToolName = "files.delete".parse().unwrap();
    let rule = StandingRule::new(&tool, Some(&json!({"path": {"equals": "/tmp/x"}}))).unwrap();
    let more = json!({"path": "/tmp/x", "recursive": true});
    assert!(rule.answers(&tool, &more));
    let rule = rule.with_exact_arguments();
    assert!(!rule.answers(&tool, &more));
    assert!(rule.answers(&tool, &json!({"path": "/tmp/x"})));
    let nothing = StandingRule::new(&tool, Some(&json!({})))
        .unwrap()
        .with_exact_arguments();
    assert!(nothing.answers(&tool, &json!({})));
    assert!(!nothing.answers(&tool, &json!({"path": "/"})));
    let text = StandingRules::append("", &rule).unwrap();
    assert_eq!(StandingRules::parse(&text).unwrap().rules(), [rule]);
}

#[test]
fn a_standing_rule_answers_what_the_policy_asks_for() {
    let policy = policy("tools: { default: deny, rules: [{ ask: 'mail.*' }, { deny: mail.purge }] }");
    let standing = policy.with_standing_rules(rules(
        "[{ allow: files.read }, { allow: 'mail.*', where: { to: { equals: a@b.example } } }]",
    ));
    let check = |tool: &str, args: Value, expected: (RuleEffect, &str)| {
        assert_eq!(
            decide(&standing, tool, &args),
            (expected.0, expected.1.to_owned()),
            "{tool} {args}"
        );
    };
    check(
        "mail.send",
        json!({"to": "a@b.example"}),
        (RuleEffect::Allow, "rules.yaml[1]"),
    );
    check(
        "mail.send",
        json!({"to": "c@d.example"}),
        (RuleEffect::Ask, "tools.rules[0]"),
    );
    check("mail.send", json!({}), (RuleEffect::Ask, "tools.rules[0]"));
    check(
        "mail.purge",
        json!({"to": "a@b.example"}),
        (RuleEffect::Deny, "tools.rules[1]"),
    );
    check("files.read", json!({}), (RuleEffect::Deny, "tools.default"));
    assert_eq!(standing.digest(), policy.digest());
}

#[test]
fn what_is_above_a_policy_does_not_know_its_standing_answers() {
    let ceiling = Draft::parse("tools: { rules: [{ ask: mail.send }, { allow: mail.list }] }", "top").unwrap();
    let draft = Draft::parse("tools: { rules: [{ ask: 'mail.send' }, { ask: 'mail.list' }] }", "x").unwrap();
    let policy = draft.under(&Ceiling::from_draft(&ceiling)).unwrap();
    let policy = policy.with_standing_rules(rules("[{ allow: '**' }]"));
    let ask = (RuleEffect::Ask, "ceiling.tools.rules[0]".to_owned());
    assert_eq!(decide(&policy, "mail.send", &json!({})), ask);
    let allow = (RuleEffect::Allow, "rules.yaml[0]".to_owned());
    assert_eq!(decide(&policy, "mail.list", &json!({})), allow);
}

#[test]
fn an_explanation_names_the_standing_answer() {
    let policy = policy("tools: { rules: [{ ask: mail.send }] }").with_standing_rules(rules("[{ allow: mail.send }]"));
    let explained = policy.explain(&crate::ExplainQuery::Tool {
        name: "mail.send".to_owned(),
        hints: ToolHints::none(),
        args: json!({}),
        after: Vec::new(),
    });
    assert_eq!(
        explained.to_string(),
        "tool `mail.send` is allowed by `rules.yaml[0]`\n  ask   tools.rules[0]\n  allow rules.yaml[0]"
    );
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    assert_eq!(StandingRules::parse(text).unwrap_err().to_string(), expected);
}

#[test]
fn a_wrong_file_says_where_and_what() {
    refused(
        "version: 1\nrules:\n  - { alow: mail.send }\n",
        "rules.yaml:3:7: unknown key `rules[0].alow`, did you mean `allow`?",
    );
    refused("rules: []", "rules.yaml:1:1: `version` is missing");
    refused(
        "version: 1\nrules: [{ allow: mail.send, where: { to: {} } }]",
        "rules.yaml:2:36: `rules[0].where`: a condition under `where` needs an operator such as `equals`",
    );
    refused(
        "version: 1\nrules: [{ deny: mail.send }]",
        "rules.yaml:2:11: unknown key `rules[0].deny`, known here: `allow`, `where`, `only`, `since`, `by`",
    );
    let many = format!("version: 1\nrules:\n{}", "  - { allow: a.b }\n".repeat(1_001));
    refused(
        &many,
        "rules.yaml: there are 1001 rules, the most is 1000, a pattern such as `mail.*` replaces several",
    );
    assert_eq!(StandingRules::parse("").unwrap(), StandingRules::default());
}

fn rule(tool: &str, when: Option<&Value>) -> StandingRule {
    let rule = StandingRule::new(&tool.parse().unwrap(), when).unwrap();
    rule.with_origin("2026-11-16T11:00:00Z", "local:1000")
}

#[test]
fn a_rule_is_added_at_the_end_and_comments_stay() {
    let first = StandingRules::append("", &rule("mail.send", None)).unwrap();
    assert!(
        first.ends_with(
            "rules:\n  - {\"allow\":\"mail.send\",\"since\":\"2026-11-16T11:00:00Z\",\"by\":\"local:1000\"}\n"
        )
    );
    let commented = format!("{first}  # the next one is for reports\n");
    let when = json!({"path": {"under": "/data/"}});
    let second = StandingRules::append(&commented, &rule("files.read", Some(&when))).unwrap();
    assert!(second.starts_with(&commented));
    assert_eq!(StandingRules::parse(&second).unwrap().rules().len(), 2);
    let again = StandingRules::append(&second, &rule("mail.send", None).with_origin("later", "else")).unwrap();
    assert_eq!(again, second, "what stands already is not written twice");
}

#[test]
fn a_file_in_another_style_is_written_anew() {
    for text in [
        "version: 1\nrules: [{ allow: a.b }]",
        "{\"version\": 1, \"rules\": [{\"allow\": \"a.b\"}]}",
        "rules:\n    - allow: a.b\nversion: 1\n",
        "version: 1\nrules:\n- allow: a.b\n",
        "version: 1\n",
    ] {
        let after = StandingRules::append(text, &rule("c.d", None)).unwrap();
        let before = StandingRules::parse(text).unwrap();
        let read = StandingRules::parse(&after).unwrap();
        assert_eq!(read.rules().len(), before.rules().len() + 1, "{after}");
        assert_eq!(read.rules().last(), Some(&rule("c.d", None)));
    }
}

#[test]
fn a_condition_that_is_none_is_refused_before_it_is_written() {
    let tool = "mail.send".parse().unwrap();
    for when in [
        json!({"to": {}}),
        json!({"to": {"equal": 1}}),
        json!("all"),
        json!({"to": {"matches": "("}}),
    ] {
        assert!(StandingRule::new(&tool, Some(&when)).is_err(), "{when}");
    }
}

#[test]
fn what_changes_is_said_in_words() {
    let (before, after) = (rules("[{ allow: a.b }]"), rules("[{ allow: mail.send, by: me }]"));
    let lines: Vec<String> = before.diff(&after).iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "weaker   new standing answer: {\"allow\":\"mail.send\"} is no longer asked for",
            "stricter a standing answer is gone: {\"allow\":\"a.b\"} is asked for again",
        ]
    );
}

#[test]
fn its_schema_knows_every_key() {
    let schema = standing_rules_schema();
    assert_eq!(schema["$id"], "urn:ringfence:rules:1");
    let text = schema.to_string();
    for key in ["allow", "where", "since", "by", "under"] {
        assert!(text.contains(&format!("\"{key}\"")), "{key}");
    }
}

fn pattern() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("a.x".to_owned()),
        Just("a.*".to_owned()),
        Just("b.x".to_owned()),
        Just("**".to_owned()),
        Just("*.y".to_owned()),
    ]
}

prop_compose! {
    fn written()(verdict in 0..3_usize, pattern in pattern(), when in proptest::option::of(0..3_i64), hint in proptest::option::of(0..2_usize)) -> String {
        let verdict = ["allow", "ask", "deny"][verdict];
        let when = when.map_or(String::new(), |n| format!(", where: {{ n: {{ equals: {n} }} }}"));
        let hint = hint.map_or(String::new(), |hint| format!(", hint: {}", ["destructive", "open_world"][hint]));
        format!("{{ {verdict}: '{pattern}'{when}{hint} }}")
    }
}

proptest! {
    /// A standing rule turns a question into an allow decision, and changes nothing else.
    #[test]
    fn standing_answers_only_answer_questions(
        own in proptest::collection::vec(written(), 0..4),
        above in proptest::collection::vec(written(), 0..3),
        standing in proptest::collection::vec((pattern(), proptest::option::of(0..3_i64)), 0..4),
        default in 0..3_usize,
        tool in prop_oneof![Just("a.x"), Just("a.y"), Just("b.x")],
        n in 0..3_i64,
    ) {
        let verdicts = ["allow", "ask", "deny"];
        let ceiling = format!("tools: {{ default: allow, rules: [{}] }}", above.join(", "));
        let own = format!("tools: {{ default: {}, rules: [{}] }}", verdicts[default], own.join(", "));
        let ceiling = Ceiling::from_draft(Draft::parse(&ceiling, "top").unwrap());
        let policy = Draft::parse(&own, "x").unwrap().under(&ceiling).unwrap();
        let lines: Vec<String> = standing.iter().map(|(pattern, when)| {
            let when = when.map_or(String::new(), |n| format!(", where: {{ n: {{ equals: {n} }} }}"));
            format!("{{ allow: '{pattern}'{when} }}")
        }).collect();
        let with = policy.with_standing_rules(rules(&format!("[{}]", lines.join(", "))));
        let args = json!({ "n": n });
        let before = policy.decide_tool(tool, ToolHints::none(), &args, &CallHistory::new());
        let after = with.decide_tool(tool, ToolHints::none(), &args, &CallHistory::new());
        match (&before, &after) {
            (before, after) if before == after => {}
            (Decision::Ask(_), Decision::Allow(rule)) => {
                // Either the standing rule decides, or a ceiling that allows by itself.
                prop_assert!(rule.as_str().starts_with("rules.yaml["), "{rule}");
            }
            (Decision::Ask(before), Decision::Ask(after)) => {
                prop_assert!(!before.as_str().starts_with("ceiling") && after.as_str().starts_with("ceiling"), "{before} {after}");
            }
            other => prop_assert!(false, "{other:?}"),
        }
        prop_assert_eq!(policy.shows_tool(&tool.parse().unwrap(), ToolHints::none()), with.shows_tool(&tool.parse().unwrap(), ToolHints::none()));
    }

    #[test]
    fn whatever_is_appended_reads_back(texts in proptest::collection::vec("\\PC{0,12}", 1..5)) {
        let mut file = String::new();
        for text in &texts {
            let when = json!({ "to": { "equals": text } });
            file = StandingRules::append(&file, &rule("mail.send", Some(&when))).unwrap();
        }
        let read = StandingRules::parse(&file).unwrap();
        for text in &texts {
            let args = json!({ "to": text });
            prop_assert!(read.answering_rule(&"mail.send".parse().unwrap(), &args).is_some());
        }
    }
}
