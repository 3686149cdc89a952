//! Tests of printed structures.

use super::parse::{MAX_VALUES, PrintedNode, parse_structures};
use crate::detector::{Detector, DetectorConfig, NameDetection, SecretDetection};
use crate::kind::SensitiveKinds;

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let words = ["email", "phone", "card", "iban", "ssn", "name"];
    let kinds = words.into_iter().filter_map(SensitiveKinds::from_policy_name);
    let detector = Detector::new(&DetectorConfig {
        kinds: kinds.fold(SensitiveKinds::none(), SensitiveKinds::union),
        names: NameDetection::Keys,
        secrets: SecretDetection::Redact,
        own: Vec::new(),
    });
    let found = detector.find(text);
    let found: Vec<_> = found.iter().map(|one| &text[one.start..one.end]).collect();
    assert_eq!(found, expected, "{text}");
}

/// Checks a value as JSON, as `console.log` prints it and as Python does, behind a word and cut off.
#[track_caller]
fn in_every_way(json: &str, expected: &[&str]) {
    check(json, expected);
    check(&json.replace('"', "'"), expected);
    check(
        &format!("got {}\nand more", json.replace("\":", "\": ").replace(',', ", ")),
        expected,
    );
    check(&json.replace('{', "{\n  ").replace(',', ",\n  "), expected);
    check(json.trim_end_matches(['}', ']']), expected);
}

#[test]
fn fields_that_say_what_a_value_is() {
    in_every_way(r#"[{"field":"phone","value":"5550199"}]"#, &["5550199"]);
    in_every_way(r#"{"label":"E-Mail","id":7,"value":"ann@intranet"}"#, &["ann@intranet"]);
    in_every_way(
        r#"[{"name":"first_name","value":"xyzzy"},{"name":"plan","value":"Pro"}]"#,
        &["xyzzy"],
    );
    in_every_way(
        r#"[{"name":"size","value":"XL"},{"key":"phone","value":"iPhone 15"}]"#,
        &[],
    );
}

#[test]
fn keys_over_objects_and_lists() {
    in_every_way(
        r#"{"phone":{"home":"5550199","work":"5550198"}}"#,
        &["5550199", "5550198"],
    );
    in_every_way(
        r#"{"email":["ann@intranet","bo@intranet"]}"#,
        &["ann@intranet", "bo@intranet"],
    );
    in_every_way(
        r#"{"id":1,"name":{"first":"xyzzy","last":"plugh"}}"#,
        &["xyzzy", "plugh"],
    );
    check(
        "{ phone: { home: '5550199' }, email: [ 'ann@intranet' ] }",
        &["5550199", "ann@intranet"],
    );
    check(
        "Customer {\n  phone: Phones { home: '5550199', at: [Date] },\n  born: datetime.date(1980, 5, 1),\n  tags: [Array]\n}",
        &["5550199", "datetime.date(1980, 5, 1)"],
    );
    in_every_way(
        r#"{"phone":{"type":"string","pattern":"[0-9]+"},"email":{"format":"email"}}"#,
        &[],
    );
    in_every_way(
        r#"{"password":{"min":12,"rules":["digit","sign"]},"addr":[0,0,0,0]}"#,
        &[],
    );
}

#[test]
fn rows_under_columns() {
    let rows = r#"{"columns":["id","name","phone"],"rows":[[1,"xyzzy","5550199"],[2,"plugh",null]]}"#;
    in_every_way(rows, &["xyzzy", "5550199", "plugh"]);
    check(
        "{'columns': ['id', 'customer'], 'rows': [(1, 'xyzzy'), (2, 'plugh')]}",
        &["xyzzy", "plugh"],
    );
    check("[ [ 'customer', 'total' ], [ 'xyzzy', 4 ] ]", &["xyzzy"]);
    in_every_way(r#"{"columns":["id","name","size"],"rows":[[1,"react",10]]}"#, &[]);
    check("[('name', 'x'), ('customer', 'y')]", &[]);
}

#[test]
fn what_is_no_structure_hides_nothing_and_what_is_whole_in_it_does() {
    check(
        "[1], {x} and [see](https://x.example/a?b=c) [[ -f x ]] {{ phone }} [a: b",
        &[],
    );
    check("if (a[0] == '[') { phone: {", &[]);
    check(
        "[note {\"a\": 1, \"phone\": {\"home\": \"5550199\"}} oops",
        &["5550199"],
    );
    let deep = format!("{}{{\"phone\":{{\"home\":\"5550199\"}}}}", "[".repeat(100_000));
    check(&deep, &["5550199"]);
}

#[test]
fn so_many_values_are_read_and_no_more() {
    let text = format!("[{}", "1,".repeat(MAX_VALUES + 1000));
    let read = parse_structures(&text);
    let [PrintedNode::List(items)] = read.as_slice() else {
        panic!("one list");
    };
    assert_eq!(items.len(), MAX_VALUES);
}
