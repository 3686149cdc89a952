//! What all sessions share: the servers, the catalog of their tools, compiled schemas, and observed result types.

mod observed_types;

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use ringfence_catalog::{Catalog, DefinitionDigest, SchemaChecker, SearchIndex, Tool, identifier};
use ringfence_hygiene::SchemaHints;
use ringfence_journal::{CallOutcome, ServerPlace};
use ringfence_policy::{CallHistory, Policy};
use serde_json::{Map, Value};
use tokio::sync::OnceCell;

use crate::error::UpstreamCallError;
use crate::refusal::RequestRefusal;
use crate::server_cache::PinComparison;
use crate::servers::{ServerKind, StdioPlacement};
use crate::upstreams::{CatalogSnapshot, Upstreams};
pub use observed_types::ObservedTypes;

/// Most compiled schemas that are cached.
const MAX_CACHED_SCHEMAS: usize = 16_384;

/// The gateway to all tools, shared by the sessions of a process.
#[derive(Debug)]
pub struct Gateway {
    upstreams: Upstreams,
    schemas: Mutex<HashMap<DefinitionDigest, ToolSchemas>>,
    indexed: Mutex<Option<IndexSlot>>,
    observed_types: ObservedTypes,
}

/// The compiled schemas of a tool.
#[derive(Debug, Clone)]
struct ToolSchemas {
    /// Checks the arguments against the input schema.
    checker: Arc<SchemaChecker>,
    /// Says which fields of its results hold personal data.
    hints: Arc<SchemaHints>,
}

/// The index of one generation of the catalog, built once for all who wait for it.
#[derive(Debug, Clone)]
struct IndexSlot {
    generation: u64,
    index: Arc<OnceCell<Arc<SearchableCatalog>>>,
}

/// A catalog with its search index.
#[derive(Debug)]
pub struct SearchableCatalog {
    snapshot: Arc<CatalogSnapshot>,
    /// The search index over the catalog.
    pub index: SearchIndex,
}

impl SearchableCatalog {
    /// Returns the snapshot that the index was built from.
    pub fn snapshot(&self) -> &Arc<CatalogSnapshot> {
        &self.snapshot
    }

    /// Returns the catalog that the index covers.
    pub fn catalog(&self) -> &Catalog {
        &self.snapshot.catalog
    }
}

/// The tool that a program's names resolve to.
#[derive(Debug)]
pub(crate) enum ResolvedTool {
    /// A tool of a server, with the catalog snapshot that contains it.
    Listed { known: Arc<CatalogSnapshot>, place: usize },
    /// A tool of the built-in server.
    Builtin(Arc<Tool>),
}

impl ResolvedTool {
    fn new(known: &Arc<CatalogSnapshot>, server: &str, tool: &str) -> Option<ResolvedTool> {
        let place = known.catalog.position(server, tool)?;
        known.catalog.tools().get(place)?;
        Some(ResolvedTool::Listed {
            known: Arc::clone(known),
            place,
        })
    }

    pub(crate) fn from_builtin(tool: Arc<Tool>) -> ResolvedTool {
        ResolvedTool::Builtin(tool)
    }

    /// Returns the tool if it is built in.
    pub(crate) fn builtin(&self) -> Option<Arc<Tool>> {
        match self {
            ResolvedTool::Builtin(tool) => Some(Arc::clone(tool)),
            ResolvedTool::Listed { .. } => None,
        }
    }
}

impl Deref for ResolvedTool {
    type Target = Tool;

    fn deref(&self) -> &Tool {
        match self {
            // `new` has found it there, and a catalog never changes.
            ResolvedTool::Listed { known, place } => &known.catalog.tools()[*place],
            ResolvedTool::Builtin(tool) => tool,
        }
    }
}

impl Gateway {
    /// Creates a gateway to these servers, which stores observed result types in `learnt`.
    pub fn new(upstreams: Upstreams, observed_types: ObservedTypes) -> Gateway {
        Gateway {
            upstreams,
            schemas: Mutex::default(),
            indexed: Mutex::default(),
            observed_types,
        }
    }

    /// Returns the upstream servers of the gateway.
    pub fn upstreams(&self) -> &Upstreams {
        &self.upstreams
    }

    /// Returns the types observed in results.
    pub fn observed_types(&self) -> &ObservedTypes {
        &self.observed_types
    }

