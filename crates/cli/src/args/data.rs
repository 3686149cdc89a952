//! The arguments of `data`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    /// Print the value behind an alias while its session is open; the journal records each use
    Reveal(RevealArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct RevealArgs {
    /// The alias, such as `‹email:abcd›`, with or without its brackets
    #[arg(value_name = "ALIAS")]
    pub(crate) alias: String,
    /// The session that created the alias: its id, or the name under which it keeps files
    #[arg(long, value_name = "ID|NAME")]
    pub(crate) session: String,
}
