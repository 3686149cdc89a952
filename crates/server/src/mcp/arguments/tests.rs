use std::time::Duration;

use serde_json::{Value, json};

use super::CallArguments;

const KNOWN: &[&str] = &[
    "code",
    "session_id",
    "timeout",
    "intents",
    "language",
    "cancel",
    "limit",
];

fn arguments(given: &Value) -> Result<CallArguments, super::McpFault> {
    let known = KNOWN.iter().map(|name| (*name).to_owned()).collect();
    CallArguments::new(given.as_object().cloned(), known)
}

#[test]
fn an_unknown_argument_is_refused_with_the_nearest() {
    let fault = arguments(&json!({ "session": "a" })).unwrap_err();
    assert_eq!(fault.code, "arguments.unknown");
    assert_eq!(fault.message, "there is no argument `session`");
    assert!(
        fault
            .hint
            .unwrap()
            .starts_with("did you mean `session_id`? known: `code`")
    );
    let fault = arguments(&json!({ "zzzz": 1 })).unwrap_err();
    assert!(fault.hint.unwrap().starts_with("known:"));
}

#[test]
fn lengths_of_time_have_many_spellings() {
    let check = |given: Value, expected: Option<u64>| {
        let length = arguments(&json!({ "timeout": given }))
            .unwrap()
            .take_duration("timeout");
        match expected {
            Some(millis) => assert_eq!(length.unwrap(), Some(Duration::from_millis(millis)), "{given}"),
            None => assert_eq!(length.unwrap_err().code, "arguments.invalid", "{given}"),
        }
    };
    check(json!(30), Some(30_000));
    check(json!(0.5), Some(500));
    check(json!("30"), Some(30_000));
    check(json!("30s"), Some(30_000));
    check(json!("2 minutes"), Some(120_000));
    check(json!("250ms"), Some(250));
    check(json!("1h"), Some(3_600_000));
    check(json!(-1), None);
    check(json!("soon"), None);
    check(json!("1 fortnight"), None);
    check(json!([1]), None);
    check(json!(1e300), None);
}

#[test]
fn one_text_is_a_list_of_one() {
    let check = |given: Value, expected: &[&str]| {
        let texts = arguments(&json!({ "intents": given })).unwrap().take_texts("intents");
        assert_eq!(texts.unwrap().unwrap(), expected, "{given}");
    };
    check(json!("send mail"), &["send mail"]);
    check(json!(["a", "b"]), &["a", "b"]);
    check(json!("[\"a\",\"b\"]"), &["a", "b"]);
    let mut wrong = arguments(&json!({ "intents": [1] })).unwrap();
    assert_eq!(wrong.take_texts("intents").unwrap_err().code, "arguments.invalid");
}

#[test]
fn names_are_taken_by_their_spellings() {
    let spellings: &[(&str, &[&str])] = &[("python", &["py"]), ("shell", &["bash", "sh"])];
    let check = |given: &str, expected: Option<&str>| {
        let found = arguments(&json!({ "language": given }))
            .unwrap()
            .take_one_of("language", spellings);
        assert_eq!(found.ok().flatten(), expected, "{given}");
    };
    check("python", Some("python"));
    check("PY", Some("python"));
    check("bash", Some("shell"));
    check("cobol", None);
}

#[test]
fn null_is_absent_and_flags_and_counts_are_read() {
    let mut given = arguments(&json!({ "code": null, "cancel": "true", "limit": "7" })).unwrap();
    assert_eq!(
        given.take_required("code", "say what to run").unwrap_err().code,
        "arguments.missing"
    );
    assert!(given.take_flag("cancel").unwrap());
    assert_eq!(given.take_count("limit").unwrap(), Some(7));
}
