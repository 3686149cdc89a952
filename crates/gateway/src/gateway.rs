//! What all sessions share at the door: the servers, what is known of their tools, the compiled schemas, the learnt types.

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

/// Compiled schemas that are kept.
const SCHEMAS: usize = 16_384;

/// The door.
#[derive(Debug)]
pub struct Gateway {
    upstreams: Upstreams,
    schemas: Mutex<HashMap<Digest, Schemas>>,
    indexed: Mutex<Option<IndexSlot>>,
    learnt: Learnt,
}

/// What the schemas of a tool come to.
#[derive(Debug, Clone)]
struct Schemas {
    /// What its arguments are.
    checker: Arc<Checker>,
    /// What is personal data in its answers.
    hints: Arc<Hints>,
}

/// The index of one generation of the catalog, made once for all who wait for it.
#[derive(Debug, Clone)]
struct IndexSlot {
    generation: u64,
    index: Arc<OnceCell<Arc<Indexed>>>,
}

/// A catalog made searchable.
#[derive(Debug)]
pub struct Indexed {
    known: Arc<Known>,
    /// The index over it.
    pub index: Index,
}

impl Indexed {
    /// What it was made of.
    pub fn known(&self) -> &Arc<Known> {
        &self.known
    }

    /// The catalog.
    pub fn catalog(&self) -> &Catalog {
        &self.known.catalog
    }
}

/// A tool that a program means.
#[derive(Debug)]
pub(crate) enum Found {
    /// One of a server, and the catalog that it stands in.
    Listed { known: Arc<Known>, place: usize },
    /// One of our own.
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

    /// The tool, where it is our own.
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
            // `new` has seen it there, and a catalog never changes.
            Found::Listed { known, place } => &known.catalog.tools()[*place],
            Found::Own(tool) => tool,
        }
    }
}

impl Gateway {
    /// A door to these servers, which remembers types learnt from results in `learnt`.
    pub fn new(upstreams: Upstreams, learnt: Learnt) -> Gateway {
        Gateway {
            upstreams,
            schemas: Mutex::default(),
            indexed: Mutex::default(),
            learnt,
        }
    }

    /// The servers.
    pub fn upstreams(&self) -> &Upstreams {
        &self.upstreams
    }

    /// Types learnt from results.
    pub fn learnt(&self) -> &Learnt {
        &self.learnt
    }

    /// Everything known of all servers; those never listed are listed now.
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

    /// The same, searchable. An index over thousands of tools takes a while to make, so others go on meanwhile.
    pub async fn indexed(&self) -> Arc<Indexed> {
        let known = self.known().await;
        self.index(known).await
    }

    /// The index of this catalog: the one that is there, the one that is being made, or a new one.
    async fn index(&self, known: Arc<Known>) -> Arc<Indexed> {
        let cell = self.index_slot(known.generation).index;
        let made = cell.get_or_init(|| async {
            let of = Arc::clone(&known);
            let made = tokio::task::spawn_blocking(move || {
                // An answer says its cost: the first count of tokens makes a table, which takes its time as well.
                ringfence_catalog::tokens::count("ready");
                Index::new(&of.catalog)
            });
            // A thread that could not be had, or broke: the same here, where whoever asked sees it break.
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
        // Whoever still builds on an older catalog does not replace the index of a newer one.
        if kept.as_ref().is_none_or(|kept| kept.generation < generation) {
            *kept = Some(slot.clone());
        }
        slot
    }

    /// The index of the catalog as it is now, where it is made already.
    pub fn ready_index(&self) -> Option<Arc<Indexed>> {
        let generation = self.upstreams.known().generation;
        let kept = self.indexed.lock().unwrap_or_else(PoisonError::into_inner);
        let current = kept.as_ref().filter(|slot| slot.generation == generation)?;
        current.index.get().cloned()
    }

    /// Makes the index of what is remembered of the servers now, and anew whenever their tools change, so that no search has to
    /// wait for it. Connects to no server. Ends with the gateway.
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

    /// The tool that a program means, as its server has it now. One that the policy hides is answered like one that is not
    /// there.
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
        // What is remembered decides first: a hidden tool must not be told from a missing one by a server that starts.
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

    /// The refusal of a tool that is not there for this policy, with the names most like it among those that are.
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

    /// The configured server that a program means: by name, by the identifier of its stubs, or by one that reads like it.
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

    /// Whether the arguments are what the tool's schema asks for.
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

    /// What a tool's own schema says is personal data in its answers.
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
            // Definitions come and go; those in use are compiled again.
            schemas.clear();
        }
        schemas.insert(tool.digest, made.clone());
        Ok(made)
    }

    /// When a tool's definition was pinned, if it is another one now; its first use pins it.
    pub(crate) fn drifted(&self, tool: &Tool) -> Result<Option<Timestamp>, Refusal> {
        match self.upstreams.pin(tool).map_err(|error| unpinned(&error))? {
            Pinned::New | Pinned::Same => Ok(None),
            Pinned::Changed { since } => Ok(Some(Timestamp::try_from(since).unwrap_or(Timestamp::UNIX_EPOCH))),
        }
    }

    /// Takes a changed definition for the pinned one.
    pub(crate) fn accept(&self, tool: &Tool) -> Result<(), Refusal> {
        self.upstreams.accept(tool).map_err(|error| unpinned(&error))
    }

    /// Where a server runs.
    pub(crate) fn place(&self, server: &str) -> ServerPlace {
        match self.upstreams.servers().get(server).map(|server| &server.source) {
            Some(Source::Program(program)) if program.place == Place::Host => ServerPlace::Host,
            Some(Source::Program(_)) => ServerPlace::Sandbox,
            Some(Source::Remote(_) | Source::Interface(_)) | None => ServerPlace::Remote,
        }
    }

    /// Calls the tool at its server: its result as JSON text.
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

    /// Whether more answers of a tool teach anything.
    pub(crate) fn still_learns(&self, tool: &Tool) -> bool {
        self.learnt.still_learns(tool)
    }

    /// Learns what a tool answers with, from what may be seen of it.
    pub(crate) fn learn(&self, tool: &Tool, value: &Value) {
        self.learnt.learn(tool, value);
    }
}

/// A pin that cannot be read or written holds nothing: the call is not made.
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
