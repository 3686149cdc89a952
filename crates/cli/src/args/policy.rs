//! Arguments of `policy`.

use std::path::PathBuf;

use clap::Subcommand;

use super::Rules;

/// `policy`.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Check a policy file and its examples
    Check(Check),
    /// Show the policy in force, with everything Ringfence adds
    Show(Shown),
    /// Why a tool, host or path is allowed or denied, or what a limit is
    Explain(Box<Explain>),
    /// What changed between two policies, in words
    Diff(Compare),
    /// The JSON Schema of policy files
    Schema,
    /// The least policy that would have allowed what a session tried
    Learn(Learn),
}

/// `policy learn`.
#[derive(Debug, clap::Args)]
pub(crate) struct Learn {
    /// The session's id; else the newest session
    #[arg(value_name = "SESSION")]
    pub(crate) session: Option<String>,
    /// The newest session
    #[arg(long, conflicts_with = "session")]
    pub(crate) last: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `policy check`.
#[derive(Debug, clap::Args)]
pub(crate) struct Check {
    /// The file, or the name of a preset
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `policy show`.
#[derive(Debug, clap::Args)]
pub(crate) struct Shown {
    #[command(flatten)]
    pub(crate) rules: Rules,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `policy explain`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("question").required(true))]
pub(crate) struct Explain {
    #[command(flatten)]
    pub(crate) rules: Rules,
    /// May this tool be called?
    #[arg(long, value_name = "NAME", group = "question")]
    pub(crate) tool: Option<String>,
    /// The tool's arguments
    #[arg(long, value_name = "JSON", requires = "tool")]
    pub(crate) args: Option<String>,
    /// A tool called before
    #[arg(long, value_name = "NAME", requires = "tool")]
    pub(crate) after: Vec<String>,
    /// May this host be reached? A URL says scheme, port and path too
    #[arg(long, value_name = "HOST|URL", group = "question")]
    pub(crate) host: Option<String>,
    /// By the policy of this session, with what the session tried there, or called
    #[arg(long, value_name = "ID", conflicts_with_all = ["path", "limit"])]
    pub(crate) session: Option<String>,
    /// Its port; else the scheme's own
    #[arg(long, requires = "host")]
    pub(crate) port: Option<u16>,
    /// By plain http instead of https
    #[arg(long, requires = "host")]
    pub(crate) http: bool,
    /// The method, such as GET
    #[arg(long, requires = "host")]
    pub(crate) method: Option<String>,
    /// The path of the URL
    #[arg(long, value_name = "PATH", requires = "host")]
    pub(crate) url_path: Option<String>,
    /// May this file be opened? Absolute in the sandbox, or relative to a folder that is shown
    #[arg(long, value_name = "PATH", group = "question")]
    pub(crate) path: Option<String>,
    /// For writing
    #[arg(long, requires = "path")]
    pub(crate) write: bool,
    /// What is this limit?
    #[arg(long, value_name = "KEY", group = "question")]
    pub(crate) limit: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `policy diff`.
#[derive(Debug, clap::Args)]
pub(crate) struct Compare {
    /// The policy before: a file or a preset
    #[arg(value_name = "A")]
    pub(crate) before: PathBuf,
    /// The policy after
    #[arg(value_name = "B")]
    pub(crate) after: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