    /// Returns the catalog of all servers; servers that were never listed are listed now. One that cannot be is told once, as
    /// an event.
    pub async fn catalog_snapshot(&self) -> Arc<CatalogSnapshot> {
        self.upstreams.list_for_use().await
    }

    /// Returns the catalog with its search index. Building the index of thousands of tools takes a while and runs on
    /// another thread.
    pub async fn searchable_catalog(&self) -> Arc<SearchableCatalog> {
        let known = self.catalog_snapshot().await;
        self.index_snapshot(known).await
    }

    /// Returns the index of this catalog: an existing one, one that is being built, or a new one.
    pub async fn index_snapshot(&self, known: Arc<CatalogSnapshot>) -> Arc<SearchableCatalog> {
        let cell = self.index_slot(known.generation).index;
        let made = cell.get_or_init(|| async {
            let of = Arc::clone(&known);
            let made = tokio::task::spawn_blocking(move || {
                // Search results state their token cost: the first count builds a table, which takes its time too.
                ringfence_catalog::tokens::count_tokens("ready");
                SearchIndex::new(&of.catalog)
            });
            // If no thread was available, or it panicked, the index is built here, where the caller sees a panic.
            let index = made.await.unwrap_or_else(|_| SearchIndex::new(&known.catalog));
            Arc::new(SearchableCatalog {
                snapshot: Arc::clone(&known),
                index,
            })
        });
        Arc::clone(made.await)
    }

    fn index_slot(&self, generation: u64) -> IndexSlot {
        let mut kept = self.indexed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = kept.as_ref().filter(|slot| slot.generation == generation) {
            return slot.clone();
        }
        let slot = IndexSlot {
            generation,
            index: Arc::default(),
        };
        // A caller with an older catalog does not replace the index of a newer one.
        if kept.as_ref().is_none_or(|kept| kept.generation < generation) {
            *kept = Some(slot.clone());
        }
        slot
    }

    /// Returns the index of the current catalog, if it is already built.
    pub fn ready_index(&self) -> Option<Arc<SearchableCatalog>> {
        let generation = self.upstreams.snapshot().generation;
        let kept = self.indexed.lock().unwrap_or_else(PoisonError::into_inner);
        let current = kept.as_ref().filter(|slot| slot.generation == generation)?;
        current.index.get().cloned()
    }

    /// Builds the index of the cached listings now, and again whenever tools change, so that no search has to wait.
    /// Connects to no server. Ends with the gateway.
    pub fn spawn_indexer(self: &Arc<Self>) {
        let (gateway, mut generations) = (Arc::downgrade(self), self.upstreams.generations());
        tokio::spawn(async move {
            loop {
                generations.borrow_and_update();
                let Some(gateway) = gateway.upgrade() else { return };
                let known = gateway.upstreams.snapshot();
                if !known.catalog.tools().is_empty() {
                    gateway.index_snapshot(known).await;
                }
                drop(gateway);
                if generations.changed().await.is_err() {
                    return;
                }
            }
        });
    }

    /// Resolves the tool that a program names, as its server has it now. A tool that the policy hides is reported
    /// like an unknown one.
    pub(crate) async fn find_tool(
        &self,
        policy: &Policy,
        server: &str,
        tool: &str,
    ) -> Result<ResolvedTool, RequestRefusal> {
        let name = self.resolve_server_name(server);
        let unknown = || self.unknown_tool(policy, server, tool);
        if self.upstreams.servers().is_empty() {
            return Err(
                RequestRefusal::new("tools.none", "there are no tools: no tool server is configured")
                    .with_hint("tool servers are named in `ringfence.yaml`"),
            );
        }
        let name = name.ok_or_else(unknown)?;
        let name = name.as_str();
        // The cached listing decides first: starting a server must not reveal that a tool is hidden rather than
        // missing.
        let hidden = |found: &ResolvedTool| {
            let decided = policy.decide_tool(found.name.as_str(), found.hints(), &Value::Null, &CallHistory::new());
            unknown().hidden_by(decided.rule().as_str())
        };
        let remembered = ResolvedTool::new(&self.upstreams.snapshot(), name, tool);
        if let Some(found) = remembered.filter(|found| !policy.shows_tool(&found.name, found.hints())) {
            return Err(hidden(&found));
        }
        self.upstreams.ensure_connected(name).await.map_err(|error| {
            RequestRefusal::new("server.failed", error.to_string())
                .with_foreign_text()
                .with_hint("the other servers are not affected; `ringfence servers test` shows the operator more")
        })?;
        let found = ResolvedTool::new(&self.upstreams.snapshot(), name, tool).ok_or_else(unknown)?;
        if policy.shows_tool(&found.name, found.hints()) {
            Ok(found)
        } else {
            Err(hidden(&found))
        }
    }

