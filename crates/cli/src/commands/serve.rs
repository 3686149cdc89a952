//! `ringfence serve`: serves clients over HTTP or on standard input and output, until a signal arrives.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ringfence_engine::{Engine, ServeConfig};
use ringfence_policy::{Ceiling, Policy, ToolPattern};
use ringfence_server::{ClientAuth, Hosts, HttpServer, McpOptions, McpRoute, McpService};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::run;
use super::server_events::ServerEvents;
use crate::args::ServeArgs;
use crate::fault::{CliFault, error_chain, io_error_text};
use crate::print::Printer;
use crate::settings::CliSettings;
use crate::settings::config::{AccessSettings, Config, ServerSettings};
use crate::settings::policy_layers;
use crate::settings::servers::{ResolvedServers, say_missing};
use crate::signals::Interrupt;

mod telemetry;

/// The address of HTTP where neither flag nor configuration gives one.
const DEFAULT_LISTEN_ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7411);
/// The number of sandboxes that are kept ready.
const WARM_SANDBOXES: usize = 2;
/// The time for shutdown, beyond the time that runs get to end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(15);

pub(crate) async fn serve_clients(
    args: ServeArgs,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    let config = Config::find(args.rules.config.as_deref(), settings, printer)?;
    let interrupt = run::listen_with_timeout(config.doors.limits.drain + SHUTDOWN_TIMEOUT)?;
    // Binds the address before anything is opened, so that a failure is reported first.
    let door = if args.stdio {
        None
    } else {
        Some(HttpDoor::bind(&args, &config.doors).await?)
    };
    let policy = Arc::new(policy_layers::policy_in_force(&args.rules, None, &config)?);
    let options = McpOptions {
        policy: Arc::clone(&policy),
        direct: direct_patterns(&args.direct)?,
    };
    let chosen = ResolvedServers::resolve(&args.rules, &config)?;
    chosen.print_notices(|_| true, printer);
    say_missing(&policy, &config, printer);
    let collector = telemetry::configured_collector(config.doors.otlp.as_deref(), settings)?;
    let engine = open_engine(&config, chosen, policy, settings, &interrupt).await?;
    let traces = match collector {
        Some(collector) => Some(telemetry::SpanExporter::start(&engine, collector).await?),
        None => None,
    };
    let mut changes = ServerEvents::from_engine(&engine);
    let serving = async {
        match door {
            None => Box::pin(serve_stdio_client(&engine, options, &config.doors, &interrupt)).await,
            Some(door) => {
                door.print_address(printer);
                Box::pin(door.serve(&engine, options, config.doors, &interrupt)).await
            }
        }
    };
    let served = tokio::select! {
        served = serving => served,
        never = changes.print_forever(printer) => match never {},
    };
    if let Some(traces) = traces {
        traces.finish().await;
    }
    Engine::shutdown_shared(engine).await;
    served.map(|()| ExitCode::SUCCESS)
}

/// Opens the engine for clients. A signal meanwhile ends the command, because nothing has started.
async fn open_engine(
    config: &Config,
    chosen: ResolvedServers,
    policy: Arc<Policy>,
    settings: &CliSettings,
    interrupt: &Interrupt,
) -> Result<Arc<Engine>, CliFault> {
    let ceiling = config
        .ceiling
        .as_ref()
        .map_or_else(|| Ceiling::from_policy(&policy), Ceiling::from_draft);
    let front = ServeConfig {
        policy,
        ceiling,
        idle: config.doors.idle,
        warm: WARM_SANDBOXES,
        budget: config.doors.budget,
    };
    let parts = ringfence_engine::EngineConfig {
        serve: Some(front),
        ..run::engine_config(settings.home()?, config, chosen)
    };
    tokio::select! {
        engine = Engine::open_for_serving(parts) => Ok(engine?),
        () = interrupt.requested() => Err(run::cancelled_fault()),
    }
}

fn direct_patterns(given: &[String]) -> Result<Vec<ToolPattern>, CliFault> {
    let parse = |text: &String| {
        text.parse().map_err(|error: ringfence_policy::NameError| {
            CliFault::internal("serve.direct", format!("--direct {text}: {error}"))
                .with_hint("write it like `github.list_*`; `ringfence tools list` shows the names")
        })
    };
    given.iter().map(parse).collect()
}

