//! The arguments of `session` and `audit`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List sessions, newest first
    List(List),
    /// Show one session: its executions, limits and violations
    Show(Show),
    /// Kill everything of a session now
    Stop(StopWhat),
    /// End a session and delete its files; its journal stays
    Rm(Remove),
    /// Run a past execution again offline, without any call, and report whether it does the same and what another policy
    /// would decide
    Replay(Replay),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Replay {
    /// The id of a session or of one execution, or its beginning
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Another policy, a file or a preset, to show what it would have decided at each call
    #[arg(long, value_name = "POLICY")]
    pub(crate) against: Option<std::path::PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// List only open sessions
    #[arg(long)]
    pub(crate) open: bool,
    /// The most sessions to list
    #[arg(short = 'n', long, default_value_t = 20, value_name = "N")]
    pub(crate) limit: u32,
    /// Print the sessions as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The arguments of `session show` and `audit show`.
#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// The id of the session, or its beginning; `session show` also takes its name
    #[arg(value_name = "ID")]
    pub(crate) session: String,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct StopWhat {
    /// The id of the session, its beginning, or its name
    #[arg(value_name = "ID", required_unless_present = "all")]
    pub(crate) session: Option<String>,
    /// Stop every open session
    #[arg(long, conflicts_with = "session")]
    pub(crate) all: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Remove {
    /// The id of the session, its beginning, or its name
    #[arg(value_name = "ID")]
    pub(crate) session: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// Print the newest records
    Tail(Follow),
    /// Print the records of one session
    Show(Show),
    /// Check the hash chains; exit 1 if one is broken
    Verify(Verify),
    /// Print the whole journal as lines of JSON
    Export(Export),
    /// Remove records that are old enough; signed heads stay, and a record tells what was removed
    Prune(PruneArgs),
    /// Continue after a detected loss, such as a restored older copy or a missing mark; a record tells so
    AcceptLoss(AcceptLossArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct PruneArgs {
    /// Keep sessions that were used within this time, such as 30d; else `audit.keep` of the policy
    #[arg(long, value_name = "TIME")]
    pub(crate) keep: Option<String>,
    #[command(flatten)]
    pub(crate) rules: super::Rules,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AcceptLossArgs {
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Follow {
    /// The number of records to print
    #[arg(short = 'n', long = "lines", default_value_t = 20, value_name = "N")]
    pub(crate) count: u32,
    /// Keep printing records as they are written
    #[arg(short = 'f', long = "follow")]
    pub(crate) more: bool,
    /// Print lines of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Verify {
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Export {
    /// Include the signed heads, so that the chains can be verified elsewhere
    #[arg(long)]
    pub(crate) heads: bool,
}