    /// Returns the refusal for a tool that this policy does not show, with the most similar names among those that it
    /// shows.
    fn unknown_tool(&self, policy: &Policy, server: &str, tool: &str) -> RequestRefusal {
        let known = self.upstreams.snapshot();
        let shown = |tool: &&Tool| policy.shows_tool(&tool.name, tool.hints());
        let nearest = known.catalog.nearest_tools(server, tool, shown);
        let names: Vec<String> = nearest.iter().map(|name| format!("`{name}`")).collect();
        let like = match names.as_slice() {
            [] => String::new(),
            [one] => format!("did you mean {one}? "),
            [first @ .., last] => format!("did you mean {} or {last}? ", first.join(", ")),
        };
        RequestRefusal::new("tool.unknown", format!("there is no tool `{server}.{tool}`")).with_hint(format!(
            "{like}`search(\"what it should do\")` finds tools; one that the policy hides is not there either: \
             `ringfence tools list` shows the operator all of them"
        ))
    }

    /// Resolves the configured server that a program names: by its name, by the identifier of its stubs, or by a
    /// similar one.
    fn resolve_server_name(&self, server: &str) -> Option<String> {
        let servers = self.upstreams.servers();
        if servers.get(server).is_some() {
            return Some(server.to_owned());
        }
        let known = self.upstreams.snapshot();
        let listed = known.catalog.servers().iter().find(|entry| entry.ident == server);
        let ident = identifier(server);
        let alike = || servers.iter().find(|one| identifier(&one.name) == ident);
        listed
            .map(|entry| entry.server.clone())
            .or_else(|| alike().map(|one| one.name.clone()))
    }

    /// Checks the arguments against the tool's schema.
    pub(crate) fn check_arguments(&self, tool: &Tool, arguments: &Value) -> Result<(), RequestRefusal> {
        let schemas = self.tool_schemas(tool)?;
        schemas.checker.check_arguments(arguments).map_err(|bad| {
            let problems: Vec<String> = bad
                .problems
                .iter()
                .map(|problem| match problem.path.as_str() {
                    "" => problem.message.clone(),
                    path => format!("{path}: {}", problem.message),
                })
                .collect();
            RequestRefusal::new("tool.arguments", format!("`{}`: {}", tool.name, problems.join("; ")))
                .by_rule("inputSchema")
                .with_hint(format!("parameters: {}", bad.parameters))
        })
    }

    /// Returns which fields of a tool's results hold personal data, by its output schema.
    pub(crate) fn data_hints(&self, tool: &Tool) -> Result<Arc<SchemaHints>, RequestRefusal> {
        Ok(self.tool_schemas(tool)?.hints)
    }

    fn tool_schemas(&self, tool: &Tool) -> Result<ToolSchemas, RequestRefusal> {
        let known = |schemas: &HashMap<DefinitionDigest, ToolSchemas>| schemas.get(&tool.digest).cloned();
        if let Some(schemas) = known(&self.schemas.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(schemas);
        }
        let checker = SchemaChecker::new(&tool.definition.input).map_err(|error| {
            RequestRefusal::new("tool.schema", format!("`{}` cannot be called: {error}", tool.name))
        })?;
        if let Some(note) = checker.note() {
            tracing::warn!(tool = %tool.name, note, "arguments are checked in part");
        }
        let made = ToolSchemas {
            checker: Arc::new(checker),
            hints: Arc::new(
                tool.definition
                    .output
                    .as_ref()
                    .map_or_else(SchemaHints::none, SchemaHints::from_schema),
            ),
        };
        let mut schemas = self.schemas.lock().unwrap_or_else(PoisonError::into_inner);
        if schemas.len() >= MAX_CACHED_SCHEMAS {
            // Definitions change over time; those in use are compiled again.
            schemas.clear();
        }
        schemas.insert(tool.digest, made.clone());
        Ok(made)
    }

