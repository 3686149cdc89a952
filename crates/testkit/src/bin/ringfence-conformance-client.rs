//! The client that the conformance suite of the protocol drives: it takes the gateway's own path to an upstream server.
//!
//! The suite appends the address of its server and names the scenario in the environment.
#![forbid(unsafe_code)]

use anyhow::{Context, Result};
use ringfence_testkit::conformance;

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::args().next_back().context("the suite gives an address")?;
    let variable = |name: &str| std::env::vars().find(|(key, _)| key == name).map(|(_, value)| value);
    let context = variable("MCP_CONFORMANCE_CONTEXT").unwrap_or_else(|| "{}".to_owned());
    let context = serde_json::from_str(&context).context("the suite's context is not JSON")?;
    let scenario = variable("MCP_CONFORMANCE_SCENARIO").context("the suite names a scenario")?;
    conformance::run(&scenario, &url, &context).await
}
