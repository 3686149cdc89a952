use super::{MAX_DEPTH, find_too_deep};

#[track_caller]
fn check(source: &str, offset: Option<usize>) {
    assert_eq!(find_too_deep(source).map(|found| found as usize), offset);
}

#[test]
fn depth_is_counted_in_code_only() {
    check(&format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH)), None);
    check(&"[".repeat(MAX_DEPTH + 1), Some(MAX_DEPTH));
    check(&"({".repeat(MAX_DEPTH), Some(MAX_DEPTH));
    check(&"()".repeat(MAX_DEPTH * 2), None);
    check(&format!("'{}'", "(".repeat(MAX_DEPTH * 2)), None);
    check(&format!("\"\\\"{}\"", "(".repeat(MAX_DEPTH * 2)), None);
    check(&format!("// {}", "(".repeat(MAX_DEPTH * 2)), None);
    check(&format!("/* {} */", "(".repeat(MAX_DEPTH * 2)), None);
    check(&format!("`{}`", "(".repeat(MAX_DEPTH * 2)), Some(MAX_DEPTH + 1));
    check(&format!("it's\n{}", "(".repeat(MAX_DEPTH * 2)), Some(MAX_DEPTH + 5));
    check("]]]]", None);
}
