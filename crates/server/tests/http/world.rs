//! A server on its own port.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ringfence_engine::storage::AccessScope;
use ringfence_engine::{Engine, EngineConfig, ServeConfig};
use ringfence_gateway::{Credentials, Servers};
use ringfence_journal::{Principal, TokenId};
use ringfence_policy::{Ceiling, Draft, Policy};
use ringfence_server::{ClientAuth, Hosts, HttpLimits, HttpServer, McpOptions, McpRoute, McpService};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::wire::{self, Events, Reply};

/// A tool server that sends letters.
const SERVER: &str = r#"
import json, sys
SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked: continue
    method, params = asked.get("method"), asked.get("params", {})
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if method == "initialize":
        answer["result"] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "mail", "version": "1"}}
    elif method == "tools/list":
        answer["result"] = {"tools": [{"name": "send", "description": "Sends a letter.", "inputSchema": SCHEMA}]}
    elif method == "tools/call":
        answer["result"] = {"content": [{"type": "text", "text": "sent to " + params["arguments"]["to"]}]}
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(answer), flush=True)
"#;

pub(crate) struct World {
    pub(crate) engine: Arc<Engine>,
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<()>,
    _home: TempDir,
}

/// The holder of an access token.
#[derive(Debug, Clone)]
pub(crate) struct Holder {
    pub(crate) id: TokenId,
    pub(crate) bearer: String,
    address: SocketAddr,
}

impl World {
    pub(crate) async fn new() -> World {
        World::with(HttpLimits::default()).await
    }

    pub(crate) async fn with(limits: HttpLimits) -> World {
        let auth = ClientAuth::Tokens {
            resource: None,
            issuers: Vec::new(),
        };
        World::made(limits, auth).await
    }

    pub(crate) async fn made(limits: HttpLimits, auth: ClientAuth) -> World {
        let policy = Arc::new(Draft::builtin().under(&Ceiling::unlimited()).unwrap());
        let ceiling = Ceiling::from_policy(&policy);
        World::ruled(limits, auth, (policy, ceiling), None).await
    }

    /// A world with a tool server `mail` whose calls all need approval, under further rules.
    pub(crate) async fn asking(more: &str) -> World {
        let text = format!("tools: {{ rules: [{{ ask: 'mail.*' }}] }}\n{more}");
        let draft = Draft::builtin().layer(&Draft::parse(&text, "test").unwrap());
        let policy = draft.under(&Ceiling::unlimited()).unwrap();
        let ceiling = Ceiling::from_policy(&policy);
        let auth = ClientAuth::Tokens {
            resource: None,
            issuers: Vec::new(),
        };
        World::ruled(HttpLimits::default(), auth, (Arc::new(policy), ceiling), Some(SERVER)).await
    }

    /// A world with its own policy and ceiling.
    pub(crate) async fn under(policy: &str, ceiling: &str) -> World {
        let full = |text: &str| {
            let draft = Draft::builtin().layer(&Draft::parse(text, "test").unwrap());
            draft.under(&Ceiling::unlimited()).unwrap()
        };
        let auth = ClientAuth::Tokens {
            resource: None,
            issuers: Vec::new(),
        };
        let rules = (Arc::new(full(policy)), Ceiling::from_policy(&full(ceiling)));
        World::ruled(HttpLimits::default(), auth, rules, None).await
    }

    async fn ruled(
        limits: HttpLimits,
        auth: ClientAuth,
        (policy, ceiling): (Arc<Policy>, Ceiling),
        mail: Option<&str>,
    ) -> World {
        let home = tempfile::tempdir().unwrap();
        let servers = mail.map_or_else(Servers::default, |source| {
            let path = home.path().join("server.py");
            std::fs::write(&path, source).unwrap();
            let servers = serde_json::json!({ "mail": { "command": "/usr/bin/python3", "args": [path] } });
            Servers::from_section(&servers, home.path()).unwrap()
        });
        let front = ServeConfig {
            ceiling,
            policy: Arc::clone(&policy),
            idle: Duration::from_mins(10),
            warm: 1,
            budget: ringfence_engine::BudgetOverrides::default(),
        };
        let settings = EngineConfig {
            home: home.path().to_owned(),
            sinks: Vec::new(),
            principal: Principal::Local(1),
            python: None,
            servers,
            server_policies: BTreeMap::new(),
            credentials: Credentials::default(),
            checkers: ringfence_engine::CheckerTools::default(),
            environment: Arc::new(|_| None),
            serve: Some(front),
        };
        let engine = Engine::open_for_serving(settings).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let options = McpOptions {
            policy,
            direct: Vec::new(),
        };
        let mcp = McpService::new(Arc::clone(&engine), options);
        let app = HttpServer {
            engine: Arc::clone(&engine),
            auth,
            hosts: Hosts::new(
                address,
                &["ringfence.example".to_owned()],
                &["https://console.example.org".to_owned()],
            )
            .unwrap(),
            limits,
            idle: Duration::from_mins(10),
        };
        let (stop, stopped) = oneshot::channel();
        let served = tokio::spawn(async move {
            let shutdown = async {
                let _ = stopped.await;
            };
            app.serve(listener, McpRoute::Service(mcp), Box::pin(shutdown))
                .await
                .unwrap();
        });
        World {
            engine,
            address,
            stop: Some(stop),
            served,
            _home: home,
        }
    }

    pub(crate) async fn holder(&self, name: &str, scope: AccessScope) -> Holder {
        let (token, secret) = self.engine.store().create_token(name, scope).await.unwrap();
        Holder {
            id: token.id,
            bearer: format!("Bearer {}", secret.reveal()),
            address: self.address,
        }
    }

    /// Starts the shutdown of the server.
    pub(crate) fn stop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
    }

    /// Waits for the server to stop.
    pub(crate) async fn ended(self) {
        let engine = Arc::clone(&self.engine);
        tokio::time::timeout(wire::TEST_TIMEOUT, self.served)
            .await
            .unwrap()
            .unwrap();
        drop(self.engine);
        // Only this test still holds the engine.
        let deadline = tokio::time::Instant::now() + Duration::from_secs(5);
        while Arc::strong_count(&engine) > 1 {
            assert!(
                tokio::time::Instant::now() < deadline,
                "{} still hold it",
                Arc::strong_count(&engine)
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Holder {
    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, "").await
    }

    /// Requests a range of bytes.
    pub(crate) async fn get_range(&self, path: &str, range: &str) -> Reply {
        let headers = [("Authorization", self.bearer.as_str()), ("Range", range)];
        wire::send(self.address, "GET", path, &headers, "").await
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: &str) -> Reply {
        wire::send(self.address, method, path, &[("Authorization", &self.bearer)], body).await
    }

    /// Runs a program and waits for it.
    pub(crate) async fn run(&self, language: &str, code: &str) -> Reply {
        let body = serde_json::json!({ "language": language, "code": code }).to_string();
        self.send("POST", "/api/v1/runs", &body).await
    }

    pub(crate) async fn events(&self, path: &str, more: &[(&str, &str)]) -> Events {
        let mut headers = vec![("Authorization", self.bearer.as_str())];
        headers.extend(more);
        Events::open(self.address, path, &headers).await
    }
}
