//! `ringfence tools stubs`: prints or writes declarations of tools for programs.

use std::path::Path;
use std::process::ExitCode;

use super::{OperatorCatalog, catalog_language};
use crate::args::ToolsStubs;
use crate::fault::{CliFault, EXIT_CHECK_FAILED, io_error_text};
use crate::print::{Printer, counted};
use crate::settings::CliSettings;

pub(super) async fn print_stubs(
    args: &ToolsStubs,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    let desk = OperatorCatalog::open_for(args.server.clone(), &args.rules, settings, printer).await?;
    let (indexed, ending) = desk.load_index(printer).await;
    let unknown = args
        .server
        .iter()
        .find(|server| indexed.catalog().server(server).is_none());
    if let Some(server) = unknown {
        let message = format!("no tools are known of a server `{server}`");
        desk.shutdown().await;
        return Err(CliFault::internal("server.unknown", message)
            .with_hint("`ringfence servers list` names the servers")
            .with_exit(EXIT_CHECK_FAILED));
    }
    let observed = desk.gateway().observed_types().schemas_for(indexed.catalog());
    let wanted = |server: &str| args.server.is_empty() || args.server.iter().any(|one| one == server);
    let offers = ringfence_engine::tool_offers(indexed.catalog(), &desk.policy, &observed, wanted);
    let written = match &args.out {
        None => printer.print_line(&ringfence_catalog::render_stubs(&offers, catalog_language(args.lang))),
        Some(out) => {
            let files = ringfence_catalog::stub_files(&offers, catalog_language(args.lang));
            let written = write_files(out, &files);
            written.and_then(|()| {
                printer.print_line(&format!(
                    "{} in `{}`",
                    counted(files.len() as u64, "file"),
                    out.display()
                ))
            })
        }
    };
    let hidden = indexed
        .catalog()
        .tools()
        .iter()
        .filter(|tool| !desk.policy.shows_tool(&tool.name, tool.hints()))
        .count();
    if offers.is_empty() && hidden > 0 {
        printer.notice(
            "the policy shows none of the tools: allow some under `tools.rules`, or `--set tools.default=allow`",
        );
    }
    desk.shutdown().await;
    written.map(|()| ending)
}

fn write_files(out: &Path, files: &[(String, String)]) -> Result<(), CliFault> {
    for (name, text) in files {
        let path = out.join(name);
        let folder = path.parent().unwrap_or(out);
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|error| {
                let message = format!("cannot write `{}`: {}", path.display(), io_error_text(&error));
                CliFault::internal("files.out", message).with_hint("name a folder that you can write to")
            })?;
    }
    Ok(())
}