/// Serves one client on standard input and output, as the user of this machine.
async fn serve_stdio_client(
    engine: &Arc<Engine>,
    options: McpOptions,
    doors: &ServerSettings,
    interrupt: &Interrupt,
) -> Result<(), CliFault> {
    let mcp = McpService::new(Arc::clone(engine), options);
    let stop = CancellationToken::new();
    let served = {
        let mut client = std::pin::pin!(ringfence_server::serve_stdio(
            &mcp,
            run::local_principal(),
            stop.clone()
        ));
        tokio::select! {
            served = &mut client => served,
            () = interrupt.requested() => {
                engine.runs().drain(doors.limits.drain).await;
                stop.cancel();
                client.await
            }
        }
    };
    engine.runs().drain(Duration::ZERO).await;
    served.map_err(|error| CliFault::internal("serve.stdio", error_chain(&error)))
}

/// A bound HTTP listener and its access rules.
struct HttpDoor {
    listener: TcpListener,
    address: SocketAddr,
    hosts: Hosts,
    auth: ClientAuth,
    fixtures: McpFixtures,
}

/// The fixtures that replace the engine at `/mcp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum McpFixtures {
    /// The engine serves `/mcp` as usual.
    None,
    /// The fixtures of the protocol's conformance suite.
    Conformance,
}

impl HttpDoor {
    async fn bind(args: &ServeArgs, doors: &ServerSettings) -> Result<HttpDoor, CliFault> {
        let address = args.listen.or(doors.address).unwrap_or(DEFAULT_LISTEN_ADDRESS);
        let auth = client_auth(args, doors.access.clone(), address)?;
        let listener = TcpListener::bind(address).await.map_err(|error| {
            CliFault::internal(
                "serve.listen",
                format!("cannot listen on {address}: {}", io_error_text(&error)),
            )
            .with_hint("choose another address with `--listen`, such as `--listen 127.0.0.1:0`")
        })?;
        let address = listener.local_addr().unwrap_or(address);
        let hosts = Hosts::new(address, &doors.hosts, &doors.origins).map_err(|error| {
            CliFault::internal("config.parse", error.to_string()).with_hint("look at `listen` in `ringfence.yaml`")
        })?;
        Ok(HttpDoor {
            listener,
            address,
            hosts,
            auth,
            fixtures: if args.conformance {
                McpFixtures::Conformance
            } else {
                McpFixtures::None
            },
        })
    }

    /// Prints the address, how to create an access token and how to connect a client.
    fn print_address(&self, printer: &Printer) {
        let base = format!("http://{}", self.address);
        printer.notice(&format!("listening on {base}: MCP at {base}/mcp, API at {base}/api/v1"));
        if self.fixtures == McpFixtures::Conformance {
            printer.notice("conformance fixtures only, and no access token is asked for");
            return;
        }
        printer.notice("an access token: `ringfence token create --name NAME --scope agent`");
        printer.notice(&format!(
            "Claude Code: claude mcp add --transport http ringfence {base}/mcp --header \"Authorization: Bearer $RINGFENCE_TOKEN\""
        ));
    }

    async fn serve(
        self,
        engine: &Arc<Engine>,
        options: McpOptions,
        doors: ServerSettings,
        interrupt: &Interrupt,
    ) -> Result<(), CliFault> {
        let app = HttpServer {
            engine: Arc::clone(engine),
            auth: self.auth,
            hosts: self.hosts,
            limits: doors.limits,
            idle: doors.idle,
        };
        let mcp = match self.fixtures {
            McpFixtures::None => McpRoute::Service(McpService::new(Arc::clone(engine), options)),
            McpFixtures::Conformance => McpRoute::Conformance,
        };
        let served = app.serve(self.listener, mcp, Box::pin(interrupt.requested())).await;
        served.map_err(|error| CliFault::internal("serve.http", error_chain(&error)))
    }
}

/// The authentication of clients. An address that other machines can reach requires `auth` in the configuration.
fn client_auth(args: &ServeArgs, access: Option<AccessSettings>, address: SocketAddr) -> Result<ClientAuth, CliFault> {
    let loopback = address.ip().is_loopback();
    if args.conformance {
        return if loopback {
            Ok(ClientAuth::Off(run::local_principal()))
        } else {
            Err(
                CliFault::refused("serve.conformance", "the conformance fixtures ask for no access token")
                    .with_rule("listen")
                    .with_hint("serve them on loopback only"),
            )
        };
    }
    match access {
        None if !loopback => Err(CliFault::refused(
            "serve.exposed",
            format!("{address} can be reached by other machines, and `auth` in `ringfence.yaml` says nothing of who is let in"),
        )
        .with_rule("auth")
        .with_hint("write `auth: tokens` to let in whoever has an access token, and put TLS in front; or listen on 127.0.0.1")),
        access => {
            let AccessSettings { resource, issuers } = access.unwrap_or_default();
            Ok(ClientAuth::Tokens { resource, issuers })
        }
    }
}
