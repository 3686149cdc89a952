//! A server on its own port.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ringfence_engine::Engine;
use ringfence_engine::storage::AccessScope;
use ringfence_gateway::Servers;
use ringfence_journal::TokenId;
use ringfence_policy::{Ceiling, Draft, Policy};
use ringfence_server::{ClientAuth, Endpoint, Hosts, HttpLimits, HttpServer, McpOptions, McpService};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::engine::{python_server, serving_engine};
use crate::wire::{self, Events, Reply};

/// A tool that sends letters.
const MAIL: &str = r#"
TOOLS = [{"name": "send", "description": "Sends a letter.", "inputSchema": {"type": "object", "properties": {"to": {"type": "string"}}}}]
def call(name, args):
    return {"content": [{"type": "text", "text": "sent to " + args["to"]}]}
"#;

/// The policy of a world, the ceiling over drafts, and the source of its tool server `mail`.
struct Rules<'a> {
    policy: Policy,
    ceiling: Ceiling,
    mail: Option<&'a str>,
}

/// A policy of the built-in one and `text`.
fn policy(text: &str) -> Policy {
    let draft = Draft::builtin().layer(&Draft::parse(text, "test").unwrap());
    draft.under(&Ceiling::unlimited()).unwrap()
}

/// Authentication by access tokens.
fn by_token() -> ClientAuth {
    ClientAuth::Tokens {
        resource: None,
        issuers: Vec::new(),
    }
}

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
        World::made(limits, by_token()).await
    }

    pub(crate) async fn made(limits: HttpLimits, auth: ClientAuth) -> World {
        let policy = Draft::builtin().under(&Ceiling::unlimited()).unwrap();
        let rules = Rules {
            ceiling: Ceiling::from_policy(&policy),
            policy,
            mail: None,
        };
        World::ruled(limits, auth, rules).await
    }

    /// A world with a tool server `mail` whose calls all need approval, under further rules.
    pub(crate) async fn asking(more: &str) -> World {
        let policy = policy(&format!("tools: {{ rules: [{{ ask: 'mail.*' }}] }}\n{more}"));
        let rules = Rules {
            ceiling: Ceiling::from_policy(&policy),
            policy,
            mail: Some(MAIL),
        };
        World::ruled(HttpLimits::default(), by_token(), rules).await
    }

    /// A world with its own policy and ceiling.
    pub(crate) async fn under(own: &str, ceiling: &str) -> World {
        let rules = Rules {
            policy: policy(own),
            ceiling: Ceiling::from_policy(&policy(ceiling)),
            mail: None,
        };
        World::ruled(HttpLimits::default(), by_token(), rules).await
    }

    async fn ruled(limits: HttpLimits, auth: ClientAuth, rules: Rules<'_>) -> World {
        let home = tempfile::tempdir().unwrap();
        let servers = rules
            .mail
            .map_or_else(Servers::default, |source| python_server(home.path(), "mail", source));
        let policy = Arc::new(rules.policy);
        let engine = serving_engine(home.path(), servers, &policy, rules.ceiling).await;
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
            let made = |options| Endpoint::new(&mcp, options);
            app.serve(listener, made, shutdown).await.unwrap();
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
