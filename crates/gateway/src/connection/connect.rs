//! Connects to a server: resolves its credentials, starts its program or reaches its address, and opens the protocol.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use super::line_transport::LineTransport;
use super::mcp_client::{ClientResources, McpClient, McpClientConfig};
use super::openapi::OpenApiClient;
use super::process::{self, ProcessSpec, StderrTail};
use super::{UpstreamConnection, UpstreamOptions, UpstreamProtocol};
use crate::credential::{CredentialSource, Scrubber, SecretString};
use crate::error::ServerError;
use crate::error_text;
use crate::http::HttpTransport;
use crate::oauth::OAuthTokens;
use crate::server_cache::ProtocolEra;
use crate::servers::{
    ConfiguredServer, OpenApiInterface, RemoteAuth, RemoteServer, ServerKind, StdioPlacement, StdioServer,
};
use crate::spawner::SpawnRequest;
use crate::vault::Vault;

/// Most concurrent requests to one remote server.
const MAX_CONCURRENT_REQUESTS: usize = 64;
/// How often a broken stream is resumed, and the longest delay before each attempt.
const MAX_STREAM_RETRIES: usize = 4;
const MAX_STREAM_RETRY_DELAY: Duration = Duration::from_secs(5);
/// Variables whose literal values are not treated as secrets.
const NON_SECRET_VARIABLES: [&str; 8] = ["HOME", "LANG", "LC_ALL", "NODE_ENV", "PATH", "PYTHONPATH", "TERM", "TZ"];

/// What all servers are connected with.
#[derive(Clone, Copy)]
pub(crate) struct ConnectContext<'a> {
    pub(crate) options: &'a UpstreamOptions,
    pub(crate) vault: &'a Vault,
}

/// The resolved values of a server, and the scrubber that removes the secrets among them from texts.
pub(crate) struct ResolvedValues {
    pub(crate) values: Vec<(String, SecretString)>,
    pub(crate) scrubber: Scrubber,
}

/// Connects to a server of any kind.
pub(crate) fn connect<'a>(
    context: ConnectContext<'a>,
    server: &'a ConfiguredServer,
    seen: Option<ProtocolEra>,
) -> BoxFuture<'a, Result<UpstreamConnection, ServerError>> {
    match &server.source {
        ServerKind::Program(program) => connect_program(context, server, program, seen).boxed(),
        ServerKind::Remote(remote) => connect_remote(context, server, remote, seen).boxed(),
        ServerKind::Interface(interface) => connect_interface(context, server, interface).boxed(),
    }
}

/// Resolves every value of one section of the entry.
pub(crate) fn resolve_values(
    context: ConnectContext<'_>,
    server: &ConfiguredServer,
    section: &str,
    written: &BTreeMap<String, CredentialSource>,
) -> Result<ResolvedValues, ServerError> {
    let mut values = Vec::new();
    let mut scrubber = Scrubber::default();
    for (name, value) in written {
        let secret = value
            .resolve(&context.options.environment, context.vault)
            .map_err(|source| ServerError::Credential {
                server: server.name.clone(),
                key: format!("{section}.{name}"),
                source,
            })?;
        let plain = matches!(value, CredentialSource::Text(_)) && NON_SECRET_VARIABLES.contains(&name.as_str());
        if !plain {
            scrubber.add_secret(&secret);
        }
        values.push((name.clone(), secret));
    }
    Ok(ResolvedValues { values, scrubber })
}

