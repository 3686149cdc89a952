use serde_json::json;

use super::*;

fn errors(kind: CheckerKind, source: &str, items: &Value) -> Vec<TypeErrorLocation> {
    let report: DiagnosticReport = serde_json::from_value(json!({ "kind": "full", "items": items })).unwrap();
    report.errors(kind, "main", source)
}

fn item(line: u32, character: u32, severity: u32, code: &Value, message: &str) -> Value {
    let at = json!({ "line": line, "character": character });
    json!({ "range": { "start": at, "end": at }, "severity": severity, "code": code, "message": message })
}

#[test]
fn errors_only_in_order_and_in_characters() {
    let items = json!([
        item(1, 3, 1, &json!(2322), "b\u{7}ad"),
        item(0, 0, 4, &json!(6133), "unused"),
        item(0, 1, 2, &json!(1), "warning"),
        item(0, 9, 1, &json!(7006), "implicitly any"),
        item(0, 3, 1, &json!(2304), "first"),
    ]);
    let found = errors(CheckerKind::TypeScript, "x😀y\né😀z", &items);
    let expected = [(1, 3, "TS2304", "first"), (2, 3, "TS2322", "bad")];
    let seen: Vec<_> = found
        .iter()
        .map(|one| (one.line, one.column, one.code.as_str(), one.message.as_str()))
        .collect();
    assert_eq!(seen, expected);
}

#[test]
fn a_program_in_python_may_await_anywhere_and_import_what_is_not_known_here() {
    let items = json!([
        item(
            0,
            0,
            1,
            &json!("invalid-syntax"),
            "`await` outside of an asynchronous function"
        ),
        item(
            0,
            0,
            1,
            &json!("import-not-found"),
            "Cannot resolve imported module `numpy`\n\ninfo: Searched in /x"
        ),
        item(
            1,
            0,
            1,
            &json!("import-not-found"),
            "Module `tools` has no member `x`\n\ninfo: Searched in /x"
        ),
        item(2, 0, 1, &json!("invalid-syntax"), "Expected an expression"),
    ]);
    let found = errors(CheckerKind::Python, "", &items);
    let seen: Vec<_> = found
        .iter()
        .map(|one| (one.code.as_str(), one.message.as_str()))
        .collect();
    let expected = [
        ("import-not-found", "Module `tools` has no member `x`"),
        ("invalid-syntax", "Expected an expression"),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn many_and_long_errors_are_cut_and_far_places_do_no_harm() {
    let items: Vec<Value> = (0..500)
        .map(|_| item(u32::MAX, u32::MAX, 1, &json!(null), &"é".repeat(5000)))
        .collect();
    let found = errors(CheckerKind::TypeScript, "", &json!(items));
    assert_eq!(found.len(), MAX_ERRORS);
    assert!(
        found
            .iter()
            .all(|one| one.line == u32::MAX && one.message.len() <= MAX_MESSAGE_BYTES + '…'.len_utf8())
    );
}
