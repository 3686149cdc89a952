//! The arguments of `vault`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum VaultCommand {
    /// Store a secret that is read from standard input; a terminal does not show it
    Set(VaultNameArgs),
    /// List the names of the secrets
    List(VaultList),
    /// Remove a secret from the vault
    Rm(VaultNameArgs),
}

/// The name that `vault set` and `vault rm` take.
#[derive(Debug, clap::Args)]
pub(crate) struct VaultNameArgs {
    /// The name of the secret, which a server's entry refers to as `vault:NAME`
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct VaultList {
    /// Print the names as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
