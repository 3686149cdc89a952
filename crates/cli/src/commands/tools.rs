//! `ringfence tools`: the catalog for the operator: every tool, with the policy's decision on it.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use ringfence_catalog::{Catalog, CatalogView, StubLanguage, Tool, ToolExtras};
use ringfence_engine::Engine;
use ringfence_gateway::{Gateway, SearchableCatalog};
use ringfence_policy::{ApprovalRequirement, CallHistory, Decision, Policy, RuleEffect};
use serde_json::json;

use super::run;
use crate::args::{PolicyArgs, StubLang, ToolsAccept, ToolsCommand};
use crate::fault::{CliFault, EXIT_CHECK_FAILED};
use crate::print::{Printer, Style};
use crate::settings::CliSettings;
use crate::settings::config::Config;
use crate::settings::policy_layers;
use crate::settings::servers::ResolvedServers;

mod list;
mod search;
mod show;
mod stubs;

/// Runs the subcommand of `tools`.
pub(crate) async fn dispatch(
    command: ToolsCommand,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    match command {
        ToolsCommand::List(args) => list::list_tools(&args, settings, printer).await,
        ToolsCommand::Search(args) => search::search_tools(args, settings, printer).await,
        ToolsCommand::Show(args) => show::show_tool(&args, settings, printer).await,
        ToolsCommand::Stubs(args) => stubs::print_stubs(&args, settings, printer).await,
        ToolsCommand::Accept(args) => accept_definition(&args, settings, printer).await,
    }
}

/// The tools of all configured servers, and the policy that decides about them.
pub(crate) struct OperatorCatalog {
    engine: Engine,
    policy: Arc<Policy>,
    gateway: Arc<Gateway>,
    /// The servers that the command is about; empty: all of them.
    named: Vec<String>,
}

impl OperatorCatalog {
    /// Opens the engine with the configured servers; fails if there are none.
    pub(crate) async fn open(
        given: &PolicyArgs,
        settings: &CliSettings,
        printer: &Printer,
    ) -> Result<OperatorCatalog, CliFault> {
        OperatorCatalog::open_for(Vec::new(), given, settings, printer).await
    }

    /// Opens the engine for a command about the named servers; about all of them, if there is no name, or one that is not
    /// exactly the name of a server.
    pub(crate) async fn open_for(
        mut named: Vec<String>,
        given: &PolicyArgs,
        settings: &CliSettings,
        printer: &Printer,
    ) -> Result<OperatorCatalog, CliFault> {
        let config = Config::find(given.config.as_deref(), settings, printer)?;
        let policy = Arc::new(policy_layers::policy_in_force(given, None, &config)?);
        let chosen = ResolvedServers::resolve(given, &config)?;
        if chosen.servers.is_empty() {
            return Err(CliFault::internal("servers.none", "no tool server is configured")
                .with_hint("name some with `--servers FILE`, or under `servers` in `ringfence.yaml`")
                .with_exit(EXIT_CHECK_FAILED));
        }
        if named.iter().any(|name| chosen.servers.get(name).is_none()) {
            named.clear();
        }
        chosen.print_notices(
            |server| named.is_empty() || named.iter().any(|name| name == server),
            printer,
        );
        let engine = run::open_engine(&config, chosen, settings, &run::listen_for_signals()?).await?;
        match engine.tools().tool_gateway().cloned() {
            Some(gateway) => Ok(OperatorCatalog {
                engine,
                policy,
                gateway,
                named,
            }),
            None => {
                Err(CliFault::internal("servers.none", "no tool server is configured").with_exit(EXIT_CHECK_FAILED))
            }
        }
    }

