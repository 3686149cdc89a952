//! What agents meet: a handful of small MCP tools over the engine, in both eras of the protocol.
//!
//! [`Mcp`] is made once; [`serve_stdio`](crate::serve_stdio) and [`Endpoint`](crate::Endpoint) put it behind a transport. Read
//! [`face`] first: it answers each request.

mod answer;
mod arguments;
mod call;
mod cut;
mod direct;
mod discover;
mod face;
mod fault;
mod files;
mod form;
mod images;
mod link;
mod resources;
mod run;
pub(crate) mod skills;
mod task;
mod tools;
mod trace;
mod watch;
mod words;

use std::sync::Arc;

use ringfence_engine::Engine;
use ringfence_journal::Principal;
use ringfence_policy::{AllowedPrograms, Policy, ToolPattern};
use rmcp::model::{JsonObject, Tool};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub use face::Face;
pub(crate) use fault::Fault;
pub(crate) use run::api_ask;

/// The schema of what a run is asked with.
pub(crate) fn run_schema() -> Option<Arc<JsonObject>> {
    let tool = tools::all(AllowedPrograms::All)
        .into_iter()
        .find(|tool| tool.name == tools::RUN)?;
    Some(tool.input_schema)
}

/// Our own tools as a model is shown them: names, descriptions and input schemas.
pub fn definitions() -> Vec<Value> {
    let shown =
        |tool: Tool| json!({ "name": tool.name, "description": tool.description, "inputSchema": *tool.input_schema });
    tools::all(AllowedPrograms::All).into_iter().map(shown).collect()
}

/// The schema of what a skill is saved with.
pub(crate) fn save_schema() -> Option<Arc<JsonObject>> {
    let tool = tools::all(AllowedPrograms::All)
        .into_iter()
        .find(|tool| tool.name == tools::SAVE)?;
    Some(tool.input_schema)
}

/// How the face is made.
#[derive(Debug, Clone)]
pub struct McpOptions {
    /// The policy whose tools are shown.
    pub policy: Arc<Policy>,
    /// Upstream tools that are passed through one by one.
    pub direct: Vec<ToolPattern>,
}

/// The MCP face of an engine; clones are the same one.
#[derive(Debug, Clone)]
pub struct Mcp {
    shared: Arc<Shared>,
}

/// What every client's face has in common.
#[derive(Debug)]
struct Shared {
    engine: Arc<Engine>,
    options: McpOptions,
    tools: Vec<Tool>,
    opened: form::Opened,
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
enum Whose {
    /// One principal, whatever the request.
    Of(Principal),
    /// Whoever the request's own extensions name, as the door wrote it there.
    OfRequest,
}

impl Mcp {
    /// A face for `engine`.
    pub fn new(engine: Arc<Engine>, options: McpOptions) -> Mcp {
        let tools = tools::all(options.policy.limits().programs);
        Mcp {
            shared: Arc::new(Shared {
                engine,
                options,
                tools,
                opened: form::Opened::default(),
            }),
        }
    }

    /// The engine behind it.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.shared.engine
    }

    /// One client's: everything is `principal`'s, and ends when `gone` is cancelled.
    pub fn handler(&self, principal: Principal, gone: CancellationToken) -> Face {
        Face::new(Arc::clone(&self.shared), Whose::Of(principal), gone)
    }

    /// That of whoever is named in the extensions of the HTTP request, as a [`Principal`].
    pub(crate) fn handler_by_request(&self, gone: CancellationToken) -> Face {
        Face::new(Arc::clone(&self.shared), Whose::OfRequest, gone)
    }
}
