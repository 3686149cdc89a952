//! `ringfence tools search`: prints the tools that match intents.

use std::process::ExitCode;

use ringfence_catalog::{DetailLevel, SearchPage, ToolSearch};

use super::{OperatorCatalog, catalog_language, painted_decision, policy_decision, print_next_page};
use crate::args::{ToolDetail, ToolsSearch};
use crate::fault::{CliFault, EXIT_CHECK_FAILED};
use crate::print::{Printer, Style};
use crate::settings::CliSettings;

pub(super) async fn search_tools(
    args: ToolsSearch,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    let desk = OperatorCatalog::open(&args.rules, settings, printer).await?;
    let (indexed, ending) = desk.load_index(printer).await;
    let search = ToolSearch {
        intents: args.intents,
        task: args.task,
        detail: match args.detail {
            ToolDetail::Names => DetailLevel::Names,
            ToolDetail::Summary => DetailLevel::Summary,
            ToolDetail::Signature => DetailLevel::Signature,
            ToolDetail::Full => DetailLevel::Full,
        },
        language: catalog_language(args.lang),
        limit: args.limit,
        cursor: args.cursor,
    };
    let found = desk.with_view(&indexed, |view| view.search(&search));
    let shown = match found {
        Err(error) => Err(CliFault::internal("tool.search", error.to_string()).with_exit(EXIT_CHECK_FAILED)),
        Ok(found) if args.json => printer.print_json(&found),
        Ok(found) => print_found(&found, &desk, printer),
    };
    desk.shutdown().await;
    shown.map(|()| ending)
}

fn print_found(found: &SearchPage, desk: &OperatorCatalog, printer: &Printer) -> Result<(), CliFault> {
    let known = desk.gateway().upstreams().snapshot();
    for answer in &found.intents {
        if found.intents.len() > 1 {
            printer.print_line(&printer.paint(&answer.intent, Style::Strong))?;
        }
        if let Some(see) = &answer.see {
            printer.print_line(&format!("  see `{see}` above"))?;
        }
        for hit in &answer.slots {
            let word = known
                .catalog
                .get(&hit.tool.name)
                .map_or("", |tool| policy_decision(&desk.policy, tool).0);
            let says = hit.tool.server_says.as_deref().unwrap_or_default();
            printer.print_line(format!("{}  {}  {says}", painted_decision(printer, word), hit.tool.name).trim_end())?;
            for more in [&hit.tool.signature, &hit.tool.stub].into_iter().flatten() {
                for line in more.lines() {
                    printer.print_line(&format!("           {line}"))?;
                }
            }
            if !hit.alike.is_empty() {
                printer.print_line(&format!("           similar: {}", hit.alike.join(", ")))?;
            }
        }
        if answer.slots.is_empty() && answer.see.is_none() {
            printer.print_line("  nothing fits")?;
        }
    }
    for (server, count) in &found.more_from_server {
        printer.print_to_stderr(&format!(
            "{count} more from `{server}`: `ringfence tools list {server}`"
        ));
    }
    print_next_page(found.cursor.as_deref(), printer);
    printer.print_to_stderr(&format!("{} tokens for a model", found.tokens));
    Ok(())
}
