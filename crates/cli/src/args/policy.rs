//! The arguments of `policy`.

use std::path::PathBuf;

use clap::Subcommand;

use super::PolicyArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Check a policy file and its examples
    Check(PolicyCheckArgs),
    /// Show the policy in force, with everything Ringfence adds
    Show(PolicyShowArgs),
    /// Explain why a tool, host or path is allowed or denied, or what a limit is
    Explain(Box<PolicyExplainArgs>),
    /// Compare two policies, in words
    Diff(PolicyDiffArgs),
    /// Print the JSON Schema of policy files
    Schema,
    /// Print the least policy that would have allowed what a session tried
    Learn(PolicyLearnArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct PolicyLearnArgs {
    /// The id of the session, or its beginning; else the newest session
    #[arg(value_name = "SESSION")]
    pub(crate) session: Option<String>,
    /// Use the newest session
    #[arg(long, conflicts_with = "session")]
    pub(crate) last: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PolicyCheckArgs {
    /// The policy file, or the name of a preset
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PolicyShowArgs {
    #[command(flatten)]
    pub(crate) rules: PolicyArgs,
    /// Print the policy as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("question").required(true))]
pub(crate) struct PolicyExplainArgs {
    #[command(flatten)]
    pub(crate) rules: PolicyArgs,
    /// Explain whether this tool may be called
    #[arg(long, value_name = "NAME", group = "question")]
    pub(crate) tool: Option<String>,
    /// The arguments of the tool call
    #[arg(long, value_name = "JSON", requires = "tool")]
    pub(crate) args: Option<String>,
    /// A tool that was called before
    #[arg(long, value_name = "NAME", requires = "tool")]
    pub(crate) after: Vec<String>,
    /// Explain whether this host may be reached; a URL also gives scheme, port and path
    #[arg(long, value_name = "HOST|URL", group = "question")]
    pub(crate) host: Option<String>,
    /// Use the policy of this session, and show what the session tried or called
    #[arg(long, value_name = "ID", conflicts_with_all = ["path", "limit"])]
    pub(crate) session: Option<String>,
    /// The port; else the default of the scheme
    #[arg(long, requires = "host")]
    pub(crate) port: Option<u16>,
    /// Use plain http instead of https
    #[arg(long, requires = "host")]
    pub(crate) http: bool,
    /// The method of the request, such as GET
    #[arg(long, requires = "host")]
    pub(crate) method: Option<String>,
    /// The path of the URL
    #[arg(long, value_name = "PATH", requires = "host")]
    pub(crate) url_path: Option<String>,
    /// Explain whether this file may be opened; absolute in the sandbox, or relative to a mounted folder
    #[arg(long, value_name = "PATH", group = "question")]
    pub(crate) path: Option<String>,
    /// Ask about writing instead of reading
    #[arg(long, requires = "path")]
    pub(crate) write: bool,
    /// Explain the value of this limit
    #[arg(long, value_name = "KEY", group = "question")]
    pub(crate) limit: Option<String>,
    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PolicyDiffArgs {
    /// The policy before: a file or a preset
    #[arg(value_name = "A")]
    pub(crate) before: PathBuf,
    /// The policy after the change
    #[arg(value_name = "B")]
    pub(crate) after: PathBuf,
    /// Print the changes as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
