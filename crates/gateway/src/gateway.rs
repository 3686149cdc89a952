//! What all sessions share: the servers, the catalog of their tools, compiled schemas, and observed result types.

mod learnt;

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use ringfence_catalog::{Catalog, Checker, Digest, Index, Tool, identifier};
use ringfence_hygiene::Hints;
use ringfence_journal::{CallOutcome, ServerPlace};
use ringfence_policy::{History, Policy};
use serde_json::{Map, Value};
use tokio::sync::OnceCell;

use crate::error::CallError;
use crate::keep::Pinned;
use crate::refusal::Refusal;
use crate::servers::{Place, Source};
use crate::upstreams::{Known, Upstreams};
pub use learnt::Learnt;

/// Most compiled schemas that are cached.
const SCHEMAS: usize = 16_384;

/// The gateway to all tools, shared by the sessions of a process.
#[derive(Debug)]
pub struct Gateway {
    upstreams: Upstreams,
    schemas: Mutex<HashMap<Digest, Schemas>>,
    indexed: Mutex<Option<IndexSlot>>,
    learnt: Learnt,
}

/// The compiled schemas of a tool.
#[derive(Debug, Clone)]
struct Schemas {
    /// Checks the arguments against the input schema.
    checker: Arc<Checker>,
    /// Says which fields of its results hold personal data.
    hints: Arc<Hints>,
}

/// The index of one generation of the catalog, built once for all who wait for it.
#[derive(Debug, Clone)]
struct IndexSlot {
    generation: u64,
    index: Arc<OnceCell<Arc<Indexed>>>,
}

/// A catalog with its search index.
#[derive(Debug)]
pub struct Indexed {
    known: Arc<Known>,
    /// The search index over the catalog.
    pub index: Index,
}

impl Indexed {
    /// Returns the snapshot that the index was built from.
    pub fn known(&self) -> &Arc<Known> {
        &self.known
    }

    /// Returns the catalog that the index covers.
    pub fn catalog(&self) -> &Catalog {
        &self.known.catalog
    }
}

/// The tool that a program's names resolve to.
#[derive(Debug)]
pub(crate) enum Found {
    /// A tool of a server, with the catalog snapshot that contains it.
    Listed { known: Arc<Known>, place: usize },
    /// A tool of the built-in server.
    Own(Arc<Tool>),
}

impl Found {
    fn new(known: &Arc<Known>, server: &str, tool: &str) -> Option<Found> {
        let place = known.catalog.position(server, tool)?;
        known.catalog.tools().get(place)?;
        Some(Found::Listed {
            known: Arc::clone(known),
            place,
        })
    }

    pub(crate) fn own_tool(tool: Arc<Tool>) -> Found {
        Found::Own(tool)
    }

    /// Returns the tool if it is built in.
    pub(crate) fn own(&self) -> Option<Arc<Tool>> {
        match self {
            Found::Own(tool) => Some(Arc::clone(tool)),
            Found::Listed { .. } => None,
        }
    }
}

impl Deref for Found {
    type Target = Tool;

    fn deref(&self) -> &Tool {
        match self {
            // `new` has found it there, and a catalog never changes.
            Found::Listed { known, place } => &known.catalog.tools()[*place],
            Found::Own(tool) => tool,
        }
    }
}

impl Gateway {
    /// Creates a gateway to these servers, which stores observed result types in `learnt`.
    pub fn new(upstreams: Upstreams, learnt: Learnt) -> Gateway {
        Gateway {
            upstreams,
            schemas: Mutex::default(),
            indexed: Mutex::default(),
            learnt,
        }
    }

    /// Returns the upstream servers of the gateway.
    pub fn upstreams(&self) -> &Upstreams {
        &self.upstreams
    }

    /// Returns the types observed in results.
    pub fn learnt(&self) -> &Learnt {
        &self.learnt
    }

    /// Returns the catalog of all servers; servers that were never listed are listed now.
    pub async fn known(&self) -> Arc<Known> {
        let (known, failed) = self.upstreams.catalog().await;
        for error in failed.values() {
            let error = error.without_words();
            tracing::warn!(
                error,
                "a tool server cannot be listed; `ringfence servers test` says more"
            );
        }
        known
    }

    /// Returns the catalog with its search index. Building the index of thousands of tools takes a while and runs on
    /// another thread.
    pub async fn indexed(&self) -> Arc<Indexed> {
        let known = self.known().await;
        self.index(known).await
    }

