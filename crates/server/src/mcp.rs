//! The MCP service: a few small tools over the engine, in both eras of the protocol.
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

/// The schema of a request to run a program.
pub(crate) fn run_schema() -> Option<Arc<JsonObject>> {
    let tool = tools::all(AllowedPrograms::All)
        .into_iter()
        .find(|tool| tool.name == tools::RUN)?;
    Some(tool.input_schema)
}

/// The built-in tools as a model sees them: names, descriptions and input schemas.
pub fn definitions() -> Vec<Value> {
    let shown =
        |tool: Tool| json!({ "name": tool.name, "description": tool.description, "inputSchema": *tool.input_schema });
    tools::all(AllowedPrograms::All).into_iter().map(shown).collect()
}

/// The schema of a request to save a skill.
pub(crate) fn save_schema() -> Option<Arc<JsonObject>> {
    let tool = tools::all(AllowedPrograms::All)
        .into_iter()
        .find(|tool| tool.name == tools::SAVE)?;
    Some(tool.input_schema)
}

/// The options of the MCP service.
#[derive(Debug, Clone)]
pub struct McpOptions {
    /// The policy that decides which tools are visible.
    pub policy: Arc<Policy>,
    /// Upstream tools that clients can call directly, one by one.
    pub direct: Vec<ToolPattern>,
}

/// The MCP service of an engine; clones share their state.
#[derive(Debug, Clone)]
pub struct Mcp {
    shared: Arc<Shared>,
}

/// The state that the handlers of all clients share.
#[derive(Debug)]
struct Shared {
    engine: Arc<Engine>,
    options: McpOptions,
    tools: Vec<Tool>,
    opened: form::Opened,
}

/// The source of a request's principal.
#[derive(Debug, Clone, Copy)]
enum Whose {
    /// One principal for all requests.
    Of(Principal),
    /// The principal that the transport wrote into the extensions of each request.
    OfRequest,
}

impl Mcp {
    /// Creates the service of `engine`.
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

    /// The engine behind the service.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.shared.engine
    }

    /// The handler of one client. It acts as `principal`, and ends when `gone` is cancelled.
    pub fn handler(&self, principal: Principal, gone: CancellationToken) -> Face {
        Face::new(Arc::clone(&self.shared), Whose::Of(principal), gone)
    }

    /// The handler of an HTTP client. It acts as the [`Principal`] in the extensions of each request.
    pub(crate) fn handler_by_request(&self, gone: CancellationToken) -> Face {
        Face::new(Arc::clone(&self.shared), Whose::OfRequest, gone)
    }
}
