use ringfence_journal::ExecutionId;
use serde_json::{Map, Value, json};

use super::{MAX_ANSWER_BYTES, truncate_execution, truncate_tools};

fn fitted(mut given: Value) -> (Map<String, Value>, String) {
    let id = ExecutionId::generate().unwrap();
    given["truncated"] = json!({ "stdout": false, "stderr": false, "value": false });
    let mut object = given.as_object().unwrap().clone();
    truncate_execution(&mut object, id, MAX_ANSWER_BYTES);
    assert!(
        Value::Object(object.clone()).to_string().len() <= MAX_ANSWER_BYTES,
        "too long"
    );
    (object, id.to_string())
}

#[test]
fn what_is_short_stays_as_it_is() {
    let (object, _) = fitted(json!({ "value": [1, 2], "stdout": "hello\n", "stderr": "", "calls": [], "files": [] }));
    assert_eq!(
        Value::Object(object),
        json!({
            "value": [1, 2], "stdout": "hello\n", "stderr": "", "calls": [], "files": [],
            "truncated": { "stdout": false, "stderr": false, "value": false },
        })
    );
}

#[test]
fn long_output_keeps_both_ends_and_says_where_the_rest_is() {
    let stdout = format!("first\n{}last\n", "line\n".repeat(40_000));
    let (object, id) = fitted(json!({ "value": 7, "stdout": stdout, "stderr": "short" }));
    let shown = object["stdout"].as_str().unwrap();
    assert!(shown.starts_with("first\n") && shown.ends_with("last\n") && shown.contains(" bytes left out …"));
    assert!(shown.len() > 20_000, "{}", shown.len());
    assert_eq!(object["stderr"], "short");
    assert_eq!(object["value"], 7);
    assert_eq!(
        object["truncated"],
        json!({ "stdout": true, "stderr": false, "value": false })
    );
    let uri = format!("ringfence://executions/{id}/stdout");
    assert_eq!(object["links"], json!({ "stdout": uri }));
    let notice = object["notices"][0].as_str().unwrap();
    assert_eq!(
        notice,
        format!("stdout: cut from 200011 bytes; all of it is at {uri}, or return less")
    );
}

#[test]
fn a_long_value_is_shown_beside_and_never_in_part() {
    let (object, id) = fitted(json!({ "value": vec!["row"; 20_000], "stdout": "", "stderr": "" }));
    assert_eq!(object["value"], Value::Null);
    assert!(object["value_begins"].as_str().unwrap().starts_with("[\"row\",\"row\""));
    assert_eq!(object["truncated"]["value"], true);
    assert_eq!(object["links"]["value"], format!("ringfence://executions/{id}/value"));
}

#[test]
fn what_grows_when_written_is_counted_as_written() {
    let nasty = "\u{1}\"\\é".repeat(30_000);
    fitted(json!({ "value": nasty, "stdout": nasty, "stderr": nasty }));
}

#[test]
fn long_lists_are_cut_and_counted() {
    let calls: Vec<_> = (0..1000)
        .map(|n| json!({ "number": n, "tool": "github.list_issues", "outcome": "ok" }))
        .collect();
    let files: Vec<_> = (0..300)
        .map(|n| json!({ "path": format!("{}/{n}", "d".repeat(500)) }))
        .collect();
    let (object, id) =
        fitted(json!({ "value": null, "stdout": "x".repeat(90_000), "stderr": "", "calls": calls, "files": files }));
    let kept = object["calls"].as_array().unwrap().len();
    assert!((20..200).contains(&kept), "{kept}");
    assert_eq!(object["notices"][0], format!("calls: {} left out", 1000 - kept));
    assert_eq!(
        object["links"]["files"],
        format!("ringfence://executions/{id}/files/{{path}}")
    );
}

#[test]
fn a_long_error_is_cut() {
    let error = json!({ "code": "program.failed", "message": "m".repeat(100_000), "hint": null, "rule": null });
    let (object, _) = fitted(json!({ "value": null, "stdout": "", "stderr": "", "error": error }));
    assert!(object["error"]["message"].as_str().unwrap().len() <= 4096 + 64);
}

#[test]
fn tools_that_are_too_much_for_one_answer_are_named() {
    let tool = |number: usize| json!({ "name": format!("a.t{number}"), "stub": "x".repeat(4000) });
    let many: Vec<_> = (0..20).map(tool).collect();
    let mut described = json!({ "tools": many, "hidden_by_policy": 0 })
        .as_object()
        .unwrap()
        .clone();
    truncate_tools(&mut described, MAX_ANSWER_BYTES);
    assert!(Value::Object(described.clone()).to_string().len() <= MAX_ANSWER_BYTES);
    assert_eq!(described["tools"].as_array().unwrap().len(), 7);
    let notice = described["notices"][0].as_str().unwrap();
    assert!(
        notice.contains("short: a.t7, a.t8,") && notice.contains("a.t19; ask for fewer"),
        "{notice}"
    );
    let slots: Vec<_> = (0..20).map(tool).collect();
    let intents = json!([{ "intent": "one", "slots": slots }, { "intent": "two", "slots": [tool(99)] }]);
    let mut found = json!({ "intents": intents }).as_object().unwrap().clone();
    truncate_tools(&mut found, MAX_ANSWER_BYTES);
    assert!(Value::Object(found.clone()).to_string().len() <= MAX_ANSWER_BYTES);
    assert_eq!(found["intents"][1]["slots"].as_array().unwrap().len(), 1);
    let mut short = json!({ "tools": [tool(1)] }).as_object().unwrap().clone();
    truncate_tools(&mut short, MAX_ANSWER_BYTES);
    assert!(!short.contains_key("notices"));
}
