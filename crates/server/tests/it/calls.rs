//! Upstream tools that are exposed one by one.

use serde_json::json;

use crate::setting::Setting;

#[tokio::test]
async fn chosen_tools_are_passed_through_under_the_same_policy() {
    let setting = Setting::with_tools(&["small.*"]).await;
    let mut client = setting.client().await;
    let listed = client.ask("tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<_> = tools
        .iter()
        .skip(7)
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["small__fail", "small__hello", "small__much", "small__slow"]);
    let hello = &tools[8];
    assert_eq!(hello["inputSchema"]["properties"]["name"]["type"], "string");
    assert_eq!(hello["outputSchema"]["properties"]["greeting"]["type"], "string");

    let result = client.call("small__hello", json!({ "name": "Ada" })).await;
    assert_eq!(result["structuredContent"], json!({ "greeting": "hello Ada" }));
    assert_eq!(
        (&result["isError"], &result["content"][0]["text"]),
        (&json!(false), &json!("{\"greeting\":\"hello Ada\"}"))
    );

    let failed = client.call("small__fail", json!({})).await;
    assert_eq!(failed["isError"], true);
    assert!(
        failed["content"][0]["text"].as_str().unwrap().contains("no luck today"),
        "{failed}"
    );

    let much = client.call("small__much", json!({})).await;
    assert_eq!(much["isError"], false);
    assert!(much.to_string().len() < 34 * 1024, "{}", much.to_string().len());
    let uri = much["content"][1]["uri"].as_str().unwrap();
    let read = client.ask("resources/read", json!({ "uri": uri })).await;
    assert_eq!(read["result"]["contents"][0]["text"].as_str().unwrap().len(), 100_002);

    let denied = client
        .ask("tools/call", json!({ "name": "small__delete_all", "arguments": {} }))
        .await;
    assert_eq!(denied["error"]["code"], -32602, "{denied}");
}

#[tokio::test]
async fn a_call_that_is_cancelled_ends() {
    let setting = Setting::with_tools(&["small.slow"]).await;
    let mut client = setting.client().await;
    let request = client
        .begin("tools/call", json!({ "name": "small__slow", "arguments": {} }))
        .await;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let cancelled =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": request } });
    client.send(&cancelled).await;
    let begun = std::time::Instant::now();
    assert!(client.ended().await.is_ok());
    assert!(
        begun.elapsed() < std::time::Duration::from_secs(8),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn order_and_rates_hold_for_all_executions_of_a_session() {
    let setting = Setting::ruled(
        "[{ allow: small.hello, rate: 2/h }, { allow: small.much }, { deny: small.much, after: small.hello }]",
    )
    .await;
    let mut client = setting.client().await;
    let code = "const code = (call) => call.then(() => 'ok', (error) => error.code);\n\
        [await code(tools.small.much({})), await code(tools.small.hello({})), await code(tools.small.much({}))]";
    let run = |session: &str| json!({ "language": "javascript", "code": code, "session_id": session });
    let first = client.call("sandboxed_code_run", run("work")).await;
    let first = &first["structuredContent"];
    assert_eq!(first["value"], json!(["ok", "ok", "policy.denied"]), "{first}");
    let second = client.call("sandboxed_code_run", run("work")).await;
    let second = &second["structuredContent"];
    assert_eq!(second["session_id"], first["session_id"]);
    assert_eq!(
        second["value"],
        json!(["policy.denied", "ok", "policy.denied"]),
        "{second}"
    );
    let third = client.call("sandboxed_code_run", run("work")).await;
    let value = &third["structuredContent"]["value"];
    assert_eq!(
        value,
        &json!(["policy.denied", "limit.rate", "policy.denied"]),
        "{third}"
    );
    // For comparison, another session starts anew.
    let other = client.call("sandboxed_code_run", run("other")).await;
    let value = &other["structuredContent"]["value"];
    assert_eq!(value, &json!(["ok", "ok", "policy.denied"]), "{other}");
}
