//! The MCP service: a few small tools over the engine, in both eras of the protocol.
//!
//! [`McpService`] is made once; [`serve_stdio`](crate::serve_stdio) and [`Endpoint`](crate::Endpoint) put it behind a transport. Read
//! [`handler`] first: it answers each request.

mod arguments;
mod call;
mod call_result;
mod client_trace;
mod direct_tools;
mod elicitation;
mod fault;
mod files;
mod handler;
mod images;
mod resource_uri;
mod resources;
mod task;
mod text;
mod tools;
mod truncate;
mod wait;

use std::sync::Arc;

use ringfence_engine::Engine;
use ringfence_journal::Principal;
use ringfence_policy::{AllowedPrograms, Policy, ToolPattern};
use rmcp::model::Tool;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub(crate) use fault::McpFault;
pub use handler::McpHandler;
pub(crate) use tools::{api_run_schema, parse_api_run_request, skills};

/// The built-in tools as a model sees them: names, descriptions and input schemas.
pub fn tool_definitions() -> Vec<Value> {
    let shown =
        |tool: Tool| json!({ "name": tool.name, "description": tool.description, "inputSchema": *tool.input_schema });
    tools::all_definitions(AllowedPrograms::All)
        .into_iter()
        .map(shown)
        .collect()
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
pub struct McpService {
    shared: Arc<HandlerState>,
}

/// The state that the handlers of all clients share.
#[derive(Debug)]
struct HandlerState {
    engine: Arc<Engine>,
    options: McpOptions,
    tools: Vec<Tool>,
    open_forms: elicitation::OpenForms,
}

/// The source of a request's principal.
#[derive(Debug, Clone, Copy)]
enum PrincipalSource {
    /// One principal for all requests.
    Fixed(Principal),
    /// The principal that the transport wrote into the extensions of each request.
    Request,
}

impl McpService {
    /// Creates the service of `engine`.
    pub fn new(engine: Arc<Engine>, options: McpOptions) -> McpService {
        let tools = tools::all_definitions(options.policy.limits().programs);
        McpService {
            shared: Arc::new(HandlerState {
                engine,
                options,
                tools,
                open_forms: elicitation::OpenForms::default(),
            }),
        }
    }

    /// The engine behind the service.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.shared.engine
    }

    /// The handler of one client. It acts as `principal`, and ends when `gone` is cancelled.
    pub fn handler(&self, principal: Principal, gone: CancellationToken) -> McpHandler {
        McpHandler::new(Arc::clone(&self.shared), PrincipalSource::Fixed(principal), gone)
    }

    /// The handler of an HTTP client. It acts as the [`Principal`] in the extensions of each request.
    pub(crate) fn handler_by_request(&self, gone: CancellationToken) -> McpHandler {
        McpHandler::new(Arc::clone(&self.shared), PrincipalSource::Request, gone)
    }
}
