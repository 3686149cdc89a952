//! Real conversations over a pipe, in both eras of the protocol.

use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::service::{RoleClient, RunningService};
use rmcp::{ClientLifecycleMode, ClientServiceExt, ServiceExt};
use serde_json::{Value, json};

use super::CompanyServer;
use crate::tool::definitions;

async fn connect(mode: ClientLifecycleMode) -> RunningService<RoleClient, ()> {
    let (near, far) = tokio::io::duplex(64 * 1024);
    tokio::spawn(async move {
        let running = CompanyServer::default().serve(far).await.unwrap();
        running.waiting().await.unwrap();
    });
    ().serve_with_lifecycle(near, mode).await.unwrap()
}

fn eras() -> [ClientLifecycleMode; 2] {
    [
        ClientLifecycleMode::Initialize,
        ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        },
    ]
}

fn call(name: &str, arguments: &Value) -> CallToolRequestParams {
    CallToolRequestParams::new(name.to_owned()).with_arguments(arguments.as_object().unwrap().clone())
}

#[tokio::test]
async fn all_tools_arrive_over_several_pages() {
    for mode in eras() {
        let client = connect(mode).await;
        let first = client.list_tools(None).await.unwrap();
        assert!(first.next_cursor.is_some());
        let tools = client.list_all_tools().await.unwrap();
        let values: Vec<_> = tools.iter().map(|tool| serde_json::to_value(tool).unwrap()).collect();
        assert_eq!(values, definitions());
        client.cancel().await.unwrap();
    }
}

#[tokio::test]
async fn an_answer_is_structured_and_says_the_same_as_text() {
    for mode in eras() {
        let client = connect(mode).await;
        let result = client
            .call_tool(call("get_order", &json!({ "id": "ORD-0042" })))
            .await
            .unwrap();
        let structured = result.structured_content.unwrap();
        assert_eq!(structured["id"], "ORD-0042");
        let text: Value = serde_json::from_str(&result.content[0].as_text().unwrap().text).unwrap();
        assert_eq!(text, structured);
        client.cancel().await.unwrap();
    }
}

#[tokio::test]
async fn refusals_are_results_and_unknown_tools_are_errors() {
    for mode in eras() {
        let client = connect(mode).await;
        let result = client
            .call_tool(call("get_order", &json!({ "id": "ORD-9999" })))
            .await
            .unwrap();
        assert_eq!(result.is_error, Some(true));
        assert!(
            result.content[0]
                .as_text()
                .unwrap()
                .text
                .starts_with("no order `ORD-9999`")
        );
        let error = client.call_tool(call("get_odrer", &json!({}))).await.unwrap_err();
        assert!(error.to_string().contains("did you mean `get_order`?"), "{error}");
        client.cancel().await.unwrap();
    }
}

#[tokio::test]
async fn calls_at_once_are_all_answered() {
    let client = connect(ClientLifecycleMode::Initialize).await;
    let calls: Vec<_> = (1..=300)
        .map(|number| {
            let peer = client.peer().clone();
            let id = format!("ORD-{number:04}");
            tokio::spawn(async move { (peer.call_tool(call("get_order", &json!({ "id": id }))).await, id) })
        })
        .collect();
    for task in calls {
        let (result, id) = task.await.unwrap();
        assert_eq!(result.unwrap().structured_content.unwrap()["id"], id);
    }
    client.cancel().await.unwrap();
}
