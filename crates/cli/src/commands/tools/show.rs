//! `ringfence tools show`: prints one tool with its declaration.

use std::process::ExitCode;

use ringfence_catalog::{Detail, Tool};
use serde_json::json;

use super::{Desk, decision, language, named};
use crate::args::ToolsShow;
use crate::fault::Fault;
use crate::print::{Printer, Style};
use crate::settings::Settings;

pub(super) async fn show(args: &ToolsShow, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let desk = Desk::open(&args.rules, settings, printer).await?;
    let (indexed, _) = desk.indexed(printer).await;
    let shown = match named(indexed.catalog(), &args.tool) {
        Ok(tool) => one(tool, args, &desk, &indexed, printer),
        Err(fault) => Err(fault),
    };
    desk.leave().await;
    shown.map(|()| ExitCode::SUCCESS)
}

fn one(
    tool: &Tool,
    args: &ToolsShow,
    desk: &Desk,
    indexed: &ringfence_gateway::Indexed,
    printer: &Printer,
) -> Result<(), Fault> {
    let (word, rule) = decision(&desk.policy, tool);
    let names = [tool.name.as_str().to_owned()];
    let described = desk.look(indexed, |view| view.describe(&names, Detail::Full, language(args.lang)));
    let described = described.map_err(|error| Fault::ours("tool.describe", error.to_string()))?;
    if args.json {
        return printer.json(&json!({
            "name": tool.name.as_str(),
            "decision": word,
            "rule": rule,
            "digest": tool.digest.to_string(),
            "definition": tool.definition,
            "tokens": described.tokens,
        }));
    }
    printer.line(&format!(
        "{}  {word} by `{rule}`",
        printer.paint(tool.name.as_str(), Style::Strong)
    ))?;
    printer.line(&format!("digest {}", tool.digest))?;
    for shown in &described.tools {
        if let Some(says) = &shown.server_says {
            printer.line(&format!("server says: {says}"))?;
        }
        if let Some(stub) = &shown.stub {
            printer.line("")?;
            printer.line(stub)?;
        }
    }
    printer.aside(&format!("{} tokens for a model", described.tokens));
    Ok(())
}
