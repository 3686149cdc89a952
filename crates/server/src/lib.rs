//! The servers through which agents, programs and people reach the engine.
//!
//! MCP over stdio and HTTP, and the JSON API. This crate translates requests into calls of [`ringfence_engine`] and results into
//! each protocol. It decides nothing, runs nothing and stores nothing itself.
#![forbid(unsafe_code)]

mod api;
mod client_hints;
mod conformance;
mod endpoint;
mod http;
mod json_limits;
mod mcp;
mod stdio;

#[doc(hidden)]
pub use conformance::{Conformance, conformance_handler};
pub use endpoint::{Endpoint, EndpointOptions};
pub use mcp::{McpHandler, McpOptions, McpService, tool_definitions};
pub use stdio::fuzz;
pub use stdio::{ServeError, serve_stdio, serve_streams};

pub use self::http::{ClientAuth, Hosts, HostsError, HttpLimits, HttpServer, McpRoute, ServeHttpError};
