use super::{check_skips, skip_reason};

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_reason_that_counts_passes() {
    assert!(check_skips(&lines("ok\n  SKIPPED: cgroup v2 controllers absent: memory\n")).is_ok());
    assert!(check_skips(&lines("")).is_ok());
}

#[test]
fn another_reason_fails_and_is_named_once() {
    let error = check_skips(&lines("SKIPPED: too slow\nSKIPPED: too slow\nSKIPPED: needs root"))
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "tests skipped themselves for reasons that do not count: too slow"
    );
}

#[test]
fn the_mark_stands_at_the_beginning() {
    assert_eq!(skip_reason("    SKIPPED: needs root"), Some("needs root"));
    assert_eq!(skip_reason("it was SKIPPED: needs root"), None);
}