    /// Returns the index of this catalog: an existing one, one that is being built, or a new one.
    async fn index(&self, known: Arc<Known>) -> Arc<Indexed> {
        let cell = self.index_slot(known.generation).index;
        let made = cell.get_or_init(|| async {
            let of = Arc::clone(&known);
            let made = tokio::task::spawn_blocking(move || {
                // Search results state their token cost: the first count builds a table, which takes its time too.
                ringfence_catalog::tokens::count("ready");
                Index::new(&of.catalog)
            });
            // If no thread was available, or it panicked, the index is built here, where the caller sees a panic.
            let index = made.await.unwrap_or_else(|_| Index::new(&known.catalog));
            Arc::new(Indexed {
                known: Arc::clone(&known),
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
    pub fn ready_index(&self) -> Option<Arc<Indexed>> {
        let generation = self.upstreams.known().generation;
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
                let known = gateway.upstreams.known();
                if !known.catalog.tools().is_empty() {
                    gateway.index(known).await;
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
    pub(crate) async fn tool(&self, policy: &Policy, server: &str, tool: &str) -> Result<Found, Refusal> {
        let name = self.named(server);
        let unknown = || self.unknown_tool(policy, server, tool);
        if self.upstreams.servers().is_empty() {
            return Err(
                Refusal::new("tools.none", "there are no tools: no tool server is configured")
                    .hint("tool servers are named in `ringfence.yaml`"),
            );
        }
        let name = name.ok_or_else(unknown)?;
        let name = name.as_str();
        // The cached listing decides first: starting a server must not reveal that a tool is hidden rather than
        // missing.
        let hidden = |found: &Found| {
            let decided = policy.tool(found.name.as_str(), found.hints(), &Value::Null, &History::new());
            unknown().hidden_by(decided.rule().as_str())
        };
        let remembered = Found::new(&self.upstreams.known(), name, tool);
        if let Some(found) = remembered.filter(|found| !policy.shows(&found.name, found.hints())) {
            return Err(hidden(&found));
        }
        self.upstreams.ready(name).await.map_err(|error| {
            Refusal::new("server.failed", error.to_string())
                .in_words_of_others()
                .hint("the other servers are not affected; `ringfence servers test` shows the operator more")
        })?;
        let found = Found::new(&self.upstreams.known(), name, tool).ok_or_else(unknown)?;
        if policy.shows(&found.name, found.hints()) {
            Ok(found)
        } else {
            Err(hidden(&found))
        }
    }

    /// Returns the refusal for a tool that this policy does not show, with the most similar names among those that it
    /// shows.
    fn unknown_tool(&self, policy: &Policy, server: &str, tool: &str) -> Refusal {
        let known = self.upstreams.known();
        let shown = |tool: &&Tool| policy.shows(&tool.name, tool.hints());
        let nearest = known.catalog.nearest(server, tool, shown);
        let names: Vec<String> = nearest.iter().map(|name| format!("`{name}`")).collect();
        let like = match names.as_slice() {
            [] => String::new(),
            [one] => format!("did you mean {one}? "),
            [first @ .., last] => format!("did you mean {} or {last}? ", first.join(", ")),
        };
        Refusal::new("tool.unknown", format!("there is no tool `{server}.{tool}`")).hint(format!(
            "{like}`search(\"what it should do\")` finds tools; one that the policy hides is not there either: \
             `ringfence tools list` shows the operator all of them"
        ))
    }

    /// Resolves the configured server that a program names: by its name, by the identifier of its stubs, or by a
    /// similar one.
    fn named(&self, server: &str) -> Option<String> {
        let servers = self.upstreams.servers();
        if servers.get(server).is_some() {
            return Some(server.to_owned());
        }
        let known = self.upstreams.known();
        let listed = known.catalog.servers().iter().find(|entry| entry.ident == server);
        let ident = identifier(server);
        let alike = || servers.iter().find(|one| identifier(&one.name) == ident);
        listed
            .map(|entry| entry.server.clone())
            .or_else(|| alike().map(|one| one.name.clone()))
    }

    /// Checks the arguments against the tool's schema.
    pub(crate) fn check(&self, tool: &Tool, arguments: &Value) -> Result<(), Refusal> {
        let schemas = self.schemas(tool)?;
        schemas.checker.check(arguments).map_err(|bad| {
            let problems: Vec<String> = bad
                .problems
                .iter()
                .map(|problem| match problem.path.as_str() {
                    "" => problem.message.clone(),
                    path => format!("{path}: {}", problem.message),
                })
                .collect();
            Refusal::new("tool.arguments", format!("`{}`: {}", tool.name, problems.join("; ")))
                .by("inputSchema")
                .hint(format!("parameters: {}", bad.parameters))
        })
    }

    /// Returns which fields of a tool's results hold personal data, by its output schema.
    pub(crate) fn hints(&self, tool: &Tool) -> Result<Arc<Hints>, Refusal> {
        Ok(self.schemas(tool)?.hints)
    }

    fn schemas(&self, tool: &Tool) -> Result<Schemas, Refusal> {
        let known = |schemas: &HashMap<Digest, Schemas>| schemas.get(&tool.digest).cloned();
        if let Some(schemas) = known(&self.schemas.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(schemas);
        }
        let checker = Checker::new(&tool.definition.input)
            .map_err(|error| Refusal::new("tool.schema", format!("`{}` cannot be called: {error}", tool.name)))?;
        if let Some(note) = checker.note() {
            tracing::warn!(tool = %tool.name, note, "arguments are checked in part");
        }
        let made = Schemas {
            checker: Arc::new(checker),
            hints: Arc::new(
                tool.definition
                    .output
                    .as_ref()
                    .map_or_else(Hints::none, Hints::from_schema),
            ),
        };
        let mut schemas = self.schemas.lock().unwrap_or_else(PoisonError::into_inner);
        if schemas.len() >= SCHEMAS {
            // Definitions change over time; those in use are compiled again.
            schemas.clear();
        }
        schemas.insert(tool.digest, made.clone());
        Ok(made)
    }

    /// Returns when a tool's definition was pinned, if it has changed since; the first use pins it.
    pub(crate) fn drifted(&self, tool: &Tool) -> Result<Option<Timestamp>, Refusal> {
        match self.upstreams.pin(tool).map_err(|error| unpinned(&error))? {
            Pinned::New | Pinned::Same => Ok(None),
            Pinned::Changed { since } => Ok(Some(Timestamp::try_from(since).unwrap_or(Timestamp::UNIX_EPOCH))),
        }
    }

    /// Pins a changed definition in place of the old one.
    pub(crate) fn accept(&self, tool: &Tool) -> Result<(), Refusal> {
        self.upstreams.accept(tool).map_err(|error| unpinned(&error))
    }

    /// Returns where a server runs.
    pub(crate) fn place(&self, server: &str) -> ServerPlace {
        match self.upstreams.servers().get(server).map(|server| &server.source) {
            Some(Source::Program(program)) if program.place == Place::Host => ServerPlace::Host,
            Some(Source::Program(_)) => ServerPlace::Sandbox,
            Some(Source::Remote(_) | Source::Interface(_)) | None => ServerPlace::Remote,
        }
    }

    /// Calls the tool at its server and returns its result.
    pub(crate) async fn forward(
        &self,
        tool: &Tool,
        arguments: Map<String, Value>,
        timeout: Duration,
    ) -> Result<Value, (CallOutcome, Refusal)> {
        let called = self
            .upstreams
            .call(tool.server(), &tool.definition.name, arguments, timeout)
            .await;
        let result = called.map_err(|error| failed(&error))?;
        if result.is_error {
            let refusal = Refusal::new("tool.failed", format!("`{}` failed: {}", tool.name, result.text()))
                .hint("the words are the tool's: change the arguments, or do without it");
            return Err((CallOutcome::Failed, refusal));
        }
        Ok(result.into_value())
    }

    /// Whether more results of a tool are observed.
    pub(crate) fn still_learns(&self, tool: &Tool) -> bool {
        self.learnt.still_learns(tool)
    }

    /// Observes the type of a result, from its redacted form.
    pub(crate) fn learn(&self, tool: &Tool, value: &Value) {
        self.learnt.learn(tool, value);
    }
}

/// Refuses a call whose pin cannot be read or written.
fn unpinned(error: &crate::keep::PinError) -> Refusal {
    Refusal::new("tool.pin", error.to_string())
        .by("tools.drift")
        .hint("the operator has to look at the data folder")
}

fn failed(error: &CallError) -> (CallOutcome, Refusal) {
    let (outcome, code, hint) = match error {
        CallError::Timeout { .. } => (
            CallOutcome::TimedOut,
            "limit.call",
            "ask for less at once; whether it took effect is not known",
        ),
        CallError::Lost { .. } => (
            CallOutcome::Unknown,
            "tool.unknown_effect",
            "look whether it took effect before calling it again",
        ),
        CallError::Refused { .. } | CallError::Wants { .. } => (
            CallOutcome::Failed,
            "tool.failed",
            "the words are the server's: change the arguments, or do without it",
        ),
        CallError::TooMuch { .. } => (CallOutcome::Broken, "limit.result", "ask for less at once"),
        CallError::TooDeep { .. } => (
            CallOutcome::Broken,
            "limit.depth",
            "ask for less nested data: the call was made, and its answer is not read",
        ),
        CallError::Changed { .. } => (
            CallOutcome::Broken,
            "tool.drift",
            "look at the tool again with `describe`",
        ),
        CallError::Malformed { .. } | CallError::Server(_) => (
            CallOutcome::Broken,
            "server.failed",
            "the other servers are not affected; `ringfence servers test` shows the operator more",
        ),
    };
    let refusal = Refusal::new(code, error.to_string()).hint(hint);
    let refusal = if outcome == CallOutcome::TimedOut {
        refusal.by("tools.call_timeout")
    } else {
        refusal
    };
    (outcome, refusal)
}
