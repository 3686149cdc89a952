use super::*;

#[test]
fn the_strictest_answer_wins_and_the_first_of_equals() {
    let answer = |verdict, rule: &str| Decision::new(verdict, rule);
    let got = strictest([
        answer(Verdict::Allow, "a"),
        answer(Verdict::Ask, "b"),
        answer(Verdict::Deny, "c"),
        answer(Verdict::Deny, "d"),
    ]);
    assert_eq!(got, answer(Verdict::Deny, "c"));
}

#[test]
fn no_answer_is_a_refusal() {
    assert_eq!(strictest([]).verdict(), Verdict::Deny);
}

#[test]
fn the_default_is_not_about_skills() {
    let check = |rules: &str, name: &str, verdict: Verdict, rule: &str| {
        let text = format!("tools: {{ default: deny, rules: {rules} }}");
        let policy = Draft::builtin().layer(&Draft::parse(&text, "t").unwrap());
        let policy = policy.under(&crate::Ceiling::own_word()).unwrap();
        let decided = policy.tool(name, Hints::none(), &Value::Null, &History::new());
        assert_eq!(
            (decided.verdict(), decided.rule().as_str()),
            (verdict, rule),
            "{rules} {name}"
        );
        assert_eq!(
            policy.shows(&name.parse().unwrap(), Hints::none()),
            verdict != Verdict::Deny
        );
    };
    check("[]", "skills.report", Verdict::Allow, "builtin.skills");
    check("[]", "skillset.report", Verdict::Deny, "tools.default");
    check("[]", "x.skills", Verdict::Deny, "tools.default");
    check("[{ ask: 'skills.*' }]", "skills.report", Verdict::Ask, "tools.rules[0]");
    check(
        "[{ deny: '*.delete_*' }]",
        "skills.delete_all",
        Verdict::Deny,
        "tools.rules[0]",
    );
    check("[{ deny: '**' }]", "skills.report", Verdict::Deny, "tools.rules[0]");
}
