//! The front doors: how agents, programs and people reach the engine.
//!
//! MCP over stdio and HTTP, and the JSON API. It turns what came in from outside into what [`ringfence_engine`] is asked, and
//! the answers into what each door speaks; it decides nothing, runs nothing and stores nothing itself.
#![forbid(unsafe_code)]

mod api;
mod conformance;
mod endpoint;
mod hint;
mod http;
mod mcp;
mod stdio;
mod weight;

#[doc(hidden)]
pub use conformance::{Conformance, conformance_handler};
pub use endpoint::{Endpoint, EndpointOptions};
pub use mcp::{Face, Mcp, McpOptions, definitions};
pub use stdio::fuzz;
pub use stdio::{ServeError, serve_stdio, serve_streams};

pub use self::http::{App, Auth, Hosts, HostsError, HttpError, Limits};
