//! `ringfence tools list`: prints the catalog page by page.

use std::num::NonZeroUsize;
use std::process::ExitCode;

use ringfence_catalog::{Catalog, ToolListPage};
use serde_json::json;

use super::{OperatorCatalog, painted_decision, policy_decision, print_next_page};
use crate::args::ToolsList;
use crate::fault::{CliFault, EXIT_CHECK_FAILED};
use crate::print::Printer;
use crate::settings::CliSettings;

pub(super) async fn list_tools(
    args: &ToolsList,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    let named = args.server.iter().cloned().collect();
    let desk = OperatorCatalog::open_for(named, &args.rules, settings, printer).await?;
    let (indexed, ending) = desk.load_index(printer).await;
    let catalog = indexed.catalog();
    let entry = args.server.as_ref().map(|server| (server, catalog.server(server)));
    if let Some((server, None)) = entry {
        desk.shutdown().await;
        return Err(
            CliFault::internal("server.unknown", format!("no tools are known of a server `{server}`"))
                .with_hint("`ringfence servers list` names the servers, `ringfence servers test` asks them")
                .with_exit(EXIT_CHECK_FAILED),
        );
    }
    let limit = args.limit.map_or(usize::MAX, NonZeroUsize::get);
    let listed = desk.with_view(&indexed, |view| {
        view.list_tools(
            args.server.as_deref(),
            args.domain.as_deref(),
            limit,
            args.cursor.as_deref(),
        )
    });
    let shown = match listed {
        Err(error) => Err(CliFault::internal("tool.list", error.to_string()).with_exit(EXIT_CHECK_FAILED)),
        Ok(listed) => print_page(&listed, args, &desk, catalog, printer),
    };
    desk.shutdown().await;
    shown.map(|()| ending)
}

fn print_page(
    listed: &ToolListPage,
    args: &ToolsList,
    desk: &OperatorCatalog,
    catalog: &Catalog,
    printer: &Printer,
) -> Result<(), CliFault> {
    let mut rows = Vec::new();
    let width = listed.tools.iter().map(|name| name.as_str().chars().count());
    let width = width.max().unwrap_or(0).max("TOOL".len());
    if !args.json && !listed.tools.is_empty() {
        printer.print_line(&format!("{:<7}  {:<width$}  DESCRIPTION", "POLICY", "TOOL"))?;
    }
    for tool in listed.tools.iter().filter_map(|name| catalog.get(name)) {
        let (word, rule) = policy_decision(&desk.policy, tool);
        let says = ringfence_catalog::summary(&tool.definition.description);
        if args.json {
            rows.push(json!({ "name": tool.name.as_str(), "decision": word, "rule": rule, "server_says": says }));
        } else {
            let row = format!(
                "{}  {:<width$}  {says}",
                painted_decision(printer, word),
                tool.name.as_str()
            );
            printer.print_line(row.trim_end())?;
        }
    }
    if args.json {
        let (total, cursor, tokens) = (listed.total, &listed.cursor, listed.tokens);
        return printer.print_json(&json!({ "tools": rows, "total": total, "cursor": cursor, "tokens": tokens }));
    }
    print_next_page(listed.cursor.as_deref(), printer);
    printer.print_to_stderr(&format!("{} tokens for a model: the names", listed.tokens));
    Ok(())
}
