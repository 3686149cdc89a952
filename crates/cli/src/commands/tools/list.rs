//! `ringfence tools list`.

use std::process::ExitCode;

use serde_json::json;

use super::{Desk, decision, painted};
use crate::args::ToolsList;
use crate::fault::{Fault, NOT_HELD};
use crate::print::Printer;
use crate::settings::Settings;

pub(super) async fn list(args: &ToolsList, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let desk = Desk::open(&args.rules, settings, printer).await?;
    let indexed = desk.indexed(printer).await;
    let catalog = indexed.catalog();
    let entry = args.server.as_ref().map(|server| (server, catalog.server(server)));
    if let Some((server, None)) = entry {
        desk.leave().await;
        return Err(
            Fault::ours("server.unknown", format!("no tools are known of a server `{server}`"))
                .hint("`ringfence servers list` names the servers, `ringfence servers test` asks them")
                .exit(NOT_HELD),
        );
    }
    let wanted = entry.and_then(|(_, entry)| entry).map(|entry| entry.server.clone());
    let tools = catalog
        .tools()
        .iter()
        .filter(|tool| wanted.as_ref().is_none_or(|server| tool.server() == server));
    let mut rows = Vec::new();
    for tool in tools {
        let (word, rule) = decision(&desk.policy, tool);
        let says = ringfence_catalog::summary(&tool.definition.description);
        if args.json {
            rows.push(json!({ "name": tool.name.as_str(), "decision": word, "rule": rule, "server_says": says }));
        } else {
            printer.line(format!("{}  {}  {says}", painted(printer, word), tool.name).trim_end())?;
        }
    }
    desk.leave().await;
    if args.json {
        printer.json(&json!({ "tools": rows }))?;
    }
    Ok(ExitCode::SUCCESS)
}
