//! `ringfence tools`: the catalog for the operator: every tool, with the policy's decision on it.

use std::process::ExitCode;
use std::sync::Arc;

use ringfence_catalog::{Catalog, Language, Noted, Tool, View};
use ringfence_engine::Engine;
use ringfence_gateway::{Gateway, Indexed};
use ringfence_policy::{Approval, Decision, History, Policy, Verdict};
use serde_json::json;

use super::run;
use crate::args::{Rules, StubLang, ToolsAccept, ToolsCommand};
use crate::fault::{Fault, NOT_HELD};
use crate::print::{Printer, Style};
use crate::settings::Settings;
use crate::settings::config::Config;
use crate::settings::rules;
use crate::settings::servers::Chosen;

mod list;
mod search;
mod show;
mod stubs;

/// Runs the subcommand of `tools`.
pub(crate) async fn start(command: ToolsCommand, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    match command {
        ToolsCommand::List(args) => list::list(&args, settings, printer).await,
        ToolsCommand::Search(args) => search::search(args, settings, printer).await,
        ToolsCommand::Show(args) => show::show(&args, settings, printer).await,
        ToolsCommand::Stubs(args) => stubs::stubs(&args, settings, printer).await,
        ToolsCommand::Accept(args) => accept(&args, settings, printer).await,
    }
}

/// The tools of all configured servers, and the policy that decides about them.
pub(crate) struct Desk {
    engine: Engine,
    policy: Arc<Policy>,
    gateway: Arc<Gateway>,
}

impl Desk {
    /// Opens the engine with the configured servers; fails if there are none.
    pub(crate) async fn open(given: &Rules, settings: &Settings, printer: &Printer) -> Result<Desk, Fault> {
        let config = Config::find(given.config.as_deref(), settings, printer)?;
        let policy = Arc::new(rules::in_force(given, None, &config)?);
        let chosen = Chosen::of(given, &config)?;
        if chosen.servers.is_empty() {
            return Err(Fault::ours("servers.none", "no tool server is configured")
                .hint("name some with `--servers FILE`, or under `servers` in `ringfence.yaml`")
                .exit(NOT_HELD));
        }
        chosen.say(printer);
        let engine = run::open(&config, chosen, settings, &run::listen()?).await?;
        match engine.gateway().cloned() {
            Some(gateway) => Ok(Desk {
                engine,
                policy,
                gateway,
            }),
            None => Err(Fault::ours("servers.none", "no tool server is configured").exit(NOT_HELD)),
        }
    }

    pub(crate) fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// The searchable catalog, and the exit code of the command. A server that cannot be listed is named in a notice, its
    /// tools are missing, and the exit code is 1.
    pub(crate) async fn indexed(&self, printer: &Printer) -> (Arc<Indexed>, ExitCode) {
        let (_, failed) = self.gateway.upstreams().catalog().await;
        for error in failed.values() {
            printer.notice(&error.to_string());
        }
        let ending = if failed.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(NOT_HELD)
        };
        (self.gateway.indexed().await, ending)
    }

    pub(crate) async fn leave(self) {
        run::leave(self.engine).await;
    }

    /// Calls `ask` with the operator's view of the catalog, with notes and learned types.
    pub(crate) fn look<T>(&self, indexed: &Indexed, ask: impl FnOnce(&View<'_>) -> T) -> T {
        let observed = self.gateway.learnt().known(indexed.catalog());
        let noted = |tool: &Tool| Noted {
            notes: ringfence_engine::notes(&self.policy, tool),
            observed: observed.get(tool.name.as_str()),
        };
        ask(&View::everything(indexed.catalog(), &indexed.index).noting(&noted))
    }
}

/// The policy's decision on a tool before its arguments are known, with the deciding rule.
pub(super) fn decision(policy: &Policy, tool: &Tool) -> (&'static str, String) {
    let decided = policy.tool(tool.name.as_str(), tool.hints(), &json!({}), &History::new());
    let word = match decided.verdict() {
        Verdict::Allow => "allow",
        Verdict::Ask if policy.outlook(&tool.name, tool.hints()).approval == Approval::Always => "ask",
        Verdict::Ask => "depends",
        // Some arguments, or an earlier call, would allow it.
        Verdict::Deny if policy.shows(&tool.name, tool.hints()) => "depends",
        Verdict::Deny => "deny",
    };
    let (Decision::Allow(rule) | Decision::Ask(rule) | Decision::Deny(rule)) = decided;
    (word, rule.as_str().to_owned())
}

pub(super) fn painted(printer: &Printer, decision: &str) -> String {
    let style = match decision {
        "allow" => Style::Good,
        "deny" => Style::Bad,
        _ => Style::Warn,
    };
    printer.paint(&format!("{decision:<7}"), style)
}

/// Prints how to get the next page, if there is one.
pub(super) fn more(cursor: Option<&str>, printer: &Printer) {
    if let Some(cursor) = cursor {
        printer.aside(&format!("there is more: `--cursor {cursor}`"));
    }
}

pub(super) fn language(lang: StubLang) -> Language {
    match lang {
        StubLang::Ts => Language::TypeScript,
        StubLang::Py => Language::Python,
        StubLang::Json => Language::Json,
    }
}

/// Finds a tool by `server.tool`, in any spelling of its name.
pub(crate) fn named<'a>(catalog: &'a Catalog, name: &str) -> Result<&'a Tool, Fault> {
    let found = name
        .split_once('.')
        .and_then(|(server, tool)| catalog.resolve(server, tool));
    found.ok_or_else(|| {
        let nearest = catalog
            .tools()
            .iter()
            .map(|tool| (strsim::damerau_levenshtein(name, tool.name.as_str()), tool))
            .filter(|(distance, tool)| name.len() <= 300 && *distance <= tool.name.as_str().len() / 3)
            .min_by_key(|(distance, _)| *distance);
        let hint = match nearest {
            Some((_, tool)) => format!("did you mean `{}`?", tool.name),
            None => "`ringfence tools list` names them, `ringfence tools search` finds them".to_owned(),
        };
        Fault::ours("tool.unknown", format!("there is no tool `{name}`"))
            .hint(hint)
            .exit(NOT_HELD)
    })
}

async fn accept(args: &ToolsAccept, settings: &Settings, printer: &Printer) -> Result<ExitCode, Fault> {
    let desk = Desk::open(&args.rules, settings, printer).await?;
    let server = args
        .tool
        .split_once('.')
        .map_or(args.tool.as_str(), |(server, _)| server);
    // Lists the server again instead of using the remembered definition.
    let ready = desk.gateway().upstreams().ready(server).await;
    let known = desk.gateway().upstreams().known();
    let accepted = match (ready, named(&known.catalog, &args.tool)) {
        (Err(error), _) => Err(Fault::ours("server.failed", error.to_string()).exit(NOT_HELD)),
        (Ok(()), Err(fault)) => Err(fault),
        (Ok(()), Ok(tool)) => {
            let accepted = desk.gateway().upstreams().accept(tool);
            accepted
                .map(|()| tool.name.to_string())
                .map_err(|error| Fault::ours("tool.pin", error.to_string()))
        }
    };
    desk.leave().await;
    printer.line(&format!("`{}` is taken as it is now", accepted?))?;
    Ok(ExitCode::SUCCESS)
}
