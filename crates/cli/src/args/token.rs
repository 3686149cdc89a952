//! Arguments of `token`.

use clap::{Subcommand, ValueEnum};

/// `token`.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make an access token; its secret is printed once
    Create(TokenCreate),
    /// Access tokens, oldest first
    List(TokenList),
    /// Refuse an access token from now on, in every running server
    Revoke(TokenRevoke),
}

/// `token create`.
#[derive(Debug, clap::Args)]
pub(crate) struct TokenCreate {
    /// What to call it
    #[arg(long)]
    pub(crate) name: String,
    /// What its holder may do
    #[arg(long, value_enum)]
    pub(crate) scope: TokenScope,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What the holder of an access token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TokenScope {
    /// Look at everybody's sessions, runs and events, and read the metrics
    Viewer,
    /// Run code and see its own runs; never approve or administer
    Agent,
    /// See and stop everything
    Operator,
}

/// `token list`.
#[derive(Debug, clap::Args)]
pub(crate) struct TokenList {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `token revoke`.
#[derive(Debug, clap::Args)]
pub(crate) struct TokenRevoke {
    /// The access token's id
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}
