//! The arguments of `session` and `audit`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List sessions, newest first
    List(SessionListArgs),
    /// Show one session: its executions, limits and violations
    Show(SessionShowArgs),
    /// Kill everything of a session now
    Stop(SessionStopArgs),
    /// End a session and delete its files; its journal stays
    Rm(SessionRmArgs),
    /// Run a past execution again offline, without any call, and report whether it does the same and what another policy
    /// would decide
    Replay(SessionReplayArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct SessionReplayArgs {
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
pub(crate) struct SessionListArgs {
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
pub(crate) struct SessionShowArgs {
    /// The id of the session, or its beginning; `session show` also takes its name
    #[arg(value_name = "ID")]
    pub(crate) session: String,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SessionStopArgs {
    /// The id of the session, its beginning, or its name
    #[arg(value_name = "ID", required_unless_present = "all")]
    pub(crate) session: Option<String>,
    /// Stop every open session
    #[arg(long, conflicts_with = "session")]
    pub(crate) all: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SessionRmArgs {
    /// The id of the session, its beginning, or its name
    #[arg(value_name = "ID")]
    pub(crate) session: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Print the newest records
    Tail(AuditTailArgs),
    /// Print the records of one session
    Show(SessionShowArgs),
    /// Check the hash chains; exit 1 if one is broken
    Verify(AuditVerifyArgs),
    /// Print the whole journal as lines of JSON
    Export(AuditExportArgs),
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
    pub(crate) rules: super::PolicyArgs,
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
pub(crate) struct AuditTailArgs {
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
pub(crate) struct AuditVerifyArgs {
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AuditExportArgs {
    /// Include the signed heads, so that the chains can be verified elsewhere
    #[arg(long)]
    pub(crate) heads: bool,
}
