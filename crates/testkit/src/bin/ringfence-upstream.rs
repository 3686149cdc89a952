//! An upstream MCP server for tests: `ringfence-upstream MODE [COUNT]`, or `ringfence-upstream http MODE [oauth]`.
#![forbid(unsafe_code)]

use anyhow::{Context, Result};
use ringfence_testkit::upstream::{UpstreamMode, serve, serve_stdio};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["http", mode] => serve(UpstreamMode::parse(mode, None)?, false),
        ["http", mode, "oauth"] => serve(UpstreamMode::parse(mode, None)?, true),
        [mode] => serve_stdio(UpstreamMode::parse(mode, None)?),
        [mode, count] => serve_stdio(UpstreamMode::parse(mode, Some(count.parse().context("a count")?))?),
        _ => anyhow::bail!("give a mode"),
    }
}
