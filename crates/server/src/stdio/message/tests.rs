use rmcp::model::{ErrorCode, RequestId};

use super::{ParsedMessage, parse_message, too_long};
use crate::json_limits::MAX_JSON_VALUES;

#[track_caller]
fn wrong(line: &str, code: ErrorCode, id: Option<RequestId>) {
    match parse_message(line.as_bytes()) {
        ParsedMessage::Invalid(error, found) => assert_eq!((error.code, found), (code, id), "{line}"),
        other @ (ParsedMessage::Message(_) | ParsedMessage::Nothing) => panic!("{line}: {other:?}"),
    }
}

#[test]
fn what_is_no_message_is_told_so() {
    wrong("{", ErrorCode::PARSE_ERROR, None);
    wrong("nonsense", ErrorCode::PARSE_ERROR, None);
    wrong(&"[".repeat(200), ErrorCode::PARSE_ERROR, None);
    wrong("[]", ErrorCode::INVALID_REQUEST, None);
    wrong("7", ErrorCode::INVALID_REQUEST, None);
    wrong(r#"{"id":7}"#, ErrorCode::INVALID_REQUEST, Some(RequestId::Number(7)));
    wrong(
        r#"{"jsonrpc":"1.0","id":"a","method":"ping"}"#,
        ErrorCode::INVALID_REQUEST,
        Some(RequestId::String("a".into())),
    );
    wrong("{\"a\":\"\u{0}\"}", ErrorCode::PARSE_ERROR, None);
}

#[test]
fn what_wants_no_answer_gets_none() {
    for line in ["", "   ", "\r", r#"{"jsonrpc":"2.0","method":3}"#] {
        assert!(
            matches!(parse_message(line.as_bytes()), ParsedMessage::Nothing),
            "{line}"
        );
    }
}

#[test]
fn messages_are_read() {
    for line in [
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
        "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"no/such\",\"params\":{}}\r",
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    ] {
        assert!(
            matches!(parse_message(line.as_bytes()), ParsedMessage::Message(_)),
            "{line}"
        );
    }
}

#[test]
fn a_small_line_never_becomes_a_large_tree() {
    let many = vec!["[]"; MAX_JSON_VALUES].join(",");
    let line = format!(r#"{{"jsonrpc":"2.0","id":4,"method":"ping","params":{{"a":[{many}]}}}}"#);
    wrong(&line, ErrorCode::INVALID_REQUEST, Some(RequestId::Number(4)));
    let text = format!(r#"{{"jsonrpc":"2.0","id":4,"method":"ping","params":{{"a":"\"{many}"}}}}"#);
    assert!(matches!(parse_message(text.as_bytes()), ParsedMessage::Message(_)));
}

#[test]
fn the_id_of_a_message_that_is_too_long_is_found_at_either_end() {
    let id = |head: &str, tail: &str| too_long(head.as_bytes(), tail.as_bytes(), 10).1;
    let number = Some(RequestId::Number(12));
    assert_eq!(
        id(r#"{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"#, "…"),
        number
    );
    assert_eq!(
        id(
            r#"{"method":"tools/call","params":{"id":"#,
            r#"…"},"jsonrpc":"2.0","id":12}"#
        ),
        number
    );
    assert_eq!(id("xxxxxxxx", "xxxxxxx"), None);
}
