//! Runs as tasks, for clients that offer them.

use serde_json::{Value, json};

use crate::client::Client;
use crate::setting::{ME, Setting};

/// The metadata of a request in the newer era.
fn meta(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
    })
}

fn tasks() -> Value {
    meta(&json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } }))
}

fn run(code: &str) -> Value {
    json!({ "name": "sandboxed_code_run", "arguments": { "language": "shell", "code": code }, "_meta": tasks() })
}

async fn get(client: &mut Client, id: &Value) -> Value {
    client.ask("tasks/get", json!({ "taskId": id, "_meta": tasks() })).await["result"].clone()
}

#[tokio::test]
async fn a_long_run_is_a_task_that_completes() {
    let setting = Setting::new().await;
    let (stream, served) = setting.open(ME);
    let mut client = Client::new(stream, served);
    let begun = client.ask("tools/call", run("sleep 3; echo done")).await["result"].clone();
    assert_eq!(
        (&begun["resultType"], &begun["status"]),
        (&json!("task"), &json!("working")),
        "{begun}"
    );
    let id = begun["taskId"].clone();
    let working = get(&mut client, &id).await;
    assert_eq!(
        (&working["status"], &working["createdAt"]),
        (&json!("working"), &begun["createdAt"])
    );
    let ended = loop {
        let task = get(&mut client, &id).await;
        if task["status"] != "working" {
            break task;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    };
    assert_eq!(ended["status"], "completed", "{ended}");
    assert_eq!(ended["result"]["structuredContent"]["stdout"], "done\n");
    // A run that ends soon is no task. On a loaded machine not every run ends soon.
    let mut soon = Value::Null;
    for _ in 0..20 {
        soon = client.ask("tools/call", run("echo soon")).await["result"].clone();
        if soon["resultType"] != "task" {
            break;
        }
    }
    assert_eq!(soon["structuredContent"]["stdout"], "soon\n", "{soon}");
}

#[tokio::test]
async fn a_task_can_be_cancelled_and_is_its_owners() {
    let setting = Setting::new().await;
    let (stream, served) = setting.open(ME);
    let mut client = Client::new(stream, served);
    let begun = client.ask("tools/call", run("sleep 25")).await["result"].clone();
    let id = begun["taskId"].clone();
    let (stream, served) = setting.open(ringfence_journal::Principal::Local(2));
    let mut other = Client::new(stream, served);
    let stolen = other.ask("tasks/get", json!({ "taskId": id, "_meta": tasks() })).await;
    assert_eq!(stolen["error"]["code"], -32602);
    let stolen = other
        .ask("tasks/cancel", json!({ "taskId": id, "_meta": tasks() }))
        .await;
    assert_eq!(stolen["error"]["code"], -32602);
    let cancelled = client
        .ask("tasks/cancel", json!({ "taskId": id, "_meta": tasks() }))
        .await;
    assert!(cancelled["result"].is_object(), "{cancelled}");
    while get(&mut client, &id).await["status"] == "working" {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(get(&mut client, &id).await["status"], "cancelled");
}

#[tokio::test]
async fn a_client_without_tasks_is_told_to_wait_instead() {
    let setting = Setting::new().await;
    let (stream, served) = setting.open(ME);
    let mut client = Client::new(stream, served);
    let params = json!({ "taskId": "x_00000000000000000000000000", "_meta": meta(&json!({})) });
    let refused = client.ask("tasks/get", params).await;
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
}

#[tokio::test]
async fn a_subscription_is_acknowledged_at_once_and_does_not_hold_the_end_up() {
    let setting = Setting::new().await;
    let (stream, served) = setting.open(ME);
    let mut client = Client::new(stream, served);
    let params = json!({ "notifications": { "toolsListChanged": true }, "_meta": meta(&json!({})) });
    client.begin("subscriptions/listen", params).await;
    let heard = client.hear().await.unwrap();
    assert_eq!(heard["method"], "notifications/subscriptions/acknowledged", "{heard}");
    let begun = std::time::Instant::now();
    assert!(client.ended().await.is_ok());
    assert!(
        begun.elapsed() < std::time::Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
}
