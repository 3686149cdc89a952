//! `ringfence tools stubs`: prints or writes declarations of tools for programs.

use std::path::Path;
use std::process::ExitCode;

use super::{Desk, language};
use crate::args::ToolsStubs;
use crate::fault::{Fault, NOT_HELD, reason};
use crate::print::{Printer, count};
use crate::settings::Settings;

pub(super) async fn stubs(args: &ToolsStubs, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let desk = Desk::open(&args.rules, settings, printer).await?;
    let (indexed, ending) = desk.indexed(printer).await;
    let unknown = args
        .server
        .iter()
        .find(|server| indexed.catalog().server(server).is_none());
    if let Some(server) = unknown {
        let message = format!("no tools are known of a server `{server}`");
        desk.leave().await;
        return Err(Fault::ours("server.unknown", message)
            .hint("`ringfence servers list` names the servers")
            .exit(NOT_HELD));
    }
    let observed = desk.gateway().learnt().known(indexed.catalog());
    let wanted = |server: &str| args.server.is_empty() || args.server.iter().any(|one| one == server);
    let offers = ringfence_engine::offers(indexed.catalog(), &desk.policy, &observed, wanted);
    let written = match &args.out {
        None => printer.line(&ringfence_catalog::stubs(&offers, language(args.lang))),
        Some(out) => {
            let files = ringfence_catalog::files(&offers, language(args.lang));
            let written = write(out, &files);
            written
                .and_then(|()| printer.line(&format!("{} in `{}`", count(files.len() as u64, "file"), out.display())))
        }
    };
    let hidden = indexed
        .catalog()
        .tools()
        .iter()
        .filter(|tool| !desk.policy.shows(&tool.name, tool.hints()))
        .count();
    if offers.is_empty() && hidden > 0 {
        printer.notice(
            "the policy shows none of the tools: allow some under `tools.rules`, or `--set tools.default=allow`",
        );
    }
    desk.leave().await;
    written.map(|()| ending)
}

fn write(out: &Path, files: &[(String, String)]) -> Result<(), Fault> {
    for (name, text) in files {
        let path = out.join(name);
        let folder = path.parent().unwrap_or(out);
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|error| {
                let message = format!("cannot write `{}`: {}", path.display(), reason(&error));
                Fault::ours("files.out", message).hint("name a folder that you can write to")
            })?;
    }
    Ok(())
}