    /// Returns when a tool's definition was pinned, if it has changed since; the first use pins it.
    pub(crate) fn drifted_since(&self, tool: &Tool) -> Result<Option<Timestamp>, RequestRefusal> {
        match self.upstreams.pin(tool).map_err(|error| pin_refusal(&error))? {
            PinComparison::New | PinComparison::Same => Ok(None),
            PinComparison::Changed { since } => Ok(Some(Timestamp::try_from(since).unwrap_or(Timestamp::UNIX_EPOCH))),
        }
    }

    /// Pins a changed definition in place of the old one.
    pub(crate) fn accept_definition(&self, tool: &Tool) -> Result<(), RequestRefusal> {
        self.upstreams.accept(tool).map_err(|error| pin_refusal(&error))
    }

    /// Returns where a server runs.
    pub(crate) fn server_place(&self, server: &str) -> ServerPlace {
        match self.upstreams.servers().get(server).map(|server| &server.source) {
            Some(ServerKind::Program(program)) if program.place == StdioPlacement::Host => ServerPlace::Host,
            Some(ServerKind::Program(_)) => ServerPlace::Sandbox,
            Some(ServerKind::Remote(_) | ServerKind::Interface(_)) | None => ServerPlace::Remote,
        }
    }

    /// Calls the tool at its server and returns its result.
    pub(crate) async fn forward(
        &self,
        tool: &Tool,
        arguments: Map<String, Value>,
        timeout: Duration,
    ) -> Result<Value, (CallOutcome, RequestRefusal)> {
        let called = self
            .upstreams
            .call(tool.server(), &tool.definition.name, arguments, timeout)
            .await;
        let result = called.map_err(|error| failed_call(&error))?;
        if result.is_error {
            let refusal = RequestRefusal::new("tool.failed", format!("`{}` failed: {}", tool.name, result.text()))
                .with_hint("the words are the tool's: change the arguments, or do without it");
            return Err((CallOutcome::Failed, refusal));
        }
        Ok(result.into_value())
    }

    /// Whether more results of a tool are observed.
    pub(crate) fn still_learns(&self, tool: &Tool) -> bool {
        self.observed_types.still_learns(tool)
    }

    /// Observes the type of a result, from its redacted form.
    pub(crate) fn learn_result_type(&self, tool: &Tool, value: &Value) {
        self.observed_types.learn(tool, value);
    }
}

/// Refuses a call whose pin cannot be read or written.
fn pin_refusal(error: &crate::server_cache::PinError) -> RequestRefusal {
    RequestRefusal::new("tool.pin", error.to_string())
        .by_rule("tools.drift")
        .with_hint("the operator has to look at the data folder")
}

fn failed_call(error: &UpstreamCallError) -> (CallOutcome, RequestRefusal) {
    let (outcome, code, hint) = match error {
        UpstreamCallError::Timeout { .. } => (
            CallOutcome::TimedOut,
            "limit.call",
            "ask for less at once; whether it took effect is not known",
        ),
        UpstreamCallError::Lost { .. } => (
            CallOutcome::Unknown,
            "tool.unknown_effect",
            "look whether it took effect before calling it again",
        ),
        UpstreamCallError::Refused { .. } | UpstreamCallError::Wants { .. } => (
            CallOutcome::Failed,
            "tool.failed",
            "the words are the server's: change the arguments, or do without it",
        ),
        UpstreamCallError::TooMuch { .. } => (CallOutcome::Broken, "limit.result", "ask for less at once"),
        UpstreamCallError::TooDeep { .. } => (
            CallOutcome::Broken,
            "limit.depth",
            "ask for less nested data: the call was made, and its answer is not read",
        ),
        UpstreamCallError::Changed { .. } => (
            CallOutcome::Broken,
            "tool.drift",
            "look at the tool again with `describe`",
        ),
        UpstreamCallError::Malformed { .. } | UpstreamCallError::Server(_) => (
            CallOutcome::Broken,
            "server.failed",
            "the other servers are not affected; `ringfence servers test` shows the operator more",
        ),
    };
    let refusal = RequestRefusal::new(code, error.to_string()).with_hint(hint);
    let refusal = if outcome == CallOutcome::TimedOut {
        refusal.by_rule("tools.call_timeout")
    } else {
        refusal
    };
    (outcome, refusal)
}
