//! Connects to a server: resolves its credentials, starts its program or reaches its address, and opens the protocol.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use crate::credential::{Scrubber, Secret, Written};
use crate::error::ServerError;
use crate::http::Carrier;
use crate::keep::Era;
use crate::lines::Lines;
use crate::link::{Link, Way};
use crate::oauth::Tokens;
use crate::openapi::Api;
use crate::plain_words;
use crate::process::{self, Start, StderrTail};
use crate::servers::{Auth, Interface, Place, Program, Remote, Server, Source};
use crate::spawner::Spawn;
use crate::talk::{Footing, Opening, Talk};
use crate::upstreams::{Happened, Hub};

/// After this time the user is told that a program is slow to start.
const SLOW_START: Duration = Duration::from_secs(10);
/// Most concurrent requests to one remote server.
const PARALLEL: usize = 64;
/// How often a broken stream is resumed, and the longest delay before each attempt.
const RESUMED: usize = 4;
const RESUME_WITHIN: Duration = Duration::from_secs(5);
/// Variables whose literal values are not treated as secrets.
const PLAIN: [&str; 8] = ["HOME", "LANG", "LC_ALL", "NODE_ENV", "PATH", "PYTHONPATH", "TERM", "TZ"];

/// The resolved values of a server, and the scrubber that removes the secrets among them from texts.
pub(crate) struct Values {
    pub(crate) values: Vec<(String, Secret)>,
    pub(crate) scrubber: Scrubber,
}

/// Connects to a server of any kind.
pub(crate) fn connect<'a>(
    hub: &'a Hub,
    server: &'a Server,
    seen: Option<Era>,
) -> BoxFuture<'a, Result<Link, ServerError>> {
    match &server.source {
        Source::Program(program) => connect_program(hub, server, program, seen).boxed(),
        Source::Remote(remote) => connect_remote(hub, server, remote, seen).boxed(),
        Source::Interface(interface) => connect_interface(hub, server, interface).boxed(),
    }
}

/// Resolves every value of one section of the entry.
pub(crate) fn resolve(
    hub: &Hub,
    server: &Server,
    section: &str,
    written: &BTreeMap<String, Written>,
) -> Result<Values, ServerError> {
    let mut values = Vec::new();
    let mut scrubber = Scrubber::default();
    for (name, value) in written {
        let secret = value
            .resolve(&hub.options.environment, &hub.vault)
            .map_err(|source| ServerError::Credential {
                server: server.name.clone(),
                key: format!("{section}.{name}"),
                source,
            })?;
        let plain = matches!(value, Written::Text(_)) && PLAIN.contains(&name.as_str());
        if !plain {
            scrubber.add(&secret);
        }
        values.push((name.clone(), secret));
    }
    Ok(Values { values, scrubber })
}

/// Connects to a program, and publishes an event when that takes long.
async fn connect_program(
    hub: &Hub,
    server: &Server,
    program: &Program,
    seen: Option<Era>,
) -> Result<Link, ServerError> {
    let mut starting = Box::pin(start_program(hub, server, program, seen));
    if let Ok(connected) = tokio::time::timeout(SLOW_START, &mut starting).await {
        return connected;
    }
    hub.tell(Happened::SlowStart {
        server: server.name.clone(),
        after: SLOW_START,
        within: hub.options.start,
    });
    starting.await
}

async fn start_program(hub: &Hub, server: &Server, program: &Program, seen: Option<Era>) -> Result<Link, ServerError> {
    let Values { values, scrubber } = resolve(hub, server, "env", &program.env)?;
    let opening = Opening {
        server: &server.name,
        scrubber: scrubber.clone(),
        person: hub.options.person.clone(),
        seen,
        within: hub.options.start,
    };
    let unstarted = |detail: String| ServerError::Start {
        server: server.name.clone(),
        command: scrubber.clean(&program.command),
        detail: scrubber.clean(&detail),
    };
    let talk = match &program.place {
        Place::Host => {
            let start = Start {
                command: &program.command,
                args: &program.args,
                env: values,
                cwd: program.cwd.as_deref(),
            };
            let started = process::start(&start, &hub.options.environment, scrubber.clone());
            let (process, stdout, stdin) = started.map_err(|error| unstarted(plain_words::of_start(&error)))?;
            let (lines, state) = Lines::new(stdout, stdin);
            let footing = Footing {
                process: Some(process),
                _guard: None,
                stderr: None,
                state,
            };
            Talk::open(opening, lines, footing).await?
        }
        Place::Sandbox(policy) => {
            let Some(spawner) = &hub.options.spawner else {
                return Err(ServerError::NoSandbox {
                    server: server.name.clone(),
                    policy: policy.clone(),
                });
            };
            let spawn = Spawn {
                server: &server.name,
                command: &program.command,
                args: &program.args,
                env: &values,
                policy,
            };
            let started = tokio::time::timeout(hub.options.start, spawner.spawn(spawn)).await;
            let started = started.map_err(|_| ServerError::Timeout {
                server: server.name.clone(),
                step: "its start",
                after: hub.options.start,
            })?;
            let started = started.map_err(|error| unstarted(error.to_string()))?;
            let stderr = StderrTail::new(started.stderr, scrubber.clone());
            let (lines, state) = Lines::new(started.stdout, started.stdin);
            let footing = Footing {
                process: None,
                _guard: Some(started.guard),
                stderr: Some(stderr),
                state,
            };
            Talk::open(opening, lines, footing).await?
        }
    };
    Ok(Link::new(Way::Talk(Box::new(talk))))
}

async fn connect_remote(hub: &Hub, server: &Server, remote: &Remote, seen: Option<Era>) -> Result<Link, ServerError> {
    let Values { values, scrubber } = resolve(hub, server, "headers", &remote.headers)?;
    let tokens = (remote.auth == Auth::OAuth)
        .then(|| Arc::new(Tokens::new(&hub.vault, &server.name, &remote.url, scrubber.clone())));
    let footing = Footing::default();
    let carrier = Carrier::new(&values, tokens, seen == Some(Era::Modern), &footing.state);
    let carrier = carrier.map_err(|(key, error)| ServerError::Connect {
        server: server.name.clone(),
        detail: scrubber.clean(&format!("`{key}`: {error}")),
    })?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(remote.url.as_str());
    config.max_concurrent_requests = PARALLEL;
    config.retry_config = Arc::new(resuming());
    let transport = StreamableHttpClientTransport::with_client(carrier, config);
    let opening = Opening {
        server: &server.name,
        scrubber,
        person: hub.options.person.clone(),
        seen,
        within: hub.options.connect,
    };
    let talk = Talk::open(opening, transport, footing).await?;
    Ok(Link::new(Way::Talk(Box::new(talk))))
}

/// Resumes a broken stream where it stopped; the caller decides whether to repeat the call.
fn resuming() -> ExponentialBackoff {
    let mut resuming = ExponentialBackoff::default();
    resuming.max_times = Some(RESUMED);
    resuming.max_delay = Some(RESUME_WITHIN);
    resuming
}

async fn connect_interface(hub: &Hub, server: &Server, interface: &Interface) -> Result<Link, ServerError> {
    let Values { values, scrubber } = resolve(hub, server, "headers", &interface.headers)?;
    let opened = tokio::time::timeout(
        hub.options.connect,
        Api::open(&server.name, interface, &values, scrubber),
    )
    .await;
    let api = opened.map_err(|_| ServerError::Timeout {
        server: server.name.clone(),
        step: "its document",
        after: hub.options.connect,
    })??;
    Ok(Link::new(Way::Api(Box::new(api))))
}
