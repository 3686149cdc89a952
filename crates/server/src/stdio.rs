//! MCP on standard input and output.
mod line;
mod message;
mod pipe;
