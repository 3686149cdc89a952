use super::*;

#[test]
fn the_strictest_answer_wins_and_the_first_of_equals() {
    let answer = |verdict, rule: &str| Decision::new(verdict, rule);
    let got = strictest([
        answer(RuleEffect::Allow, "a"),
        answer(RuleEffect::Ask, "b"),
        answer(RuleEffect::Deny, "c"),
        answer(RuleEffect::Deny, "d"),
    ]);
    assert_eq!(got, answer(RuleEffect::Deny, "c"));
}

#[test]
fn no_answer_is_a_refusal() {
    assert_eq!(strictest([]).effect(), RuleEffect::Deny);
}

#[test]
fn the_default_is_not_about_skills() {
    let check = |rules: &str, name: &str, verdict: RuleEffect, rule: &str| {
        let text = format!("tools: {{ default: deny, rules: {rules} }}");
        let policy = Draft::builtin().layer(&Draft::parse(&text, "t").unwrap());
        let policy = policy.under(&crate::Ceiling::unlimited()).unwrap();
        let decided = policy.decide_tool(name, ToolHints::none(), &Value::Null, &CallHistory::new());
        assert_eq!(
            (decided.effect(), decided.rule().as_str()),
            (verdict, rule),
            "{rules} {name}"
        );
        assert_eq!(
            policy.shows_tool(&name.parse().unwrap(), ToolHints::none()),
            verdict != RuleEffect::Deny
        );
    };
    check("[]", "skills.report", RuleEffect::Allow, "builtin.skills");
    check("[]", "skillset.report", RuleEffect::Deny, "tools.default");
    check("[]", "x.skills", RuleEffect::Deny, "tools.default");
    check(
        "[{ ask: 'skills.*' }]",
        "skills.report",
        RuleEffect::Ask,
        "tools.rules[0]",
    );
    check(
        "[{ deny: '*.delete_*' }]",
        "skills.delete_all",
        RuleEffect::Deny,
        "tools.rules[0]",
    );
    check("[{ deny: '**' }]", "skills.report", RuleEffect::Deny, "tools.rules[0]");
}
