//! `ringfence tools list`: prints the catalog page by page.

use std::num::NonZeroUsize;
use std::process::ExitCode;

use ringfence_catalog::{Catalog, Listed};
use serde_json::json;

use super::{Desk, decision, more, painted};
use crate::args::ToolsList;
use crate::fault::{Fault, NOT_HELD};
use crate::print::Printer;
use crate::settings::Settings;

pub(super) async fn list(args: &ToolsList, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let desk = Desk::open(&args.rules, settings, printer).await?;
    let (indexed, ending) = desk.indexed(printer).await;
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
    let limit = args.limit.map_or(usize::MAX, NonZeroUsize::get);
    let listed = desk.look(&indexed, |view| {
        view.tools(
            args.server.as_deref(),
            args.domain.as_deref(),
            limit,
            args.cursor.as_deref(),
        )
    });
    let shown = match listed {
        Err(error) => Err(Fault::ours("tool.list", error.to_string()).exit(NOT_HELD)),
        Ok(listed) => page(&listed, args, &desk, catalog, printer),
    };
    desk.leave().await;
    shown.map(|()| ending)
}

fn page(listed: &Listed, args: &ToolsList, desk: &Desk, catalog: &Catalog, printer: &Printer) -> Result<(), Fault> {
    let mut rows = Vec::new();
    if !args.json && !listed.tools.is_empty() {
        printer.line(&format!("{:<7}  TOOL  DESCRIPTION", "POLICY"))?;
    }
    for tool in listed.tools.iter().filter_map(|name| catalog.get(name)) {
        let (word, rule) = decision(&desk.policy, tool);
        let says = ringfence_catalog::summary(&tool.definition.description);
        if args.json {
            rows.push(json!({ "name": tool.name.as_str(), "decision": word, "rule": rule, "server_says": says }));
        } else {
            printer.line(format!("{}  {}  {says}", painted(printer, word), tool.name).trim_end())?;
        }
    }
    if args.json {
        let (total, cursor, tokens) = (listed.total, &listed.cursor, listed.tokens);
        return printer.json(&json!({ "tools": rows, "total": total, "cursor": cursor, "tokens": tokens }));
    }
    more(listed.cursor.as_deref(), printer);
    printer.aside(&format!("{} tokens for a model: the names", listed.tokens));
    Ok(())
}
