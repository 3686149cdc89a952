//! `ringfence servers`: lists configured tool servers, tests them, and logs in to them.

use std::process::ExitCode;

use ringfence_gateway::{
    ConfiguredServer, OpenApiDocument, ProtocolEra, ServerKind, StdioPlacement, UpstreamHealth, Upstreams,
};
use serde_json::json;

use super::server_events::ServerEvents;
use super::tools::OperatorCatalog;
use crate::args::{ServersCommand, ServersList, ServersTest};
use crate::fault::{CliFault, EXIT_CHECK_FAILED};
use crate::print::{Printer, Style, counted};
use crate::settings::CliSettings;

/// Runs the subcommand of `servers`.
pub(crate) async fn dispatch(
    command: ServersCommand,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    match command {
        ServersCommand::List(args) => list_servers(&args, settings, printer).await,
        ServersCommand::Test(args) => test_servers(&args, settings, printer).await,
        ServersCommand::Login(args) => super::login::login_to_server(&args, settings, printer).await,
    }
}

fn server_location(server: &ConfiguredServer) -> (&'static str, String) {
    match &server.source {
        ServerKind::Program(program) => match &program.place {
            StdioPlacement::Host => ("on the host", program.command.clone()),
            StdioPlacement::Sandbox(policy) => ("in a sandbox", format!("{} under `{policy}`", program.command)),
        },
        ServerKind::Remote(remote) => ("remote", remote.url.to_string()),
        ServerKind::Interface(interface) => match &interface.document {
            OpenApiDocument::File(path) => ("openapi", path.display().to_string()),
            OpenApiDocument::Content(content) => ("openapi", content.path.display().to_string()),
            OpenApiDocument::Url(url) => ("openapi", url.to_string()),
        },
    }
}

fn tool_count(upstreams: &Upstreams, server: &str) -> Option<usize> {
    let known = upstreams.snapshot();
    known.catalog.server(server).map(|entry| entry.tools.len())
}

/// The tools of a server whose definition differs from the pinned one.
fn drifted_tools(upstreams: &Upstreams, server: &str, printer: &Printer) -> Vec<String> {
    let drifted = upstreams.drifted(&upstreams.snapshot().catalog, server);
    drifted.unwrap_or_else(|error| {
        printer.notice(&error.to_string());
        Vec::new()
    })
}

async fn list_servers(args: &ServersList, settings: &CliSettings, printer: &Printer) -> Result<ExitCode, CliFault> {
    let desk = OperatorCatalog::open(&args.rules, settings, printer).await?;
    let upstreams = desk.gateway().upstreams().clone();
    let mut rows = Vec::new();
    if !args.json && upstreams.servers().iter().next().is_some() {
        printer.print_line(&format!("{:<20}  {:<17}  {:<14}  WHAT", "NAME", "RUNS", "TOOLS"))?;
    }
    for server in upstreams.servers().iter() {
        let (where_it_runs, what) = server_location(server);
        let tools = tool_count(&upstreams, &server.name);
        let drifted = drifted_tools(&upstreams, &server.name, printer);
        if args.json {
            rows.push(json!({
                "name": server.name, "place": where_it_runs, "what": what, "tools": tools, "drifted": drifted,
            }));
        } else {
            let known = tools.map_or_else(|| "not listed yet".to_owned(), |tools| counted(tools as u64, "tool"));
            printer.print_line(&format!(
                "{:<20}  {where_it_runs:<17}  {known:<14}  {what}",
                server.name
            ))?;
            for tool in drifted {
                printer.print_line(&format!("{:<20}  `{tool}` is not what it was when first used", ""))?;
            }
        }
    }
    desk.shutdown().await;
    if args.json {
        printer.print_json(&json!({ "servers": rows }))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn test_servers(args: &ServersTest, settings: &CliSettings, printer: &Printer) -> Result<ExitCode, CliFault> {
    let named = args.server.iter().cloned().collect();
    let desk = OperatorCatalog::open_for(named, &args.rules, settings, printer).await?;
    let upstreams = desk.gateway().upstreams().clone();
    let mut changes = ServerEvents::from_gateway(desk.gateway());
    let tested = upstreams.refresh(args.server.as_deref()).await;
    changes.print_pending(printer);
    let mut rows = Vec::new();
    let mut failed = false;
    let width = tested.keys().map(|server| server.chars().count()).max().unwrap_or(0);
    for (server, result) in &tested {
        failed |= result.is_err();
        let era = match upstreams.health(server) {
            Ok(UpstreamHealth::Connected { era: Some(era) }) => protocol_name(era),
            _ => "",
        };
        match result {
            _ if args.json => rows.push(match result {
                Ok(status) => json!({ "name": server, "ok": true, "tools": status.tools, "protocol": era }),
                Err(error) => json!({ "name": server, "ok": false, "error": error.to_string() }),
            }),
            Ok(status) => printer.print_line(
                format!(
                    "{}  {server:<width$}  {}  {era}",
                    printer.paint("ok    ", Style::Good),
                    counted(status.tools as u64, "tool")
                )
                .trim_end(),
            )?,
            Err(error) => {
                let text = error.to_string();
                // The line begins with the name of the server already.
                let why = text.strip_prefix(&format!("server `{server}`: ")).unwrap_or(&text);
                printer.print_line(&format!(
                    "{}  {server:<width$}  {why}",
                    printer.paint("failed", Style::Bad)
                ))?;
            }
        }
    }
    desk.shutdown().await;
    if args.json {
        printer.print_json(&json!({ "servers": rows }))?;
    }
    Ok(if failed {
        ExitCode::from(EXIT_CHECK_FAILED)
    } else {
        ExitCode::SUCCESS
    })
}

fn protocol_name(era: ProtocolEra) -> &'static str {
    match era {
        ProtocolEra::Modern => "protocol 2026-07-28",
        ProtocolEra::Legacy | ProtocolEra::Slow | ProtocolEra::Silent => "protocol 2025-11-25 or before",
    }
}
