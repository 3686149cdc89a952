//! Discovery by a client: the server's identity, its tools, and the catalog behind them.

use jsonschema::draft202012;
use rmcp::ServiceExt as _;
use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::service::{ClientLifecycleMode, serve_client_with_lifecycle};
use serde_json::{Value, json};

use crate::setting::{ME, Setting};

const NAMES: [&str; 7] = [
    "search_tools",
    "list_tools",
    "describe_tools",
    "sandboxed_code_run",
    "wait_run",
    "save_skill",
    "list_skills",
];

/// Checks a result against the schema of its tool.
fn check_schema(tools: &Value, name: &str, result: &Value) {
    let tool = tools
        .as_array()
        .unwrap()
        .iter()
        .find(|tool| tool["name"] == name)
        .unwrap();
    let schema = draft202012::new(&tool["outputSchema"]).unwrap();
    let errors: Vec<_> = schema
        .iter_errors(&result["structuredContent"])
        .map(|error| error.to_string())
        .collect();
    assert!(errors.is_empty(), "{name}: {errors:?}: {result}");
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(
        text.len() <= result["structuredContent"].to_string().len(),
        "{name}: {text}"
    );
}

#[tokio::test]
async fn tools_are_found_listed_and_described_as_the_policy_shows_them() {
    let setting = Setting::with_tools(&[]).await;
    let mut client = setting.client().await;
    let listed = client.ask("tools/list", json!({})).await;
    let tools = listed["result"]["tools"].clone();
    let names: Vec<_> = tools
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].clone())
        .collect();
    assert_eq!(names, NAMES);
    assert_eq!(client.ask("tools/list", json!({})).await["result"]["tools"], tools);

    let found = client
        .call("search_tools", json!({ "intents": "greet somebody" }))
        .await;
    check_schema(&tools, "search_tools", &found);
    let structured = &found["structuredContent"];
    assert_eq!(structured["intents"][0]["slots"][0]["name"], "small.hello", "{found}");
    assert_eq!(structured["hidden_by_policy"], 1);
    assert!(!found.to_string().contains("delete_all"));
    assert!(
        found["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("- small.hello — Greets somebody by name.")
    );
    let same = client
        .call("search_tools", json!({ "query": "greet somebody", "limit": "3" }))
        .await;
    assert_eq!(
        same["structuredContent"]["intents"][0]["slots"][0]["name"],
        "small.hello"
    );

    let servers = client.call("list_tools", json!({})).await;
    check_schema(&tools, "list_tools", &servers);
    assert_eq!(servers["structuredContent"]["servers"][0]["server"], "small");
    let names = client.call("list_tools", json!({ "server": "small" })).await;
    check_schema(&tools, "list_tools", &names);
    assert_eq!(names["structuredContent"]["tools"].as_array().unwrap().len(), 4);

    let described = client
        .call("describe_tools", json!({ "tools": "small.hello", "language": "py" }))
        .await;
    check_schema(&tools, "describe_tools", &described);
    assert!(
        described["structuredContent"]["tools"][0]["stub"]
            .as_str()
            .unwrap()
            .contains("async def hello")
    );
    let nobody = client
        .call("describe_tools", json!({ "tools": ["small.delete_all"] }))
        .await;
    assert_eq!(nobody["structuredContent"]["tools"], json!([]));

    let code = "const { greeting } = await tools.small.hello({ name: 'you' }); greeting";
    let ran = client
        .call("sandboxed_code_run", json!({ "language": "ts", "code": code }))
        .await;
    check_schema(&tools, "sandboxed_code_run", &ran);
    assert_eq!(ran["structuredContent"]["value"], "hello you", "{ran}");
    assert_eq!(ran["structuredContent"]["calls"][0]["tool"], "small.hello");
    assert!(
        ran["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("calls: small.hello ok")
    );
}

#[tokio::test]
async fn questions_that_are_none_teach() {
    let setting = Setting::with_tools(&[]).await;
    let mut client = setting.client().await;
    for (tool, arguments, code, words) in [
        ("search_tools", json!({}), "tool.arguments", "intent"),
        (
            "search_tools",
            json!({ "intent": "x" }),
            "arguments.unknown",
            "did you mean `intents`?",
        ),
        ("describe_tools", json!({}), "arguments.missing", "search_tools"),
        (
            "describe_tools",
            json!({ "tools": ["a.b"], "detail": "lots" }),
            "arguments.invalid",
            "`signature`",
        ),
        ("list_tools", json!({ "server": "smal" }), "tool.arguments", "small"),
    ] {
        let result = client.call(tool, arguments.clone()).await;
        assert_eq!(result["isError"], true, "{tool} {arguments}");
        let error = &result["structuredContent"]["error"];
        assert_eq!(error["code"], code, "{tool} {arguments}: {error}");
        assert!(error.to_string().contains(words), "{tool} {arguments}: {error}");
    }
    let unknown = client
        .ask("tools/call", json!({ "name": "small.hello", "arguments": {} }))
        .await;
    assert_eq!(unknown["error"]["code"], -32602);
    let message = unknown["error"]["message"].as_str().unwrap();
    assert!(message.contains("await tools.small.hello("), "{message}");
    let near = client.ask("tools/call", json!({ "name": "search_tool" })).await;
    assert!(
        near["error"]["message"].as_str().unwrap().contains("`search_tools`"),
        "{near}"
    );
    let empty = Setting::new().await;
    let none = empty
        .client()
        .await
        .call("search_tools", json!({ "query": "mail" }))
        .await;
    assert_eq!(none["structuredContent"]["error"]["code"], "tools.none");
}

#[tokio::test]
async fn a_real_client_is_served_in_both_eras() {
    let setting = Setting::new().await;
    let modern = ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    };
    for lifecycle in [ClientLifecycleMode::Initialize, modern] {
        let (stream, served) = setting.open(ME);
        let client = serve_client_with_lifecycle((), stream, lifecycle).await.unwrap();
        let tools = client.list_all_tools().await.unwrap();
        assert_eq!(tools.len(), NAMES.len());
        let arguments = json!({ "language": "ts", "code": "1 + 1" })
            .as_object()
            .cloned()
            .unwrap();
        let call = CallToolRequestParams::new("sandboxed_code_run").with_arguments(arguments);
        let result = client.call_tool(call).await.unwrap();
        assert_eq!(result.structured_content.unwrap()["value"], 2);
        client.cancel().await.unwrap();
        served.await.unwrap().unwrap();
    }
    let (stream, _served) = setting.open(ME);
    let client = ().serve(stream).await.unwrap();
    let instructions = client.peer_info().unwrap().instructions.clone().unwrap();
    assert!(instructions.contains("sandboxed_code_run with language shell"));
}
