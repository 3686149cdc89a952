//! `data` as clap reads it.

use clap::Subcommand;

/// `data`.
#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    /// What an alias stands for, while its session is open; each time is an event of the journal
    Reveal(RevealArgs),
}

/// `data reveal`.
#[derive(Debug, clap::Args)]
pub(crate) struct RevealArgs {
    /// The alias, such as `‹email:abcd›`, with or without its brackets
    #[arg(value_name = "ALIAS")]
    pub(crate) alias: String,
    /// The session that gave it: its id, or the name under which it keeps files
    #[arg(long, value_name = "ID|NAME")]
    pub(crate) session: String,
}
