use super::missed_scenarios;

const SAID: &str = "\
=== SUITE SUMMARY ===

✓ tools_call: 2 passed, 0 failed
✓ initialize: 0 passed, 0 failed
✗ auth/dpop: 9 passed, 3 failed
✓ auth/iss-supported: 15 passed, 0 failed, 1 warnings

Total: 26 passed, 3 failed, 0 warnings";

#[track_caller]
fn check(scored: &[&str], expected: &[&str]) {
    let lines: Vec<String> = SAID.lines().map(str::to_owned).collect();
    let scored: Vec<String> = scored.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(missed_scenarios(&lines, &scored), expected);
}

#[test]
fn a_scenario_must_be_seen_checked_and_passed() {
    check(&["tools_call", "auth/iss-supported"], &[]);
    check(&["tools_call", "initialize"], &["initialize"]);
    check(&["auth/dpop", "tools_call"], &["auth/dpop"]);
    check(&["never-run"], &["never-run"]);
}
