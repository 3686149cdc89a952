//! `ringfence tools show`: prints one tool with its declaration.

use std::process::ExitCode;

use ringfence_catalog::{DetailLevel, Tool};
use serde_json::json;

use super::{OperatorCatalog, catalog_language, find_tool, policy_decision, server_of};
use crate::args::ToolsShow;
use crate::fault::CliFault;
use crate::print::{Printer, Style};
use crate::settings::CliSettings;

pub(super) async fn show_tool(
    args: &ToolsShow,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    let desk =
        OperatorCatalog::open_for(vec![server_of(&args.tool).to_owned()], &args.rules, settings, printer).await?;
    let (indexed, _) = desk.load_index(printer).await;
    let shown = match find_tool(indexed.catalog(), &args.tool) {
        Ok(tool) => print_tool(tool, args, &desk, &indexed, printer),
        Err(fault) => Err(fault),
    };
    desk.shutdown().await;
    shown.map(|()| ExitCode::SUCCESS)
}

fn print_tool(
    tool: &Tool,
    args: &ToolsShow,
    desk: &OperatorCatalog,
    indexed: &ringfence_gateway::SearchableCatalog,
    printer: &Printer,
) -> Result<(), CliFault> {
    let (word, rule) = policy_decision(&desk.policy, tool);
    let names = [tool.name.as_str().to_owned()];
    let described = desk.with_view(indexed, |view| {
        view.describe(&names, DetailLevel::Full, catalog_language(args.lang))
    });
    let described = described.map_err(|error| CliFault::internal("tool.describe", error.to_string()))?;
    if args.json {
        return printer.print_json(&json!({
            "name": tool.name.as_str(),
            "decision": word,
            "rule": rule,
            "digest": tool.digest.to_string(),
            "definition": tool.definition,
            "tokens": described.tokens,
        }));
    }
    printer.print_line(&format!(
        "{}  {word} by `{rule}`",
        printer.paint(tool.name.as_str(), Style::Strong)
    ))?;
    printer.print_line(&format!("digest {}", tool.digest))?;
    for shown in &described.tools {
        if let Some(says) = &shown.server_says {
            printer.print_line(&format!("server says: {says}"))?;
        }
        if let Some(stub) = &shown.stub {
            printer.print_line("")?;
            printer.print_line(stub)?;
        }
    }
    printer.print_to_stderr(&format!("{} tokens for a model", described.tokens));
    Ok(())
}
