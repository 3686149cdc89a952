//! Arguments of `approvals`.

use clap::{Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// Calls that wait for approval, newest first
    List(ApprovalsList),
    /// One approval request, with everything that an answer is bound to
    Show(ApprovalsShow),
    /// Let a waiting call continue
    Approve(ApproveArgs),
    /// Refuse a waiting call
    Deny(DenyArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ApprovalsList {
    /// Include requests that are answered, expired or withdrawn
    #[arg(long)]
    pub(crate) all: bool,
    /// Only requests of this session
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// The most requests to list
    #[arg(short = 'n', long, default_value_t = 50, value_name = "N")]
    pub(crate) limit: u32,
    /// Print the requests as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ApprovalsShow {
    /// The id of the request, or its beginning
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Print the request as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// How long an approval holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GrantScope {
    /// Only the call that was asked about
    Once,
    /// Every call of this tool for which the same session asks
    Session,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ApproveArgs {
    /// The id of the request, or its beginning
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// How long the approval holds
    #[arg(long = "for", value_enum, default_value = "once")]
    pub(crate) scope: GrantScope,
    /// Approve for good, by a rule in `rules.yaml` of the data folder, which is shown first; policy files stay unchanged
    #[arg(long, conflicts_with = "scope")]
    pub(crate) always: bool,
    /// Limit the rule to calls with these arguments, as `where` of a rule; else to exactly the arguments of this call
    #[arg(long = "where", value_name = "JSON", requires = "always")]
    pub(crate) conditions: Option<String>,
    /// Write the rule without asking for confirmation
    #[arg(short = 'y', long, requires = "always")]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) say: AnswerArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DenyArgs {
    /// The id of the request, or its beginning
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) say: AnswerArgs,
}

/// The flags that every answer takes.
#[derive(Debug, clap::Args)]
pub(crate) struct AnswerArgs {
    /// A note for readers of the answer; with a denial the program sees it too
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
    /// The digest that `show` printed, so that the answer counts only for what was shown
    #[arg(long, value_name = "DIGEST")]
    pub(crate) shown: Option<String>,
    /// Print the answered request as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