    pub(crate) fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// The searchable catalog, and the exit code of the command. A server of the command that cannot be listed is named in
    /// a notice, its tools are missing, and the exit code is 1.
    pub(crate) async fn load_index(&self, printer: &Printer) -> (Arc<SearchableCatalog>, ExitCode) {
        let upstreams = self.gateway.upstreams();
        let (known, failed) = if self.named.is_empty() {
            upstreams.list_unlisted().await
        } else {
            let mut failed = BTreeMap::new();
            for server in &self.named {
                if upstreams.snapshot().catalog.server(server).is_none() {
                    let listed = upstreams.refresh(Some(server)).await.into_iter();
                    failed.extend(listed.filter_map(|(server, listed)| Some((server, listed.err()?))));
                }
            }
            (upstreams.snapshot(), failed)
        };
        for error in failed.values() {
            printer.notice(&error.to_string());
        }
        let ending = if failed.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(EXIT_CHECK_FAILED)
        };
        (self.gateway.index_snapshot(known).await, ending)
    }

    pub(crate) async fn shutdown(self) {
        run::shutdown_engine(self.engine).await;
    }

    /// Calls `ask` with the operator's view of the catalog, with notes and learned types.
    pub(crate) fn with_view<T>(&self, indexed: &SearchableCatalog, ask: impl FnOnce(&CatalogView<'_>) -> T) -> T {
        let observed = self.gateway.observed_types().schemas_for(indexed.catalog());
        let noted = |tool: &Tool| ToolExtras {
            notes: ringfence_engine::policy_notes(&self.policy, tool),
            observed: observed.get(tool.name.as_str()),
        };
        ask(&CatalogView::everything(indexed.catalog(), &indexed.index).with_extras(&noted))
    }
}

/// The policy's decision on a tool before its arguments are known, with the deciding rule.
pub(super) fn policy_decision(policy: &Policy, tool: &Tool) -> (&'static str, String) {
    let decided = policy.decide_tool(tool.name.as_str(), tool.hints(), &json!({}), &CallHistory::new());
    let word = match decided.effect() {
        RuleEffect::Allow => "allow",
        RuleEffect::Ask
            if policy.evaluate_statically(&tool.name, tool.hints()).approval == ApprovalRequirement::Always =>
        {
            "ask"
        }
        RuleEffect::Ask => "depends",
        // Some arguments, or an earlier call, would allow it.
        RuleEffect::Deny if policy.shows_tool(&tool.name, tool.hints()) => "depends",
        RuleEffect::Deny => "deny",
    };
    let (Decision::Allow(rule) | Decision::Ask(rule) | Decision::Deny(rule)) = decided;
    (word, rule.as_str().to_owned())
}

pub(super) fn painted_decision(printer: &Printer, decision: &str) -> String {
    let style = match decision {
        "allow" => Style::Good,
        "deny" => Style::Bad,
        _ => Style::Warn,
    };
    printer.paint(&format!("{decision:<7}"), style)
}

/// Prints how to get the next page, if there is one.
pub(super) fn print_next_page(cursor: Option<&str>, printer: &Printer) {
    if let Some(cursor) = cursor {
        printer.print_to_stderr(&format!("there is more: `--cursor {cursor}`"));
    }
}

pub(super) fn catalog_language(lang: StubLang) -> StubLanguage {
    match lang {
        StubLang::Ts => StubLanguage::TypeScript,
        StubLang::Py => StubLanguage::Python,
        StubLang::Json => StubLanguage::Json,
    }
}

/// The server in a tool's full name.
fn server_of(tool: &str) -> &str {
    tool.split_once('.').map_or(tool, |(server, _)| server)
}

/// Finds a tool by `server.tool`, in any spelling of its name.
pub(crate) fn find_tool<'a>(catalog: &'a Catalog, name: &str) -> Result<&'a Tool, CliFault> {
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
        CliFault::internal("tool.unknown", format!("there is no tool `{name}`"))
            .with_hint(hint)
            .with_exit(EXIT_CHECK_FAILED)
    })
}

async fn accept_definition(
    args: &ToolsAccept,
    settings: &CliSettings,
    printer: &Printer,
) -> Result<ExitCode, CliFault> {
    let server = server_of(&args.tool);
    let desk = OperatorCatalog::open_for(vec![server.to_owned()], &args.rules, settings, printer).await?;
    // Lists the server again instead of using the remembered definition.
    let ready = desk.gateway().upstreams().ensure_connected(server).await;
    let known = desk.gateway().upstreams().snapshot();
    let accepted = match (ready, find_tool(&known.catalog, &args.tool)) {
        (Err(error), _) => Err(CliFault::internal("server.failed", error.to_string()).with_exit(EXIT_CHECK_FAILED)),
        (Ok(()), Err(fault)) => Err(fault),
        (Ok(()), Ok(tool)) => {
            let accepted = desk.gateway().upstreams().accept(tool);
            accepted
                .map(|()| tool.name.to_string())
                .map_err(|error| CliFault::internal("tool.pin", error.to_string()))
        }
    };
    desk.shutdown().await;
    printer.print_line(&format!("`{}` is taken as it is now", accepted?))?;
    Ok(ExitCode::SUCCESS)
}
