//! The client side of the protocol's conformance suite, on the gateway's own path: connect, log in when the server requires it, list, call.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::FutureExt;
use ringfence_catalog::Tool;
use ringfence_gateway::{
    ElicitationAnswer, ElicitationHandler, EnvironmentLookup, OAuthError, ServerCache, ServerError, Servers,
    UpstreamCallError, UpstreamOptions, Upstreams, Vault, login,
};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use url::{Position, Url};

/// The name under which the suite's server is configured.
const SERVER_NAME: &str = "suite";
const CALL_TIMEOUT: Duration = Duration::from_secs(20);
/// The address at which the suite expects the client's metadata document; it is compared, never fetched.
const CLIENT_DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";
/// Logins that one operation may take: a server that asks for more never stops asking.
const MAX_LOGINS: usize = 3;

/// Runs a scenario against the suite's server.
pub async fn run(scenario: &str, url: &str, context: &Value) -> Result<()> {
    let home = tempfile::tempdir()?;
    let mut oauth = json!({ "client_metadata": CLIENT_DOCUMENT });
    if let Some(id) = context
        .get("client_id")
        .filter(|_| context.get("client_secret").is_some())
    {
        oauth = json!({ "client_id": id, "client_secret": context["client_secret"] });
    }
    let mut entry = json!({ "url": url });
    if scenario.starts_with("auth/") {
        entry = json!({ "url": url, "auth": "oauth", "oauth": oauth });
    }
    let entries = json!({ SERVER_NAME: entry });
    let servers = Servers::from_section(&entries, home.path())?;
    let environment: EnvironmentLookup = Arc::new(|_: &str| None);
    let mut options = UpstreamOptions::new(Arc::clone(&environment));
    // A person who accepts everything and changes nothing.
    options.elicitation = Some(ElicitationHandler::new(|_| {
        async { ElicitationAnswer::Accept(Map::new()) }.boxed()
    }));
    let client = ConformanceClient {
        upstreams: Upstreams::new(servers.clone(), ServerCache::new(home.path()), options),
        servers,
        environment,
        home: home.path(),
    };
    client.list().await?;
    for (tool, arguments) in client.calls(context) {
        client.call(&tool, &arguments).await?;
    }
    // The server may have changed who is allowed to list.
    client.list().await?;
    client.upstreams.close();
    // The last messages of a closed connection are sent before the process ends.
    tokio::time::sleep(Duration::from_millis(50)).await;
    Ok(())
}

struct ConformanceClient<'a> {
    upstreams: Upstreams,
    servers: Servers,
    environment: EnvironmentLookup,
    home: &'a Path,
}

impl ConformanceClient<'_> {
    async fn list(&self) -> Result<()> {
        for _ in 0..=MAX_LOGINS {
            let mut listed = self.upstreams.refresh(Some(SERVER_NAME)).await;
            match listed.remove(SERVER_NAME).context("a listing without its server")? {
                Ok(_) => return Ok(()),
                Err(ServerError::Login { .. }) => self.log_in().await?,
                Err(error) => return Err(error.into()),
            }
        }
        bail!("{MAX_LOGINS} logins were not enough")
    }

    async fn call(&self, tool: &str, arguments: &Map<String, Value>) -> Result<()> {
        for _ in 0..=MAX_LOGINS {
            let called = self
                .upstreams
                .call(SERVER_NAME, tool, arguments.clone(), CALL_TIMEOUT)
                .await;
            match called {
                // A tool that fails was called.
                Ok(_) | Err(UpstreamCallError::Refused { .. }) => return Ok(()),
                Err(UpstreamCallError::Server(ServerError::Login { .. })) => self.log_in().await?,
                Err(error) => return Err(error.into()),
            }
        }
        bail!("{MAX_LOGINS} logins were not enough for `{tool}`")
    }

    /// The calls that the suite names, or each tool once with minimal arguments.
    fn calls(&self, context: &Value) -> Vec<(String, Map<String, Value>)> {
        if let Some(calls) = context.get("toolCalls").and_then(Value::as_array) {
            let call = |call: &Value| {
                let arguments = call.get("arguments").and_then(Value::as_object);
                let name = call.get("name")?.as_str()?.to_owned();
                Some((name, arguments.cloned().unwrap_or_default()))
            };
            return calls.iter().filter_map(call).collect();
        }
        let known = self.upstreams.snapshot();
        let tools = known.catalog.tools();
        // One scenario asks for a schema back, to see that nothing of it was lost.
        let schemas = tools.iter().map(|tool| &tool.definition.input);
        let richest = schemas.max_by_key(|schema| schema.to_string().len());
        let call = |tool: &Tool| {
            (
                tool.definition.name.clone(),
                minimal_arguments(&tool.definition.input, richest),
            )
        };
        tools.iter().map(call).collect()
    }

    /// Logs in as a person would; another issuer is the operator's decision, and this operator accepts it, as the message says.
    async fn log_in(&self) -> Result<()> {
        match self.log_in_with_browser().await {
            Err(OAuthError::Issuer { entry, .. }) => {
                Vault::in_data_folder(self.home, &self.environment).remove(&entry)?;
                self.log_in_with_browser().await
            }
            other => other,
        }
        .context("the login failed")
    }

    async fn log_in_with_browser(&self) -> Result<(), OAuthError> {
        let Some(server) = self.servers.get(SERVER_NAME) else {
            return Err(OAuthError::NotLoggedIn);
        };
        // A login whose browser fails never ends, so the wait is bounded.
        let open = |place: &Url| drop(tokio::spawn(follow_redirects(place.clone())));
        let logging_in = login(self.home, server, &self.environment, open);
        let logged_in = tokio::time::timeout(CALL_TIMEOUT, logging_in).await;
        logged_in.unwrap_or(Err(OAuthError::Timeout(CALL_TIMEOUT)))
    }
}

/// The minimal arguments for a schema of plain values.
fn minimal_arguments(schema: &Value, object: Option<&Value>) -> Map<String, Value> {
    let mut arguments = Map::new();
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        let kind = schema
            .pointer(&format!("/properties/{name}/type"))
            .and_then(Value::as_str);
        let value = match kind {
            Some("string") => json!("text"),
            Some("boolean") => json!(true),
            Some("number" | "integer") => json!(1),
            Some("object") => object.cloned().unwrap_or_default(),
            _ => Value::Null,
        };
        arguments.insert(name.to_owned(), value);
    }
    arguments
}

/// Acts as a browser: follows redirects, all on this machine.
async fn follow_redirects(mut place: Url) -> Result<()> {
    for _ in 0..5 {
        let host = place.host_str().context("no host")?.to_owned();
        let port = place.port_or_known_default().context("no port")?;
        let mut stream = TcpStream::connect((host.as_str(), port)).await?;
        let target = &place[Position::BeforePath..Position::AfterQuery];
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        let answer = String::from_utf8_lossy(&answer);
        let header = |line: &str| {
            line.split_once(':')
                .filter(|(name, _)| name.eq_ignore_ascii_case("location"))
                .map(|(_, value)| value.trim().to_owned())
        };
        match answer.lines().take_while(|line| !line.is_empty()).find_map(header) {
            Some(next) => place = place.join(&next)?,
            None => return Ok(()),
        }
    }
    bail!("sent on and on")
}
