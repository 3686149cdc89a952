//! Arguments of `session` and `audit`.

use clap::Subcommand;

/// `session`.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// Sessions, newest first
    List(List),
    /// One session: its executions, limits, violations
    Show(Show),
    /// Kill everything of a session, now
    Stop(StopWhat),
    /// End a session; its journal stays
    Rm(Remove),
    /// Run a past execution again, offline and calling nothing: whether it does the same, and what another policy would say
    Replay(Replay),
}

/// `session replay`.
#[derive(Debug, clap::Args)]
pub(crate) struct Replay {
    /// The session's id, or that of one execution
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Another policy, a file or a preset: what it would have decided at each call
    #[arg(long, value_name = "POLICY")]
    pub(crate) against: Option<std::path::PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `session list`.
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Open ones only
    #[arg(long)]
    pub(crate) open: bool,
    /// At most so many
    #[arg(short = 'n', long, default_value_t = 20, value_name = "N")]
    pub(crate) limit: u32,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `session show`, `audit show`.
#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// The session's id
    #[arg(value_name = "ID")]
    pub(crate) session: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `session stop`.
#[derive(Debug, clap::Args)]
pub(crate) struct StopWhat {
    /// The session's id
    #[arg(value_name = "ID", required_unless_present = "all")]
    pub(crate) session: Option<String>,
    /// Every open session
    #[arg(long, conflicts_with = "session")]
    pub(crate) all: bool,
}

/// `session rm`.
#[derive(Debug, clap::Args)]
pub(crate) struct Remove {
    /// The session's id
    #[arg(value_name = "ID")]
    pub(crate) session: String,
}

/// `audit`.
#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// The newest records
    Tail(Follow),
    /// The records of one session
    Show(Show),
    /// Check the chains; exit 1 if one is broken
    Verify(Verify),
    /// The whole journal as lines of JSON
    Export(Export),
    /// Remove records that were kept long enough; signed heads stay, and a record says what went
    Prune(PruneArgs),
    /// Go on after a loss that was noticed: an older copy was put back, or the mark is gone; a record says so
    AcceptLoss(AcceptLossArgs),
}

/// `audit prune`.
#[derive(Debug, clap::Args)]
pub(crate) struct PruneArgs {
    /// Keep sessions that were used in this time, such as 30d; else `audit.keep` of the policy
    #[arg(long, value_name = "TIME")]
    pub(crate) keep: Option<String>,
    #[command(flatten)]
    pub(crate) rules: super::Rules,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `audit accept-loss`.
#[derive(Debug, clap::Args)]
pub(crate) struct AcceptLossArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `audit tail`.
#[derive(Debug, clap::Args)]
pub(crate) struct Follow {
    /// How many
    #[arg(short = 'n', long = "lines", default_value_t = 20, value_name = "N")]
    pub(crate) count: u32,
    /// Go on as more happens
    #[arg(short = 'f', long = "follow")]
    pub(crate) more: bool,
    /// Print lines of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `audit verify`.
#[derive(Debug, clap::Args)]
pub(crate) struct Verify {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `audit export`.
#[derive(Debug, clap::Args)]
pub(crate) struct Export {
    /// With the signed heads, so that the chains can be checked elsewhere
    #[arg(long)]
    pub(crate) heads: bool,
}
