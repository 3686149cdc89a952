//! The arguments of `serve`.

use std::net::SocketAddr;

use super::PolicyArgs;

/// Parses an address with a port; `localhost` means `127.0.0.1`.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let plain = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    plain.parse().map_err(|_| "write it like `127.0.0.1:7411`".to_owned())
}

#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) rules: PolicyArgs,
    /// Where to listen for HTTP: 127.0.0.1:7411 unless `listen` in `ringfence.yaml` says otherwise
    #[arg(long, value_name = "ADDRESS", conflicts_with = "stdio", value_parser = parse_address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Speak MCP on standard input and output instead of HTTP
    #[arg(long)]
    pub(crate) stdio: bool,
    /// Offer these upstream tools one by one as well, such as `github.list_*`
    #[arg(long, value_name = "PATTERN")]
    pub(crate) direct: Vec<String>,
    /// Serve the fixtures of the protocol's conformance suite on loopback, without authentication
    #[arg(long, hide = true, conflicts_with = "stdio")]
    pub(crate) conformance: bool,
}
