use super::{MOST, too_deep};

#[track_caller]
fn check(source: &str, offset: Option<usize>) {
    assert_eq!(too_deep(source).map(|found| found as usize), offset);
}

#[test]
fn depth_is_counted_in_code_only() {
    check(&format!("{}{}", "[".repeat(MOST), "]".repeat(MOST)), None);
    check(&"[".repeat(MOST + 1), Some(MOST));
    check(&"({".repeat(MOST), Some(MOST));
    check(&"()".repeat(MOST * 2), None);
    check(&format!("'{}'", "(".repeat(MOST * 2)), None);
    check(&format!("\"\\\"{}\"", "(".repeat(MOST * 2)), None);
    check(&format!("// {}", "(".repeat(MOST * 2)), None);
    check(&format!("/* {} */", "(".repeat(MOST * 2)), None);
    check(&format!("`{}`", "(".repeat(MOST * 2)), Some(MOST + 1));
    check(&format!("it's\n{}", "(".repeat(MOST * 2)), Some(MOST + 5));
    check("]]]]", None);
}
