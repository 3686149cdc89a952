//! The arguments of `token`.

use clap::{Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create an access token and print its secret once
    Create(TokenCreate),
    /// List access tokens, oldest first
    List(TokenList),
    /// Refuse an access token from now on, in every running server
    Revoke(TokenRevoke),
}

#[derive(Debug, clap::Args)]
pub(crate) struct TokenCreate {
    /// A name that tells tokens apart in lists
    #[arg(long)]
    pub(crate) name: String,
    /// The permissions of the holder
    #[arg(long, value_enum)]
    pub(crate) scope: TokenScope,
    /// Print the token as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The permissions of the holder of an access token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TokenScope {
    /// Read everybody's sessions, runs and events, and the metrics
    Viewer,
    /// Run code and see its own runs; never approve or administer
    Agent,
    /// See and stop everything
    Operator,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TokenList {
    /// Print the tokens as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TokenRevoke {
    /// The id of the access token
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}
