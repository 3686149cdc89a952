//! `ringfence tools search`: prints the tools that match intents.

use std::process::ExitCode;

use ringfence_catalog::{Detail, Found, Search};

use super::{Desk, decision, language, more, painted};
use crate::args::{ToolDetail, ToolsSearch};
use crate::fault::{Fault, NOT_HELD};
use crate::print::{Printer, Style};
use crate::settings::Settings;

pub(super) async fn search(args: ToolsSearch, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let desk = Desk::open(&args.rules, settings, printer).await?;
    let (indexed, ending) = desk.indexed(printer).await;
    let search = Search {
        intents: args.intents,
        task: args.task,
        detail: match args.detail {
            ToolDetail::Names => Detail::Names,
            ToolDetail::Summary => Detail::Summary,
            ToolDetail::Signature => Detail::Signature,
            ToolDetail::Full => Detail::Full,
        },
        language: language(args.lang),
        limit: args.limit,
        cursor: args.cursor,
    };
    let found = desk.look(&indexed, |view| view.search(&search));
    let shown = match found {
        Err(error) => Err(Fault::ours("tool.search", error.to_string()).exit(NOT_HELD)),
        Ok(found) if args.json => printer.json(&found),
        Ok(found) => words(&found, &desk, printer),
    };
    desk.leave().await;
    shown.map(|()| ending)
}

fn words(found: &Found, desk: &Desk, printer: &Printer) -> Result<(), Fault> {
    let known = desk.gateway().upstreams().known();
    for answer in &found.intents {
        if found.intents.len() > 1 {
            printer.line(&printer.paint(&answer.intent, Style::Strong))?;
        }
        if let Some(see) = &answer.see {
            printer.line(&format!("  see `{see}` above"))?;
        }
        for hit in &answer.slots {
            let word = known
                .catalog
                .get(&hit.tool.name)
                .map_or("", |tool| decision(&desk.policy, tool).0);
            let says = hit.tool.server_says.as_deref().unwrap_or_default();
            printer.line(format!("{}  {}  {says}", painted(printer, word), hit.tool.name).trim_end())?;
            for more in [&hit.tool.signature, &hit.tool.stub].into_iter().flatten() {
                for line in more.lines() {
                    printer.line(&format!("           {line}"))?;
                }
            }
            if !hit.alike.is_empty() {
                printer.line(&format!("           similar: {}", hit.alike.join(", ")))?;
            }
        }
        if answer.slots.is_empty() && answer.see.is_none() {
            printer.line("  nothing fits")?;
        }
    }
    for (server, count) in &found.more_from_server {
        printer.aside(&format!(
            "{count} more from `{server}`: `ringfence tools list {server}`"
        ));
    }
    more(found.cursor.as_deref(), printer);
    printer.aside(&format!("{} tokens for a model", found.tokens));
    Ok(())
}
