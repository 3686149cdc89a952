use serde_json::{Value, json};

use super::parse_files;

#[track_caller]
fn check(given: Value, expected: &[(&str, &str)]) {
    let files = parse_files(given).unwrap();
    let files: Vec<_> = files
        .iter()
        .map(|(path, bytes)| (path.as_str(), std::str::from_utf8(bytes).unwrap()))
        .collect();
    assert_eq!(files, expected);
}

#[test]
fn files_come_in_several_shapes() {
    check(
        json!({ "a.txt": "one", "d/b": { "base64": "dHdv" } }),
        &[("a.txt", "one"), ("d/b", "two")],
    );
    check(
        json!([{ "path": "a.txt", "text": "one" }, { "name": "b", "base64": "dH\ndv\n" }]),
        &[("a.txt", "one"), ("b", "two")],
    );
    check(json!([{ "path": "/workspace/a", "content": "one" }]), &[("a", "one")]);
    check(json!({ "./a": { "base64": "dHc" } }), &[("a", "tw")]);
}

#[test]
fn what_is_no_file_is_refused() {
    for given in [
        json!("a"),
        json!({ "../a": "one" }),
        json!({ "/etc/passwd": "one" }),
        json!({ "a": 1 }),
        json!({ "a": { "base64": "!" } }),
        json!([{ "text": "one" }]),
        json!([1]),
    ] {
        assert_eq!(
            parse_files(given.clone()).unwrap_err().code,
            "arguments.invalid",
            "{given}"
        );
    }
}
