//! `ringfence serve`: serves clients over HTTP or on standard input and output, until a signal arrives.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ringfence_engine::{Engine, Front};
use ringfence_policy::{Ceiling, Policy, ToolPattern};
use ringfence_server::{App, Auth, Endpoint, Hosts, Mcp, McpOptions};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::changes::Changes;
use super::run;
use crate::args::Serve;
use crate::fault::{Fault, chain, reason};
use crate::print::Printer;
use crate::settings::Settings;
use crate::settings::config::{Access, Config, Doors};
use crate::settings::rules;
use crate::settings::servers::{Chosen, say_missing};
use crate::signals::Interrupt;

mod telemetry;

/// The address of HTTP where neither flag nor configuration gives one.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7411);
/// The number of sandboxes that are kept ready.
const WARM: usize = 2;
/// The time for shutdown, beyond the time that runs get to end.
const PARTING: Duration = Duration::from_secs(15);

pub(crate) async fn serve(args: Serve, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let config = Config::find(args.rules.config.as_deref(), settings, printer)?;
    let interrupt = run::listen_for(config.doors.limits.drain + PARTING)?;
    // Binds the address before anything is opened, so that a failure is reported first.
    let door = if args.stdio {
        None
    } else {
        Some(Door::open(&args, &config.doors).await?)
    };
    let policy = Arc::new(rules::in_force(&args.rules, None, &config)?);
    let options = McpOptions {
        policy: Arc::clone(&policy),
        direct: patterns(&args.direct)?,
    };
    let chosen = Chosen::of(&args.rules, &config)?;
    chosen.say(printer);
    say_missing(&policy, &config, printer);
    let collector = telemetry::collector(config.doors.otlp.as_deref(), settings)?;
    let engine = open(&config, chosen, policy, settings, &interrupt).await?;
    let traces = match collector {
        Some(collector) => Some(telemetry::Traces::start(&engine, collector).await?),
        None => None,
    };
    let mut changes = Changes::of(&engine);
    let serving = async {
        match door {
            None => Box::pin(stdio(&engine, options, &config.doors, &interrupt)).await,
            Some(door) => {
                door.greet(printer);
                Box::pin(door.serve(&engine, options, config.doors, &interrupt)).await
            }
        }
    };
    let served = tokio::select! {
        served = serving => served,
        never = changes.say(printer) => match never {},
    };
    if let Some(traces) = traces {
        traces.finish().await;
    }
    Engine::part(engine).await;
    served.map(|()| ExitCode::SUCCESS)
}

/// Opens the engine for clients. A signal meanwhile ends the command, because nothing has started.
async fn open(
    config: &Config,
    chosen: Chosen,
    policy: Arc<Policy>,
    settings: &Settings,
    interrupt: &Interrupt,
) -> Result<Arc<Engine>, Fault> {
    let ceiling = config
        .ceiling
        .as_ref()
        .map_or_else(|| Ceiling::of(&policy), Ceiling::from_draft);
    let front = Front {
        policy,
        ceiling,
        idle: config.doors.idle,
        warm: WARM,
        budget: config.doors.budget,
    };
    let parts = ringfence_engine::Settings {
        front: Some(front),
        ..run::parts(settings.home()?, config, chosen)
    };
    tokio::select! {
        engine = Engine::serve(parts) => Ok(engine?),
        () = interrupt.requested() => Err(run::cancelled()),
    }
}

fn patterns(given: &[String]) -> Result<Vec<ToolPattern>, Fault> {
    let parse = |text: &String| {
        text.parse().map_err(|error: ringfence_policy::NameError| {
            Fault::ours("serve.direct", format!("--direct {text}: {error}"))
                .hint("write it like `github.list_*`; `ringfence tools list` shows the names")
        })
    };
    given.iter().map(parse).collect()
}

