//! The arguments of `tools` and `servers`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use super::PolicyArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum ToolsCommand {
    /// List every tool with the policy's decision
    List(ToolsList),
    /// Search tools by intent, best match first
    Search(ToolsSearch),
    /// Show one tool: its declaration, its hints and the policy's decision
    Show(ToolsShow),
    /// Print declarations of tools for programs
    Stubs(ToolsStubs),
    /// Accept the changed definition of a tool for good
    Accept(ToolsAccept),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ToolsList {
    /// Tools of this server only
    #[arg(value_name = "SERVER")]
    pub(crate) server: Option<String>,
    /// Tools of this domain only: a server's own tag, or the first word of its tools' names
    #[arg(long, value_name = "NAME")]
    pub(crate) domain: Option<String>,
    /// The most tools to list; all of them if left out
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) limit: Option<NonZeroUsize>,
    /// Continue where an earlier list ended
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
    #[command(flatten)]
    pub(crate) rules: PolicyArgs,
    /// Print the tools as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ToolsSearch {
    /// What to do: a short phrase for each step
    #[arg(value_name = "INTENT", required = true)]
    pub(crate) intents: Vec<String>,
    /// The purpose of the whole task
    #[arg(long, value_name = "TEXT")]
    pub(crate) task: Option<String>,
    /// How much of each tool to show
    #[arg(long, value_enum, default_value = "summary")]
    pub(crate) detail: ToolDetail,
    /// The language of signatures and declarations
    #[arg(long, value_enum, default_value = "ts")]
    pub(crate) lang: StubLang,
    /// The most tools to show for all intents together; 10 if left out
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// Continue where an earlier search ended, with the same intents, task and number
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
    #[command(flatten)]
    pub(crate) rules: PolicyArgs,
    /// Print the matches as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ToolsShow {
    /// The tool, written as `server.tool`
    #[arg(value_name = "TOOL")]
    pub(crate) tool: String,
    /// The language of the declaration
    #[arg(long, value_enum, default_value = "ts")]
    pub(crate) lang: StubLang,
    #[command(flatten)]
    pub(crate) rules: PolicyArgs,
    /// Print the tool as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ToolsStubs {
    /// The servers; all of them if left out
    #[arg(value_name = "SERVER")]
    pub(crate) server: Vec<String>,
    /// The language of the declarations
    #[arg(long, value_enum, default_value = "ts")]
    pub(crate) lang: StubLang,
    /// Write the files that an editor or type checker reads into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) rules: PolicyArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ToolsAccept {
    /// The tool, written as `server.tool`
    #[arg(value_name = "TOOL")]
    pub(crate) tool: String,
    #[command(flatten)]
    pub(crate) rules: PolicyArgs,
}

/// The amount of detail about a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolDetail {
    /// The names of tools alone
    Names,
    /// The name and the first sentence of the description
    Summary,
    /// The same, with the parameters on one line
    Signature,
    /// The declaration with all types and the whole description
    Full,
}

/// The languages of declarations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StubLang {
    /// Declarations in TypeScript (`.d.ts`)
    #[value(alias = "typescript")]
    Ts,
    /// Declarations in Python (`.pyi`)
    #[value(alias = "python")]
    Py,
    /// Declarations as JSON Schema documents
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ServersCommand {
    /// List tool servers, where they run and what is known of them
    List(ServersList),
    /// Connect to one server or to all, and list their tools anew
    Test(ServersTest),
    /// Log in to a server that requires it
    Login(ServersLogin),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ServersList {
    #[command(flatten)]
    pub(crate) rules: PolicyArgs,
    /// Print the servers as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ServersTest {
    /// The server to test; all of them if left out
    #[arg(value_name = "NAME")]
    pub(crate) server: Option<String>,
    #[command(flatten)]
    pub(crate) rules: PolicyArgs,
    /// Print the results as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ServersLogin {
    /// The server to log in to
    #[arg(value_name = "NAME")]
    pub(crate) server: String,
    #[command(flatten)]
    pub(crate) rules: PolicyArgs,
}
