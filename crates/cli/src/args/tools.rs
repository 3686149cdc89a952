//! Arguments of `tools` and `servers`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use super::Rules;

/// `tools`.
#[derive(Debug, Subcommand)]
pub(crate) enum ToolsCommand {
    /// Every tool, and what the policy says of it
    List(ToolsList),
    /// Tools for what should be done, best first
    Search(ToolsSearch),
    /// One tool: its declaration, its hints, what the policy says of it
    Show(ToolsShow),
    /// Declarations for programs
    Stubs(ToolsStubs),
    /// Take a tool's changed definition for good
    Accept(ToolsAccept),
}

/// `tools list`.
#[derive(Debug, clap::Args)]
pub(crate) struct ToolsList {
    /// Tools of this server only
    #[arg(value_name = "SERVER")]
    pub(crate) server: Option<String>,
    /// Tools of this domain only: a server's own tag, or the first word of its tools' names
    #[arg(long, value_name = "NAME")]
    pub(crate) domain: Option<String>,
    /// At most so many; all of them when absent
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) limit: Option<NonZeroUsize>,
    /// Go on where an earlier list ended
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
    #[command(flatten)]
    pub(crate) rules: Rules,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tools search`.
#[derive(Debug, clap::Args)]
pub(crate) struct ToolsSearch {
    /// What should be done: a short phrase for each step
    #[arg(value_name = "INTENT", required = true)]
    pub(crate) intents: Vec<String>,
    /// What it is all for
    #[arg(long, value_name = "TEXT")]
    pub(crate) task: Option<String>,
    /// How much of each tool to show
    #[arg(long, value_enum, default_value = "summary")]
    pub(crate) detail: ToolDetail,
    /// The language of signatures and declarations
    #[arg(long, value_enum, default_value = "ts")]
    pub(crate) lang: StubLang,
    /// At most so many
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// Go on where an earlier search ended, with the same intents, task and number
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
    #[command(flatten)]
    pub(crate) rules: Rules,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tools show`.
#[derive(Debug, clap::Args)]
pub(crate) struct ToolsShow {
    /// The tool: `server.tool`
    #[arg(value_name = "TOOL")]
    pub(crate) tool: String,
    /// The language of the declaration
    #[arg(long, value_enum, default_value = "ts")]
    pub(crate) lang: StubLang,
    #[command(flatten)]
    pub(crate) rules: Rules,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tools stubs`.
#[derive(Debug, clap::Args)]
pub(crate) struct ToolsStubs {
    /// Servers; all of them when absent
    #[arg(value_name = "SERVER")]
    pub(crate) server: Vec<String>,
    /// The language
    #[arg(long, value_enum, default_value = "ts")]
    pub(crate) lang: StubLang,
    /// Write the files that an editor or type checker reads into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) rules: Rules,
}

/// `tools accept`.
#[derive(Debug, clap::Args)]
pub(crate) struct ToolsAccept {
    /// The tool: `server.tool`
    #[arg(value_name = "TOOL")]
    pub(crate) tool: String,
    #[command(flatten)]
    pub(crate) rules: Rules,
}

/// How much of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolDetail {
    /// Its name
    Names,
    /// And a sentence
    Summary,
    /// And its parameters
    Signature,
    /// And its types
    Full,
}

/// The languages of declarations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StubLang {
    /// TypeScript
    #[value(alias = "typescript")]
    Ts,
    /// Python
    #[value(alias = "python")]
    Py,
    /// JSON Schema
    Json,
}

/// `servers`.
#[derive(Debug, Subcommand)]
pub(crate) enum ServersCommand {
    /// Tool servers, where they run, what is known of them
    List(ServersList),
    /// Connect to a server, or to all, and list their tools anew
    Test(ServersTest),
    /// Log in to a server that wants it
    Login(ServersLogin),
}

/// `servers list`.
#[derive(Debug, clap::Args)]
pub(crate) struct ServersList {
    #[command(flatten)]
    pub(crate) rules: Rules,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `servers test`.
#[derive(Debug, clap::Args)]
pub(crate) struct ServersTest {
    /// The server; all of them when absent
    #[arg(value_name = "NAME")]
    pub(crate) server: Option<String>,
    #[command(flatten)]
    pub(crate) rules: Rules,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `servers login`.
#[derive(Debug, clap::Args)]
pub(crate) struct ServersLogin {
    /// The server
    #[arg(value_name = "NAME")]
    pub(crate) server: String,
    #[command(flatten)]
    pub(crate) rules: Rules,
}
