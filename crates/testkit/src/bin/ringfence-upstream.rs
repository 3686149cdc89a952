//! An upstream MCP server for tests: `ringfence-upstream MODE [COUNT]`, or `ringfence-upstream http MODE [oauth]`.
#![forbid(unsafe_code)]

use anyhow::{Context, Result};
use ringfence_testkit::upstream::{Mode, serve, stdio};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["http", mode] => serve(Mode::parse(mode, None)?, false),
        ["http", mode, "oauth"] => serve(Mode::parse(mode, None)?, true),
        [mode] => stdio(Mode::parse(mode, None)?),
        [mode, count] => stdio(Mode::parse(mode, Some(count.parse().context("a count")?))?),
        _ => anyhow::bail!("give a mode"),
    }
}
