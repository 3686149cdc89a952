use super::*;

#[track_caller]
fn check(line: &str, number: Option<i64>) {
    assert_eq!(answered_request_id(line.as_bytes()), number, "{line}");
}

#[test]
fn the_number_of_an_unreadable_answer_is_found() {
    check(r#"{"id":7,"result":[]}"#, Some(7));
    check(r#"{"jsonrpc":"2.0","id":7,"result":"cut off"#, Some(7));
    check(r#"{"result":{"id":3,"x":"cut},"jsonrpc":"2.0","id":9}"#, Some(9));
    check(r#"{"result":{"id":3"#, None);
    check(r#"{"id":7,"method":"ping"}"#, None);
    check("nothing", None);
}

#[tokio::test]
async fn a_message_that_is_too_long_fails_its_call_and_the_next_is_read() {
    let long = format!(
        "{{\"result\":\"{}\",\"jsonrpc\":\"2.0\",\"id\":4}}\n",
        "x".repeat(MAX_LINE_BYTES)
    );
    let text = format!("{long}{{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{{}}}}\n");
    let (mut lines, fault) = LineTransport::new(text.as_bytes(), tokio::io::sink());
    let first = lines.receive().await.unwrap();
    let ServerJsonRpcMessage::Error(error) = first else {
        panic!("{first:?}")
    };
    assert_eq!(
        (error.id, error.error.message.as_ref()),
        (Some(NumberOrString::Number(4)), crate::call_result::TOO_LONG)
    );
    assert!(matches!(lines.receive().await, Some(ServerJsonRpcMessage::Response(_))));
    assert!(lines.receive().await.is_none());
    assert_eq!(fault.fault(), None);
}
