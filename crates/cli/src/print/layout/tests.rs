use super::{compact, pretty};

fn check(json: &str, wide: &str, narrow: &str) {
    assert_eq!(pretty(json), wide);
    assert_eq!(compact(json), narrow);
    assert_eq!(compact(wide), narrow);
}

#[test]
fn values_keep_their_order_and_their_digits() {
    check("1e400", "1e400", "1e400");
    check(r#""a b""#, r#""a b""#, r#""a b""#);
    check("[ ]", "[]", "[]");
    check(
        r#"{"b": 123456789012345678901234567890, "a": [1, {}]}"#,
        "{\n  \"b\": 123456789012345678901234567890,\n  \"a\": [\n    1,\n    {}\n  ]\n}",
        r#"{"b":123456789012345678901234567890,"a":[1,{}]}"#,
    );
}

#[test]
fn what_stands_in_a_string_is_no_structure() {
    check(
        r#"["{,:\" }", "\\"]"#,
        "[\n  \"{,:\\\" }\",\n  \"\\\\\"\n]",
        r#"["{,:\" }","\\"]"#,
    );
}
