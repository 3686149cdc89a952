//! Two principals never see each other's.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use ringfence_journal::{Principal, TokenId};
use ringfence_server::{Endpoint, EndpointOptions};
use serde_json::{Value, json};

use crate::setting::{ME, Setting};

#[tokio::test]
async fn runs_sessions_and_outputs_are_their_owners() {
    let setting = Setting::new().await;
    let mut mine = setting.client().await;
    let mut other = setting.client_of(Principal::Token(TokenId::generate().unwrap())).await;
    let run = json!({ "language": "shell", "code": "seq 30000; echo secret > s.txt", "session_id": "work" });
    let done = mine.call("sandboxed_code_run", run).await["structuredContent"].clone();
    let id = done["execution_id"].as_str().unwrap();
    let waited = other.call("wait_run", json!({ "execution_id": id })).await;
    assert_eq!(waited["structuredContent"]["error"]["code"], "execution.unknown");
    for uri in [
        format!("ringfence://executions/{id}/stdout"),
        format!("ringfence://executions/{id}/files/s.txt"),
    ] {
        assert!(mine.ask("resources/read", json!({ "uri": uri })).await["result"].is_object());
        let stolen = other.ask("resources/read", json!({ "uri": uri })).await;
        assert_eq!(stolen["error"]["code"], -32002, "{stolen}");
    }
    let look = |session: &Value| json!({ "language": "shell", "code": "ls", "session_id": session });
    let by_name = other.call("sandboxed_code_run", look(&json!("work"))).await;
    assert_eq!(by_name["structuredContent"]["stdout"], "");
    let by_id = other.call("sandboxed_code_run", look(&done["session_id"])).await;
    assert_eq!(by_id["structuredContent"]["error"]["code"], "session.unknown");
}

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

#[tokio::test]
async fn a_conversation_over_http_belongs_to_whoever_began_it() {
    let setting = Setting::new().await;
    let endpoint = Arc::new(Endpoint::new(&setting.mcp, EndpointOptions::default()));
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
    } });
    assert_eq!(endpoint.handle(post(None, None, &hello)).await.status(), 401);
    let began = endpoint.handle(post(Some(ME), None, &hello)).await;
    assert_eq!(began.status(), 200);
    let session = began.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    assert!(text(began).await.contains("\"ringfence\""));
    let greeted = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(
        endpoint.handle(post(Some(ME), Some(&session), &greeted)).await.status(),
        202
    );
    let run = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "sandboxed_code_run", "arguments": { "language": "ts", "code": "40 + 2" },
    } });
    let ran = endpoint.handle(post(Some(ME), Some(&session), &run)).await;
    assert!(text(ran).await.contains("\"value\":42"));
    let other = Principal::Local(2);
    assert_eq!(
        endpoint.handle(post(Some(other), Some(&session), &run)).await.status(),
        404
    );
    let mut stolen = post(Some(other), Some(&session), &run);
    *stolen.method_mut() = http::Method::GET;
    assert_eq!(endpoint.handle(stolen).await.status(), 404);
    let mut ended = post(Some(other), Some(&session), &run);
    *ended.method_mut() = http::Method::DELETE;
    assert_eq!(endpoint.handle(ended).await.status(), 404);
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
