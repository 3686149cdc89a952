//! Arguments of `approvals`.

use clap::{Subcommand, ValueEnum};

/// `approvals`.
#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// What waits for a person, newest first
    List(ApprovalsList),
    /// One question, with all that an answer is bound to
    Show(ApprovalsShow),
    /// Let a call that waits go on
    Approve(Approve),
    /// Refuse a call that waits
    Deny(Deny),
}

/// `approvals list`.
#[derive(Debug, clap::Args)]
pub(crate) struct ApprovalsList {
    /// Also what is answered, expired or withdrawn
    #[arg(long)]
    pub(crate) all: bool,
    /// Of one session only
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// At most so many
    #[arg(short = 'n', long, default_value_t = 50, value_name = "N")]
    pub(crate) limit: u32,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `approvals show`.
#[derive(Debug, clap::Args)]
pub(crate) struct ApprovalsShow {
    /// The question's id
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// For how long a yes holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum For {
    /// This call
    Once,
    /// Every call of this tool that the same session asks about
    Session,
}

/// `approvals approve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Approve {
    /// The question's id
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// For how long the yes holds
    #[arg(long = "for", value_enum, default_value = "once")]
    pub(crate) scope: For,
    /// For good: a rule in `rules.yaml` of the data folder, shown first; the policy's own file is never touched
    #[arg(long, conflicts_with = "scope")]
    pub(crate) always: bool,
    /// For calls like this one, as `where` of a rule says it; without, for these very arguments
    #[arg(long = "where", value_name = "JSON", requires = "always")]
    pub(crate) conditions: Option<String>,
    /// Write the rule without asking
    #[arg(short = 'y', long, requires = "always")]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) say: Say,
}

/// `approvals deny`.
#[derive(Debug, clap::Args)]
pub(crate) struct Deny {
    /// The question's id
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) say: Say,
}

/// What goes with an answer.
#[derive(Debug, clap::Args)]
pub(crate) struct Say {
    /// A word for whoever reads the answer; the program sees it with a no
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
    /// The digest that `show` printed: the answer counts only for that
    #[arg(long, value_name = "DIGEST")]
    pub(crate) shown: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
