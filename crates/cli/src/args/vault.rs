//! `vault` as clap reads it.

use clap::Subcommand;

/// `vault`.
#[derive(Debug, Subcommand)]
pub(crate) enum VaultCommand {
    /// Keep a secret, which is read from standard input; a terminal does not show it
    Set(VaultName),
    /// What the secrets are called
    List(VaultList),
    /// Forget a secret
    Rm(VaultName),
}

/// `vault set` and `vault rm`.
#[derive(Debug, clap::Args)]
pub(crate) struct VaultName {
    /// What the secret is called: `vault:NAME` in a server's entry
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// `vault list`.
#[derive(Debug, clap::Args)]
pub(crate) struct VaultList {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