async fn connect_program(
    context: ConnectContext<'_>,
    server: &ConfiguredServer,
    program: &StdioServer,
    seen: Option<ProtocolEra>,
) -> Result<UpstreamConnection, ServerError> {
    let ResolvedValues { values, scrubber } = resolve_values(context, server, "env", &program.env)?;
    let opening = McpClientConfig {
        server: &server.name,
        scrubber: scrubber.clone(),
        person: context.options.elicitation.clone(),
        seen,
        within: context.options.start_timeout,
    };
    let unstarted = |detail: String| ServerError::Start {
        server: server.name.clone(),
        command: scrubber.clean(&program.command),
        detail: scrubber.clean(&detail),
    };
    let talk = match &program.place {
        StdioPlacement::Host => {
            let start = ProcessSpec {
                command: &program.command,
                args: &program.args,
                env: values,
                cwd: program.cwd.as_deref(),
            };
            let started = process::start_process(&start, &context.options.environment, scrubber.clone());
            let (process, stdout, stdin) = started.map_err(|error| unstarted(error_text::of_start(&error)))?;
            let (lines, state) = LineTransport::new(stdout, stdin);
            let footing = ClientResources {
                process: Some(process),
                _guard: None,
                stderr: None,
                state,
            };
            McpClient::open(opening, lines, footing).await?
        }
        StdioPlacement::Sandbox(policy) => {
            let Some(spawner) = &context.options.spawner else {
                return Err(ServerError::NoSandbox {
                    server: server.name.clone(),
                    policy: policy.clone(),
                });
            };
            let spawn = SpawnRequest {
                server: &server.name,
                command: &program.command,
                args: &program.args,
                env: &values,
                policy,
            };
            let started = tokio::time::timeout(context.options.start_timeout, spawner.spawn(spawn)).await;
            let started = started.map_err(|_| ServerError::Timeout {
                server: server.name.clone(),
                step: "its start",
                after: context.options.start_timeout,
            })?;
            let started = started.map_err(|error| unstarted(error.to_string()))?;
            let stderr = StderrTail::new(started.stderr, scrubber.clone());
            let (lines, state) = LineTransport::new(started.stdout, started.stdin);
            let footing = ClientResources {
                process: None,
                _guard: Some(started.guard),
                stderr: Some(stderr),
                state,
            };
            McpClient::open(opening, lines, footing).await?
        }
    };
    Ok(UpstreamConnection::new(UpstreamProtocol::Mcp(Box::new(talk))))
}

async fn connect_remote(
    context: ConnectContext<'_>,
    server: &ConfiguredServer,
    remote: &RemoteServer,
    seen: Option<ProtocolEra>,
) -> Result<UpstreamConnection, ServerError> {
    let ResolvedValues { values, scrubber } = resolve_values(context, server, "headers", &remote.headers)?;
    let tokens = (remote.auth == RemoteAuth::OAuth).then(|| {
        Arc::new(OAuthTokens::new(
            context.vault,
            &server.name,
            &remote.url,
            scrubber.clone(),
        ))
    });
    let footing = ClientResources::default();
    let carrier = HttpTransport::new(&values, tokens, seen == Some(ProtocolEra::Modern), &footing.state);
    let carrier = carrier.map_err(|(key, error)| ServerError::Connect {
        server: server.name.clone(),
        detail: scrubber.clean(&format!("`{key}`: {error}")),
    })?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(remote.url.as_str());
    config.max_concurrent_requests = MAX_CONCURRENT_REQUESTS;
    config.retry_config = Arc::new(stream_retry_policy());
    let transport = StreamableHttpClientTransport::with_client(carrier, config);
    let opening = McpClientConfig {
        server: &server.name,
        scrubber,
        person: context.options.elicitation.clone(),
        seen,
        within: context.options.connect_timeout,
    };
    let talk = McpClient::open(opening, transport, footing).await?;
    Ok(UpstreamConnection::new(UpstreamProtocol::Mcp(Box::new(talk))))
}

/// Resumes a broken stream where it stopped; the caller decides whether to repeat the call.
fn stream_retry_policy() -> ExponentialBackoff {
    let mut resuming = ExponentialBackoff::default();
    resuming.max_times = Some(MAX_STREAM_RETRIES);
    resuming.max_delay = Some(MAX_STREAM_RETRY_DELAY);
    resuming
}

async fn connect_interface(
    context: ConnectContext<'_>,
    server: &ConfiguredServer,
    interface: &OpenApiInterface,
) -> Result<UpstreamConnection, ServerError> {
    let ResolvedValues { values, scrubber } = resolve_values(context, server, "headers", &interface.headers)?;
    let opened = tokio::time::timeout(
        context.options.connect_timeout,
        OpenApiClient::open(&server.name, interface, &values, scrubber),
    )
    .await;
    let api = opened.map_err(|_| ServerError::Timeout {
        server: server.name.clone(),
        step: "its document",
        after: context.options.connect_timeout,
    })??;
    Ok(UpstreamConnection::new(UpstreamProtocol::OpenApi(Box::new(api))))
}
