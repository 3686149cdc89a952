//! Tests of remote servers: streamable HTTP in both protocols, plain interfaces, a login.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use ringfence_gateway::{
    EnvironmentLookup, OAuthError, ProtocolEra, SecretString, ServerError, Servers, UpstreamCallError, Vault, login,
};
use serde_json::json;
use url::Url;

use crate::book::{Road, refused};
use crate::harness::{bench, program};

/// A test server over HTTP, killed when dropped.
struct Remote {
    child: Child,
    url: Url,
}

impl Remote {
    fn start(args: &[&str]) -> Remote {
        let mut child = Command::new(program())
            .arg("http")
            .args(args)
            // Its failing tools echo what they were given.
            .env("UPSTREAM_KEY", "$AUTHORIZATION")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        Remote {
            child,
            url: line.trim().parse().unwrap(),
        }
    }

    fn at(&self, path: &str) -> Url {
        self.url.join(path).unwrap()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remote_tool_is_called_in_either_protocol() {
    for (mode, era) in [("echo", ProtocolEra::Legacy), ("modern", ProtocolEra::Modern)] {
        let remote = Remote::start(&[mode]);
        let bench = bench(&json!({
            "far": {"url": remote.url, "headers": {"Authorization": "Bearer ${KEY}"}},
            "moved": {"url": remote.at("/moved")},
        }));
        let listed = bench
            .upstreams
            .refresh(Some("far"))
            .await
            .remove("far")
            .unwrap()
            .unwrap();
        assert_eq!((listed.tools, listed.era), (10, Some(era)));
        assert_eq!(
            bench.value("far", "echo", json!({"text": "hello"})).await,
            json!("hello")
        );
        let refused = bench.call("far", "refuse", json!({})).await.unwrap_err();
        assert!(
            matches!(&refused, UpstreamCallError::Refused { code: -32602, .. }),
            "{refused}"
        );
        assert_eq!(
            bench.value("moved", "echo", json!({"text": "same origin"})).await,
            json!("same origin")
        );
    }
}

/// Checks that a text has no name of a Rust type or a library in it.
fn assert_plain(text: &str) {
    for strange in ["::", "rmcp", "Transport", "reqwest", "hyper", "JSON-RPC"] {
        assert!(!text.contains(strange), "`{strange}`: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remote_that_is_gone_was_not_called() {
    for mode in ["echo", "modern"] {
        let remote = Remote::start(&[mode]);
        let bench = bench(&json!({"far": {"url": remote.url}}));
        let road = Road::new(&bench, "tools: { default: allow }");
        let (desk, _inbox) = road.desk();
        let pass = road.pass(desk);
        pass.call(1, "far", "echo", r#"{"text":"hi"}"#, b"").await.unwrap();
        drop(remote);
        // A kept connection may end during the next call, and then it is unknown whether the server got it.
        let mut number = 2;
        let (code, message) = loop {
            let (code, _, message) = refused(pass.call(number, "far", "echo", r#"{"text":"hi"}"#, b"").await);
            if code != "tool.unknown_effect" || number == 9 {
                break (code, message);
            }
            number += 1;
        };
        assert_eq!(code, "server.failed", "{message}");
        assert!(
            message.contains("connection refused, nothing listens at its address"),
            "{message}"
        );
        assert_plain(&message);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn why_a_remote_cannot_be_connected_is_said_in_plain_words() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = format!("http://{}/mcp", free.local_addr().unwrap());
    drop(free);
    let remote = Remote::start(&["echo"]);
    let bench = bench(&json!({"nobody": {"url": nobody}, "elsewhere": {"url": remote.at("/nothing-is-here")}}));
    let mut failed = bench.upstreams.refresh(None).await;
    let said = failed.remove("nobody").unwrap().unwrap_err().to_string();
    assert_eq!(
        said,
        "server `nobody`: cannot connect: connection refused, nothing listens at its address"
    );
    let said = failed.remove("elsewhere").unwrap().unwrap_err().to_string();
    assert_plain(&said);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remote_that_floods_or_leads_away_is_contained() {
    let remote = Remote::start(&["echo"]);
    let bench = bench(&json!({
        "good": {"url": remote.url},
        "flood": {"url": remote.at("/flood")},
        "away": {"url": remote.at("/elsewhere")},
        "nobody": {"url": "http://127.0.0.1:9/mcp"},
    }));
    for server in ["flood", "away", "nobody"] {
        let error = bench.upstreams.ensure_connected(server).await.unwrap_err();
        assert_eq!(error.server(), server, "{error}");
        assert!(
            matches!(error, ServerError::Connect { .. } | ServerError::Closed { .. }),
            "{error}"
        );
    }
    assert_eq!(bench.value("good", "echo", json!({"text": "on"})).await, json!("on"));
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_of_a_document_are_tools() {
    let remote = Remote::start(&["echo"]);
    let bench = bench(&json!({
        "shop": {"openapi": remote.at("/openapi.json"), "headers": {"Authorization": "Bearer ${KEY}"}},
    }));
    let (known, failed) = bench.upstreams.list_unlisted().await;
    assert!(failed.is_empty(), "{failed:?}");
    let names: Vec<_> = known.catalog.tools().iter().map(|tool| tool.name.as_str()).collect();
    let expected = [
        "shop.createItem",
        "shop.delete_items_id",
        "shop.elsewhere",
        "shop.flood",
        "shop.getItem",
    ];
    assert_eq!(names, expected);
    let item = bench
        .value(
            "shop",
            "getItem",
            json!({"id": "a/b", "fields": ["x", "y"], "X-Trace": "t"}),
        )
        .await;
    let seen =
        json!({"path": "/api/items/a%2Fb", "query": "fields=x&fields=y", "authorization": "[redacted]", "trace": "t"});
    assert_eq!(item, seen);
    let made = bench
        .value("shop", "createItem", json!({"name": "n", "parts": []}))
        .await;
    assert_eq!(made, json!({"made": {"name": "n", "parts": []}}));
    assert_eq!(
        bench.value("shop", "delete_items_id", json!({"id": "1"})).await,
        json!(null)
    );
    let away = bench.call("shop", "elsewhere", json!({})).await.unwrap_err();
    assert!(away.to_string().contains("redirected to another origin"), "{away}");
    let flood = bench.call("shop", "flood", json!({})).await.unwrap_err();
    assert!(matches!(flood, UpstreamCallError::TooMuch { .. }), "{flood}");
    let missing = bench.call("shop", "getItem", json!({})).await.unwrap_err();
    assert!(
        missing.to_string().contains("a part of the path is missing"),
        "{missing}"
    );
}

/// Follows the address like a browser, back to the local port.
fn browser(place: &Url) {
    let place = place.clone();
    tokio::spawn(async move {
        let status = tokio::process::Command::new("curl")
            .args(["--silent", "--location", "--output", "/dev/null", place.as_str()])
            .status()
            .await;
        assert!(status.unwrap().success());
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_is_made_kept_and_renewed() {
    let remote = Remote::start(&["echo", "oauth"]);
    let entries = json!({"far": {"url": remote.url, "auth": "oauth"}});
    let bench = bench(&entries);
    let error = bench.upstreams.ensure_connected("far").await.unwrap_err();
    assert!(matches!(error, ServerError::Login { .. }), "{error}");
    let servers = Servers::from_section(&entries, bench.home.path()).unwrap();
    let server = servers.get("far").unwrap();
    let shown = Mutex::new(None);
    let environment: EnvironmentLookup = Arc::new(|_: &str| None);
    login(bench.home.path(), server, &environment, |place| {
        *shown.lock().unwrap() = Some(place.clone());
        browser(place);
    })
    .await
    .unwrap();
    let shown = shown.into_inner().unwrap().unwrap();
    assert!(shown.query().unwrap().contains("code_challenge_method=S256"), "{shown}");
    assert_eq!(bench.value("far", "echo", json!({"text": "in"})).await, json!("in"));
    let vault = Vault::in_data_folder(bench.home.path(), &environment);
    assert_eq!(vault.names().unwrap(), ["oauth/far"]);
    let kept = vault.get("oauth/far").unwrap().unwrap();
    let kept = kept.reveal();
    // Tokens expire after a second, so each request so far has renewed them.
    assert!(!kept.contains("access-00000002\""), "{kept}");
    let moved = kept.replace(
        &format!("\"issuer\":\"{}", remote.url.origin().ascii_serialization()),
        "\"issuer\":\"https://other.example",
    );
    vault.set("oauth/far", &SecretString::new(moved)).unwrap();
    let moved = login(bench.home.path(), server, &environment, |_| {})
        .await
        .unwrap_err();
    assert!(matches!(moved, OAuthError::Issuer { .. }), "{moved}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_echoes_its_access_token_gives_nothing_away() {
    let remote = Remote::start(&["echo", "oauth"]);
    let entries = json!({"far": {"url": remote.url, "auth": "oauth"}});
    let bench = bench(&entries);
    let servers = Servers::from_section(&entries, bench.home.path()).unwrap();
    let environment: EnvironmentLookup = Arc::new(|_: &str| None);
    login(bench.home.path(), servers.get("far").unwrap(), &environment, browser)
        .await
        .unwrap();
    // Each request has a new access token, because they expire at once.
    for _ in 0..2 {
        let echo = bench
            .value("far", "echo", json!({"text": "it is $AUTHORIZATION."}))
            .await;
        assert_eq!(echo, json!("it is Bearer [redacted]."));
        let arguments = json!({"$AUTHORIZATION": ["$AUTHORIZATION"]});
        let structured = bench.value("far", "structured", arguments).await;
        assert_eq!(
            structured,
            json!({"given": {"Bearer [redacted]": ["Bearer [redacted]"]}})
        );
        let failed = bench.call("far", "fail", json!({})).await.unwrap();
        assert_eq!(failed.text(), "it failed, key Bearer [redacted]");
        let refused = bench.call("far", "refuse", json!({})).await.unwrap_err().to_string();
        assert!(refused.contains("refused with Bearer [redacted]"), "{refused}");
    }
    let vault = Vault::in_data_folder(bench.home.path(), &environment);
    let kept = vault.get("oauth/far").unwrap().unwrap();
    let kept: serde_json::Value = serde_json::from_str(kept.reveal()).unwrap();
    let refresh = kept["refresh"].as_str().unwrap();
    let echo = bench.value("far", "echo", json!({"text": refresh})).await;
    assert_eq!(echo, json!("[redacted]"));
}
