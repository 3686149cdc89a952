//! The endpoint for HTTP: MCP sessions and their owners, refused requests, and how a run ends.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use ringfence_journal::Principal;
use ringfence_server::{Endpoint, EndpointOptions};
use serde_json::{Value, json};

use crate::setting::{ME, Setting};

fn post(who: Option<Principal>, session: Option<&str>, body: &Value) -> Request<Full<Bytes>> {
    let mut request = Request::post("http://localhost/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    if let Some(session) = session {
        request = request.header("mcp-session-id", session);
    }
    let mut request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
    if let Some(who) = who {
        request.extensions_mut().insert(who);
    }
    request
}

async fn text(response: Response<BoxBody<Bytes, std::convert::Infallible>>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Opens an MCP session of the older era and returns its id.
async fn begun(endpoint: &Endpoint, who: Principal) -> String {
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
    } });
    let began = endpoint.handle(post(Some(who), None, &hello)).await;
    assert_eq!(began.status(), 200);
    let session = began.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    assert!(text(began).await.contains("\"ringfence\""));
    let greeted = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(
        endpoint
            .handle(post(Some(who), Some(&session), &greeted))
            .await
            .status(),
        202
    );
    session
}

fn run(language: &str, code: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "sandboxed_code_run", "arguments": { "language": language, "code": code },
    } })
}

#[tokio::test]
async fn a_conversation_over_http_belongs_to_whoever_began_it() {
    let setting = Setting::new().await;
    let endpoint = Endpoint::new(&setting.mcp, EndpointOptions::default());
    let run = run("ts", "40 + 2");
    assert_eq!(endpoint.handle(post(None, None, &run)).await.status(), 401);
    let session = begun(&endpoint, ME).await;
    let ran = endpoint.handle(post(Some(ME), Some(&session), &run)).await;
    assert!(text(ran).await.contains("\"value\":42"));
    let other = Principal::Local(2);
    for method in [http::Method::POST, http::Method::GET, http::Method::DELETE] {
        let mut stolen = post(Some(other), Some(&session), &run);
        *stolen.method_mut() = method;
        assert_eq!(endpoint.handle(stolen).await.status(), 404);
    }
}

#[tokio::test]
async fn a_cancelled_request_of_the_older_era_kills_its_run() {
    let setting = Setting::new().await;
    let endpoint = Endpoint::new(&setting.mcp, EndpointOptions::default());
    let session = begun(&endpoint, ME).await;
    let request = post(Some(ME), Some(&session), &run("shell", "sleep 25"));
    let asking = endpoint.clone();
    let handling = tokio::spawn(async move { text(asking.handle(request).await).await });
    let id = crate::runs::running(&setting).await;
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 2 } });
    assert_eq!(
        endpoint.handle(post(Some(ME), Some(&session), &cancel)).await.status(),
        202
    );
    assert_eq!(crate::runs::status(&setting, &id).await, "cancelled");
    handling.abort();
}

#[tokio::test]
async fn a_conversation_that_is_ended_ends_its_runs() {
    let setting = Setting::new().await;
    let endpoint = Endpoint::new(&setting.mcp, EndpointOptions::default());
    let session = begun(&endpoint, ME).await;
    let request = post(Some(ME), Some(&session), &run("shell", "sleep 25"));
    let asking = endpoint.clone();
    let handling = tokio::spawn(async move { text(asking.handle(request).await).await });
    let id = crate::runs::running(&setting).await;
    let mut end = post(Some(ME), Some(&session), &json!({}));
    *end.method_mut() = http::Method::DELETE;
    assert!(endpoint.handle(end).await.status().is_success());
    assert_eq!(crate::runs::status(&setting, &id).await, "cancelled");
    assert_eq!(
        endpoint
            .handle(post(Some(ME), Some(&session), &run("ts", "1")))
            .await
            .status(),
        404
    );
    handling.abort();
}

#[tokio::test]
async fn a_foreign_host_or_origin_is_refused() {
    let setting = Setting::new().await;
    let endpoint = Endpoint::new(&setting.mcp, EndpointOptions::default());
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    for (header, value) in [
        ("host", "evil.example"),
        ("origin", "http://evil.example"),
        ("origin", "null"),
    ] {
        let mut request = post(Some(ME), None, &hello);
        request
            .headers_mut()
            .insert(header, http::HeaderValue::from_static(value));
        assert_eq!(endpoint.handle(request).await.status(), 403, "{header}: {value}");
    }
}

#[tokio::test]
async fn a_run_over_http_ends_when_its_stream_is_closed() {
    let setting = Setting::new().await;
    let endpoint = Endpoint::new(&setting.mcp, EndpointOptions::default());
    let run = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "sandboxed_code_run", "arguments": { "language": "shell", "code": "sleep 25", "session_id": "long" },
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
        },
    } });
    let mut request = post(Some(ME), None, &run);
    for (header, value) in [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "sandboxed_code_run"),
    ] {
        request
            .headers_mut()
            .insert(header, http::HeaderValue::from_static(value));
    }
    let handling = tokio::spawn(async move { endpoint.handle(request).await.status() });
    let id = crate::runs::running(&setting).await;
    handling.abort();
    assert_eq!(crate::runs::status(&setting, &id).await, "cancelled");
}

#[tokio::test]
async fn a_request_that_is_too_long_or_too_heavy_is_not_read() {
    let setting = Setting::new().await;
    let endpoint = Endpoint::new(&setting.mcp, EndpointOptions::default());
    let long = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping", "params": { "x": "x".repeat(5_000_000) } });
    assert_eq!(endpoint.handle(post(Some(ME), None, &long)).await.status(), 413);
    let heavy = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping", "params": { "x": vec![0; 300_000] } });
    let refused = endpoint.handle(post(Some(ME), None, &heavy)).await;
    assert_eq!(refused.status(), 400);
    assert!(text(refused).await.contains("250000 values"));
}

#[tokio::test]
async fn of_too_many_conversations_the_oldest_gives_way() {
    let setting = Setting::new().await;
    let endpoint = Endpoint::new(&setting.mcp, EndpointOptions::default());
    let other = begun(&endpoint, Principal::Local(2)).await;
    let mut ids = Vec::new();
    for _ in 0..130 {
        ids.push(begun(&endpoint, ME).await);
    }
    let ping = json!({ "jsonrpc": "2.0", "id": 3, "method": "ping" });
    let status = async |who, id: &str| endpoint.handle(post(Some(who), Some(id), &ping)).await.status();
    assert_eq!(status(ME, &ids[0]).await, 404);
    assert_eq!(status(ME, &ids[129]).await, 200);
    assert_eq!(status(Principal::Local(2), &other).await, 200);
}
