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
