//! Access to the server: host names, access tokens, scopes.

use std::time::Duration;

use ringfence_engine::storage::AccessScope;
use ringfence_journal::Principal;
use ringfence_server::{ClientAuth, HttpLimits};

use crate::wire::{Reply, send};
use crate::world::World;

const DISCOVER: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;

#[tokio::test]
async fn a_name_that_is_not_ours_is_refused_on_every_path() {
    let world = World::new().await;
    for path in [
        "/healthz",
        "/mcp",
        "/api/v1/runs",
        "/nothing",
        "/.well-known/oauth-protected-resource",
    ] {
        for (headers, code) in [
            (vec![("Host", "evil.example")], "http.host"),
            (vec![("Host", "localhost.evil.example:7411")], "http.host"),
            (vec![("Origin", "http://evil.example")], "http.origin"),
            (vec![("Origin", "null")], "http.origin"),
        ] {
            let reply = send(world.address, "GET", path, &headers, "").await;
            assert_eq!((reply.status, reply.code().as_str()), (403, code), "{path} {headers:?}");
        }
    }
    let named = send(world.address, "GET", "/healthz", &[("Host", "ringfence.example")], "").await;
    assert_eq!(named.status, 200);
    let local = [("Origin", "http://localhost:3000")];
    assert_eq!(send(world.address, "GET", "/healthz", &local, "").await.status, 200);
}

#[tokio::test]
async fn pages_of_listed_origins_may_read_and_no_others() {
    let world = World::new().await;
    let listed = "https://console.example.org";
    let asks = |origin| [("Origin", origin), ("Access-Control-Request-Method", "POST")];
    // A browser sends a preflight request without a token.
    let reply = send(world.address, "OPTIONS", "/api/v1/runs", &asks(listed), "").await;
    assert_eq!(reply.status, 204);
    assert_eq!(reply.header("access-control-allow-origin"), Some(listed));
    assert_eq!(reply.header("vary"), Some("Origin"));
    for header in ["Authorization", "Idempotency-Key", "Last-Event-ID", "Mcp-Session-Id"] {
        let allowed = reply.header("access-control-allow-headers").unwrap();
        assert!(allowed.split(", ").any(|one| one == header), "{header}: {allowed}");
    }
    // The actual request needs its token. The page may also read why it was refused.
    let reply = send(world.address, "POST", "/api/v1/runs", &[("Origin", listed)], "{}").await;
    assert_eq!((reply.status, reply.code().as_str()), (401, "auth.missing"));
    assert_eq!(reply.header("access-control-allow-origin"), Some(listed));
    // A page of this machine is accepted but may not read the response; any other page is refused, and so is a method that no
    // page may use.
    let local = "http://localhost:3000";
    let reply = send(world.address, "OPTIONS", "/api/v1/runs", &asks(local), "").await;
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (401, None));
    let reply = send(
        world.address,
        "OPTIONS",
        "/api/v1/runs",
        &asks("https://evil.example"),
        "",
    )
    .await;
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (403, None));
    let reply = send(world.address, "OPTIONS", "/api/v1/runs", &[("Origin", listed)], "").await;
    assert_eq!(reply.status, 401);
}

#[tokio::test]
async fn everything_but_health_and_metadata_needs_an_access_token() {
    let world = World::new().await;
    let paths = [
        "/mcp",
        "/api/v1/runs",
        "/api/v1/openapi.json",
        "/api/v1/events",
        "/metrics",
        "/",
        "/nothing",
    ];
    for path in paths {
        let reply = send(world.address, "GET", path, &[], "").await;
        assert_eq!((reply.status, reply.code().as_str()), (401, "auth.missing"), "{path}");
        let challenge = reply.header("www-authenticate").unwrap();
        assert_eq!(
            challenge,
            "Bearer resource_metadata=\"http://localhost/.well-known/oauth-protected-resource/mcp\""
        );
    }
    let wrong = [
        ("Bearer rf_wrong", 401, "auth.invalid"),
        ("Basic dTpw", 400, "auth.form"),
        ("nothing", 400, "auth.form"),
    ];
    for (value, status, code) in wrong {
        let reply = send(world.address, "GET", "/api/v1/runs", &[("Authorization", value)], "").await;
        assert_eq!((reply.status, reply.code().as_str()), (status, code), "{value}");
    }
    // A token in the URL would appear in logs, so it is not accepted there.
    let holder = world.holder("a", AccessScope::Operator).await;
    let secret = holder.bearer.trim_start_matches("Bearer ");
    let reply = send(
        world.address,
        "GET",
        &format!("/api/v1/runs?access_token={secret}"),
        &[],
        "",
    )
    .await;
    assert_eq!(reply.status, 401);
    let metadata = send(
        world.address,
        "GET",
        "/.well-known/oauth-protected-resource/mcp",
        &[],
        "",
    )
    .await;
    assert_eq!(metadata.json()["resource"], "http://localhost/mcp");
    assert_eq!(metadata.json().get("authorization_servers"), None);
}

