use rmcp::model::{CallToolRequest, CallToolRequestParams, ListToolsRequest};

use super::*;

fn calls() -> SentCalls {
    let calls = SentCalls::default();
    let call = CallToolRequest::new(CallToolRequestParams::new("echo"));
    calls.note_call(&JsonRpcRequest::new(
        NumberOrString::Number(7),
        ClientRequest::CallToolRequest(call),
    ));
    calls.note_call(&JsonRpcRequest::new(
        NumberOrString::Number(8),
        ClientRequest::ListToolsRequest(ListToolsRequest::default()),
    ));
    calls
}

#[test]
fn what_is_read_in_one_go_is_what_the_library_reads() {
    for result in [
        r#"{"content":[{"type":"text","text":"a\u00e9"}]}"#,
        r#"{"content":[],"isError":true,"resultType":"complete"}"#,
        r#"{"structuredContent":{"n":12345678901234567890,"deep":[[[{"x":null}]]]},"content":[{"type":"image","data":"","mimeType":"image/png"}]}"#,
        r#"{"structuredContent":null,"_meta":{"a":1},"unknown":2}"#,
    ] {
        for line in [
            format!(r#"{{"jsonrpc":"2.0","id":7,"result":{result}}}"#),
            format!(r#" {{"result" : {result}, "more": 1, "id": 7, "jsonrpc":"2.0"}}"#),
        ] {
            let library: ServerJsonRpcMessage = serde_json::from_str(&line).unwrap();
            let quick = calls().parse_answer(line.as_bytes()).unwrap();
            assert_eq!(format!("{quick:?}"), format!("{library:?}"), "{line}");
        }
    }
}

#[test]
fn anything_else_is_left_to_the_library() {
    let result = r#""result":{"content":[]}"#;
    for line in [
        format!(r#"{{"jsonrpc":"2.0","id":8,{result}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":"7",{result}}}"#),
        format!(r#"{{"jsonrpc":"2.0",{result}}}"#),
        format!(r#"{{"jsonrpc":"1.0","id":7,{result}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":7,"error":null,{result}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":7,"method":"ping",{result}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":7,"id":7,{result}}}"#),
        r#"{"jsonrpc":"2.0","id":7,"result":{"resultType":"input_required","content":[]}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":7,"result":{}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"no"}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":7,"result":{"content":["#.to_owned(),
    ] {
        assert!(calls().parse_answer(line.as_bytes()).is_none(), "{line}");
    }
}

#[test]
fn an_answer_counts_once_and_calls_without_one_do_not_add_up() {
    let calls = calls();
    let line = br#"{"jsonrpc":"2.0","id":7,"result":{"content":[]}}"#;
    assert!(calls.parse_answer(line).is_some());
    assert!(calls.parse_answer(line).is_none());
    for number in 0..3 * MAX_NOTED_CALLS {
        let call = CallToolRequest::new(CallToolRequestParams::new("echo"));
        let number = NumberOrString::Number(i64::try_from(number).unwrap());
        calls.note_call(&JsonRpcRequest::new(number, ClientRequest::CallToolRequest(call)));
        assert!(calls.numbers().len() <= MAX_NOTED_CALLS);
    }
}
