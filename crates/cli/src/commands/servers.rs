//! `ringfence servers`: lists configured tool servers, tests them, and logs in to them.

use std::process::ExitCode;

use ringfence_gateway::{Condition, Document, Era, Place, Server, Source, Upstreams};
use serde_json::json;

use super::changes::Changes;
use super::tools::Desk;
use crate::args::{ServersCommand, ServersList, ServersTest};
use crate::fault::{Fault, NOT_HELD};
use crate::print::{Printer, Style, count};
use crate::settings::Settings;

/// Runs the subcommand of `servers`.
pub(crate) async fn start(command: ServersCommand, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    match command {
        ServersCommand::List(args) => list(&args, settings, printer).await,
        ServersCommand::Test(args) => test(&args, settings, printer).await,
        ServersCommand::Login(args) => super::login::login(&args, settings, printer).await,
    }
}

fn place(server: &Server) -> (&'static str, String) {
    match &server.source {
        Source::Program(program) => match &program.place {
            Place::Host => ("on the host", program.command.clone()),
            Place::Sandbox(policy) => ("in a sandbox", format!("{} under `{policy}`", program.command)),
        },
        Source::Remote(remote) => ("remote", remote.url.to_string()),
        Source::Interface(interface) => match &interface.document {
            Document::File(path) => ("openapi", path.display().to_string()),
            Document::Url(url) => ("openapi", url.to_string()),
        },
    }
}

fn tools_of(upstreams: &Upstreams, server: &str) -> Option<usize> {
    let known = upstreams.known();
    known.catalog.server(server).map(|entry| entry.tools.len())
}

/// The tools of a server whose definition differs from the pinned one.
fn drifted(upstreams: &Upstreams, server: &str, printer: &Printer) -> Vec<String> {
    let drifted = upstreams.drifted(&upstreams.known().catalog, server);
    drifted.unwrap_or_else(|error| {
        printer.notice(&error.to_string());
        Vec::new()
    })
}

async fn list(args: &ServersList, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let desk = Desk::open(&args.rules, settings, printer).await?;
    let upstreams = desk.gateway().upstreams().clone();
    let mut rows = Vec::new();
    if !args.json && upstreams.servers().iter().next().is_some() {
        printer.line(&format!("{:<20}  {:<17}  {:<14}  WHAT", "NAME", "RUNS", "TOOLS"))?;
    }
    for server in upstreams.servers().iter() {
        let (where_it_runs, what) = place(server);
        let tools = tools_of(&upstreams, &server.name);
        let drifted = drifted(&upstreams, &server.name, printer);
        if args.json {
            rows.push(json!({
                "name": server.name, "place": where_it_runs, "what": what, "tools": tools, "drifted": drifted,
            }));
        } else {
            let known = tools.map_or_else(|| "not listed yet".to_owned(), |tools| count(tools as u64, "tool"));
            printer.line(&format!(
                "{:<20}  {where_it_runs:<17}  {known:<14}  {what}",
                server.name
            ))?;
            for tool in drifted {
                printer.line(&format!("{:<20}  `{tool}` is not what it was when first used", ""))?;
            }
        }
    }
    desk.leave().await;
    if args.json {
        printer.json(&json!({ "servers": rows }))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn test(args: &ServersTest, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let desk = Desk::open(&args.rules, settings, printer).await?;
    let upstreams = desk.gateway().upstreams().clone();
    let mut changes = Changes::at(desk.gateway());
    let tested = upstreams.refresh(args.server.as_deref()).await;
    changes.say_rest(printer);
    let mut rows = Vec::new();
    let mut failed = false;
    let width = tested.keys().map(|server| server.chars().count()).max().unwrap_or(0);
    for (server, result) in &tested {
        failed |= result.is_err();
        let era = match upstreams.condition(server) {
            Ok(Condition::Connected { era: Some(era) }) => protocol(era),
            _ => "",
        };
        match result {
            _ if args.json => rows.push(match result {
                Ok(status) => json!({ "name": server, "ok": true, "tools": status.tools, "protocol": era }),
                Err(error) => json!({ "name": server, "ok": false, "error": error.to_string() }),
            }),
            Ok(status) => printer.line(
                format!(
                    "{}  {server:<width$}  {}  {era}",
                    printer.paint("ok    ", Style::Good),
                    count(status.tools as u64, "tool")
                )
                .trim_end(),
            )?,
            Err(error) => {
                let text = error.to_string();
                // The line begins with the name of the server already.
                let why = text.strip_prefix(&format!("server `{server}`: ")).unwrap_or(&text);
                printer.line(&format!(
                    "{}  {server:<width$}  {why}",
                    printer.paint("failed", Style::Bad)
                ))?;
            }
        }
    }
    desk.leave().await;
    if args.json {
        printer.json(&json!({ "servers": rows }))?;
    }
    Ok(if failed {
        ExitCode::from(NOT_HELD)
    } else {
        ExitCode::SUCCESS
    })
}

fn protocol(era: Era) -> &'static str {
    match era {
        Era::Modern => "protocol 2026-07-28",
        Era::Legacy | Era::Slow | Era::Silent => "protocol 2025-11-25 or before",
    }
}