#[tokio::test]
async fn metadata_names_the_issuers_that_the_operator_named() {
    let auth = ClientAuth::Tokens {
        resource: Some("https://ringfence.example/".to_owned()),
        issuers: vec!["https://login.example".to_owned()],
    };
    let world = World::made(HttpLimits::default(), auth).await;
    let metadata = send(world.address, "GET", "/.well-known/oauth-protected-resource", &[], "")
        .await
        .json();
    assert_eq!(metadata["resource"], "https://ringfence.example/mcp");
    assert_eq!(
        metadata["authorization_servers"],
        serde_json::json!(["https://login.example"])
    );
    let refused = send(world.address, "GET", "/mcp", &[], "").await;
    let challenge = refused.header("www-authenticate").unwrap();
    assert!(
        challenge.contains("\"https://ringfence.example/.well-known/"),
        "{challenge}"
    );
}

#[tokio::test]
async fn each_scope_does_what_it_may() {
    let world = World::new().await;
    let viewer = world.holder("viewer", AccessScope::Viewer).await;
    let agent = world.holder("agent", AccessScope::Agent).await;
    let operator = world.holder("operator", AccessScope::Operator).await;
    let code = |reply: &Reply| {
        if reply.status == 403 {
            reply.code()
        } else {
            reply.status.to_string()
        }
    };
    let run = r#"{"language":"javascript","code":"1"}"#;
    let cases = [
        ("GET", "/api/v1/runs", "", ["200", "200", "200"]),
        ("POST", "/api/v1/runs", run, ["auth.scope", "200", "200"]),
        ("POST", "/mcp", DISCOVER, ["auth.scope", "200", "200"]),
        ("GET", "/metrics", "", ["200", "auth.scope", "200"]),
        ("GET", "/api/v1/approvals", "", ["auth.scope", "auth.scope", "200"]),
        (
            "DELETE",
            "/api/v1/sessions/s_00000000000000000000000000",
            "",
            ["auth.scope", "404", "404"],
        ),
    ];
    for (method, path, body, expected) in cases {
        for (holder, expected) in [&viewer, &agent, &operator].into_iter().zip(expected) {
            let accept = [
                ("Authorization", holder.bearer.as_str()),
                ("Accept", "application/json, text/event-stream"),
            ];
            let reply = send(world.address, method, path, &accept, body).await;
            assert_eq!(code(&reply), expected, "{method} {path} {expected}");
        }
    }
    // Of the runs above, an agent sees its own; viewers and operators see all.
    let mut seen = Vec::new();
    for holder in [&viewer, &agent, &operator] {
        let runs = holder.get("/api/v1/runs").await.json();
        let items = runs["items"].as_array().unwrap();
        for run in items {
            let one = format!("/api/v1/runs/{}", run["execution_id"].as_str().unwrap());
            assert_eq!(holder.get(&one).await.status, 200);
        }
        seen.push(items.len());
    }
    assert_eq!(seen, [2, 1, 2]);
    let reply = agent.get("/api/v1/approvals").await;
    assert!(
        reply.json()["hint"].as_str().unwrap().contains("`operator`"),
        "{reply:?}"
    );
}

#[tokio::test]
async fn a_revoked_token_is_refused_at_the_next_request_and_its_streams_end() {
    let world = World::new().await;
    let holder = world.holder("a", AccessScope::Agent).await;
    assert_eq!(holder.get("/api/v1/runs").await.status, 200);
    let mut events = holder.events("/api/v1/events", &[]).await;
    // Another process revokes the token in the same way.
    world.engine.store().access_tokens().revoke(holder.id).await.unwrap();
    let reply = holder.get("/api/v1/runs").await;
    assert_eq!((reply.status, reply.code().as_str()), (401, "auth.invalid"));
    assert!(
        reply
            .header("www-authenticate")
            .unwrap()
            .contains("error=\"invalid_token\"")
    );
    let ended = tokio::time::timeout(Duration::from_secs(20), events.next()).await;
    assert_eq!(ended.unwrap(), None);
}

#[tokio::test]
async fn the_use_of_a_token_is_noted() {
    let world = World::new().await;
    let holder = world.holder("a", AccessScope::Viewer).await;
    holder.get("/api/v1/runs").await;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while world
        .engine
        .store()
        .access_tokens()
        .get(holder.id)
        .unwrap()
        .unwrap()
        .last_used
        .is_none()
    {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn with_access_off_everybody_is_one_principal() {
    let world = World::made(HttpLimits::default(), ClientAuth::Off(Principal::Local(7))).await;
    let body = r#"{"language":"javascript","code":"1"}"#;
    assert_eq!(send(world.address, "POST", "/api/v1/runs", &[], body).await.status, 200);
    let sessions = send(world.address, "GET", "/api/v1/sessions", &[], "").await.json();
    assert_eq!(sessions["items"][0]["principal"], "local:7");
    // Host names are checked without tokens as well.
    assert_eq!(
        send(world.address, "GET", "/api/v1/runs", &[("Host", "evil.example")], "")
            .await
            .status,
        403
    );
}