/// Serves one client on standard input and output, as the user of this machine.
async fn stdio(engine: &Arc<Engine>, options: McpOptions, doors: &Doors, interrupt: &Interrupt) -> Result<(), Fault> {
    let mcp = Mcp::new(Arc::clone(engine), options);
    let stop = CancellationToken::new();
    let served = {
        let mut client = std::pin::pin!(ringfence_server::serve_stdio(&mcp, run::principal(), stop.clone()));
        tokio::select! {
            served = &mut client => served,
            () = interrupt.requested() => {
                engine.drain(doors.limits.drain).await;
                stop.cancel();
                client.await
            }
        }
    };
    engine.drain(Duration::ZERO).await;
    served.map_err(|error| Fault::ours("serve.stdio", chain(&error)))
}

/// A bound HTTP listener and its access rules.
struct Door {
    listener: TcpListener,
    address: SocketAddr,
    hosts: Hosts,
    auth: Auth,
    fixtures: Fixtures,
}

/// The fixtures that replace the engine at `/mcp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fixtures {
    /// The engine serves `/mcp` as usual.
    None,
    /// The fixtures of the protocol's conformance suite.
    Conformance,
}

impl Door {
    async fn open(args: &Serve, doors: &Doors) -> Result<Door, Fault> {
        let address = args.listen.or(doors.address).unwrap_or(LISTEN);
        let auth = access(args, doors.access.clone(), address)?;
        let listener = TcpListener::bind(address).await.map_err(|error| {
            Fault::ours(
                "serve.listen",
                format!("cannot listen on {address}: {}", reason(&error)),
            )
            .hint("choose another address with `--listen`, such as `--listen 127.0.0.1:0`")
        })?;
        let address = listener.local_addr().unwrap_or(address);
        let hosts = Hosts::new(address, &doors.hosts, &doors.origins).map_err(|error| {
            Fault::ours("config.parse", error.to_string()).hint("look at `listen` in `ringfence.yaml`")
        })?;
        Ok(Door {
            listener,
            address,
            hosts,
            auth,
            fixtures: if args.conformance {
                Fixtures::Conformance
            } else {
                Fixtures::None
            },
        })
    }

    /// Prints the address, how to create an access token and how to connect a client.
    fn greet(&self, printer: &Printer) {
        let base = format!("http://{}", self.address);
        printer.notice(&format!("listening on {base}: MCP at {base}/mcp, API at {base}/api/v1"));
        if self.fixtures == Fixtures::Conformance {
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
        doors: Doors,
        interrupt: &Interrupt,
    ) -> Result<(), Fault> {
        let mcp = Mcp::new(Arc::clone(engine), options);
        let app = App {
            engine: Arc::clone(engine),
            auth: self.auth,
            hosts: self.hosts,
            limits: doors.limits,
            idle: doors.idle,
        };
        let shutdown = interrupt.requested();
        let served = match self.fixtures {
            Fixtures::None => {
                let endpoint = |options| Endpoint::new(&mcp, options);
                app.serve(self.listener, endpoint, shutdown).await
            }
            Fixtures::Conformance => app.serve(self.listener, Endpoint::conformance, shutdown).await,
        };
        served.map_err(|error| Fault::ours("serve.http", chain(&error)))
    }
}

/// The authentication of clients. An address that other machines can reach requires `auth` in the configuration.
fn access(args: &Serve, access: Option<Access>, address: SocketAddr) -> Result<Auth, Fault> {
    let loopback = address.ip().is_loopback();
    if args.conformance {
        return if loopback {
            Ok(Auth::Off(run::principal()))
        } else {
            Err(
                Fault::refused("serve.conformance", "the conformance fixtures ask for no access token")
                    .rule("listen")
                    .hint("serve them on loopback only"),
            )
        };
    }
    match access {
        None if !loopback => Err(Fault::refused(
            "serve.exposed",
            format!("{address} can be reached by other machines, and `auth` in `ringfence.yaml` says nothing of who is let in"),
        )
        .rule("auth")
        .hint("write `auth: tokens` to let in whoever has an access token, and put TLS in front; or listen on 127.0.0.1")),
        access => {
            let Access { resource, issuers } = access.unwrap_or_default();
            Ok(Auth::Tokens { resource, issuers })
        }
    }
}
