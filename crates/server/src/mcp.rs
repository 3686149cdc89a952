//! The MCP face.
mod arguments;
mod cut;
mod fault;
mod link;
mod tools;
mod words;
