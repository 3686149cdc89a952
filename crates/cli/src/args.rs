//! The command line arguments as clap parses them; `settings` and the commands combine them with files and the
//! environment.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

use ringfence_sandbox::BackendKind;

use crate::fault::{self, CliFault};

mod approvals;
mod data;
mod journal;
mod policy;
mod serve;
mod skills;
mod token;
mod tools;
mod vault;

pub(crate) use approvals::{
    AnswerArgs, ApprovalsCommand, ApprovalsList, ApprovalsShow, ApproveArgs, DenyArgs, GrantScope,
};
pub(crate) use data::{DataCommand, RevealArgs};
pub(crate) use journal::{
    AcceptLossArgs, AuditCommand, AuditExportArgs, AuditTailArgs, AuditVerifyArgs, PruneArgs, SessionCommand,
    SessionListArgs, SessionReplayArgs, SessionShowArgs, SessionStopArgs,
};
pub(crate) use policy::{
    PolicyCheckArgs, PolicyCommand, PolicyDiffArgs, PolicyExplainArgs, PolicyLearnArgs, PolicyShowArgs,
};
pub(crate) use serve::ServeArgs;
pub(crate) use skills::{
    SkillOwner, SkillSelector, SkillsCommand, SkillsExport, SkillsImport, SkillsList, SkillsRm, SkillsRun, SkillsSave,
    SkillsShow,
};
pub(crate) use token::{TokenCommand, TokenCreate, TokenList, TokenRevoke, TokenScope};
pub(crate) use tools::{
    ServersCommand, ServersList, ServersLogin, ServersTest, StubLang, ToolDetail, ToolsAccept, ToolsCommand, ToolsList,
    ToolsSearch, ToolsShow, ToolsStubs,
};
pub(crate) use vault::VaultCommand;

/// Runs code and programs in a sandbox made from a policy, and writes down everything that happens.
#[derive(Debug, Parser)]
#[command(name = "ringfence", version, max_term_width = 100, propagate_version = false)]
#[command(
    after_help = "Try `ringfence demo` first. Exit codes of `run` and `exec`: the program's own; 2 wrong arguments; 124 out of time; \
125 our own fault; 126 refused by policy; 127 no such program or language; 130 cancelled; 137 killed at a limit."
)]
pub(crate) struct CliArgs {
    #[command(flatten)]
    pub(crate) words: Verbosity,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

/// The verbosity of everything the program prints beside its results.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Verbosity {
    /// Print less: results and errors only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print more; give it twice for even more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Run TypeScript, JavaScript, Python or shell code in a sandbox
    Run(RunFileArgs),
    /// Run any program in a sandbox
    Exec(ExecArgs),
    /// Serve agents over MCP: HTTP with an API beside it, or standard input and output
    Serve(ServeArgs),
    /// The available tools: list, search, show, print declarations
    #[command(subcommand)]
    Tools(ToolsCommand),
    /// Tool servers: list, test, log in
    #[command(subcommand)]
    Servers(ServersCommand),
    /// Access tokens for clients of `serve`: create, list, revoke
    #[command(subcommand)]
    Token(TokenCommand),
    /// Secrets in an encrypted file that configurations refer to: set, list, remove
    #[command(subcommand)]
    Vault(VaultCommand),
    /// Check, show, explain and compare policies
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// List, show, stop and remove sessions
    #[command(subcommand)]
    Session(SessionCommand),
    /// Calls that wait for a person's approval: list, show, approve, deny
    #[command(subcommand)]
    Approvals(ApprovalsCommand),
    /// Saved programs with a description: list, show, save, run, remove, import, export
    #[command(subcommand)]
    Skills(SkillsCommand),
    /// Aliases that stand for personal data: show the value behind one
    #[command(subcommand)]
    Data(DataCommand),
    /// The journal of everything that happened: show, verify, export, prune
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Try to break out of a sandbox on this machine now, and report which rules held
    Probe(ProbeArgs),
    /// Show what this machine can enforce, what is missing and how to get it
    Doctor(DoctorArgs),
    /// Run a demonstration that needs no setup
    Demo,
    /// Accept the `ringfence.yaml` of a folder with its present content
    Trust(TrustArgs),
    /// Print the script with which a shell completes commands and flags of this program
    #[command(
        after_help = "bash: ringfence completions bash > ~/.local/share/bash-completion/completions/ringfence\n\
        zsh:  ringfence completions zsh > DIR/_ringfence, with DIR in `fpath`\n\
        fish: ringfence completions fish > ~/.config/fish/completions/ringfence.fish"
    )]
    Completions(CompletionsArgs),
    /// Print a manual page: `ringfence man | man -l -`
    Man(ManArgs),
    /// Serve the example company of `demo` as a tool server on standard input and output
    #[command(hide = true)]
    Company,
}

/// The format in which a command reports a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultFormat {
    /// Text on standard error, for a person.
    Text,
    /// One execution as JSON on standard output, also for a fault before an execution began.
    ExecutionJson,
}

impl CliCommand {
    /// The format in which a fault of this command is reported.
    pub(crate) fn fault_format(&self) -> FaultFormat {
        match self {
            CliCommand::Run(RunFileArgs { place, .. }) | CliCommand::Exec(ExecArgs { place, .. }) if place.json => {
                FaultFormat::ExecutionJson
            }
            CliCommand::Skills(SkillsCommand::Run(run)) if run.place.json => FaultFormat::ExecutionJson,
            CliCommand::Run(_)
            | CliCommand::Exec(_)
            | CliCommand::Serve(_)
            | CliCommand::Tools(_)
            | CliCommand::Servers(_)
            | CliCommand::Token(_)
            | CliCommand::Vault(_)
            | CliCommand::Policy(_)
            | CliCommand::Session(_)
            | CliCommand::Approvals(_)
            | CliCommand::Skills(_)
            | CliCommand::Audit(_)
            | CliCommand::Data(_)
            | CliCommand::Probe(_)
            | CliCommand::Doctor(_)
            | CliCommand::Demo
            | CliCommand::Trust(_)
            | CliCommand::Completions(_)
            | CliCommand::Man(_)
            | CliCommand::Company => FaultFormat::Text,
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunFileArgs {
    /// The program: .ts .mts .js .mjs .py .sh .bash, or `-` for standard input
    #[arg(value_name = "FILE")]
    pub(crate) program: PathBuf,
    /// The language of the program; needed where the file name does not tell it
    #[arg(long, value_enum)]
    pub(crate) lang: Option<Lang>,
    #[command(flatten)]
    pub(crate) place: RunArgs,
    /// Arguments of the program
    #[arg(last = true)]
    pub(crate) args: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ExecArgs {
    #[command(flatten)]
    pub(crate) place: RunArgs,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lang {
    /// A program in TypeScript
    #[value(alias = "typescript")]
    Ts,
    /// A program in JavaScript
    #[value(alias = "javascript")]
    Js,
    /// A program in Python
    #[value(alias = "py")]
    Python,
    /// A script for `sh`, or for bash if its first line says so
    #[value(alias = "sh")]
    Shell,
    /// A script for bash
    Bash,
}

/// The flags that choose the policy in force and the configuration.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct PolicyArgs {
    /// A policy file, or the name of a preset: default, demo, level-1 to level-4
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Change one key of the policy; VALUE is YAML
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// The operator's configuration file; else `ringfence.yaml` of this folder if it is trusted, else your own
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// More tool servers: a file in the `mcpServers` form of other clients
    #[arg(long, value_name = "FILE")]
    pub(crate) servers: Option<PathBuf>,
}

/// The backend that a user chose; one that this version does not have is refused where it would be used.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct BackendArgs {
    #[arg(
        long = "backend",
        value_name = "BACKEND",
        default_value = BackendKind::default().name(),
        help = backend_help()
    )]
    name: String,
}

impl BackendArgs {
    /// The kind of the chosen backend.
    pub(crate) fn kind(&self) -> Result<BackendKind, CliFault> {
        BackendKind::from_name(&self.name).ok_or_else(|| {
            let known: Vec<String> = BackendKind::ALL.map(|kind| format!("`{}`", kind.name())).to_vec();
            let message = format!(
                "there is no backend `{}`: this version has {}",
                self.name,
                known.join(", ")
            );
            CliFault::refused("backend.unbuilt", message)
                .with_rule("backends")
                .with_hint("leave `--backend` out")
        })
    }
}

/// What each backend is that this version has.
fn backend_help() -> String {
    let known = BackendKind::ALL.map(|kind| format!("`{}` ({})", kind.name(), kind.description()));
    format!("The technology to make the sandbox with: {}", known.join(", "))
}

/// The arguments that every run takes: policy, backend, session, files, limits and output format.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) rules: PolicyArgs,
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
    /// Run in a session whose files are kept (`keep: true`): its id, or a name of your own that opens one
    #[arg(long, value_name = "ID|NAME")]
    pub(crate) session: Option<String>,
    /// Copy a file into /workspace
    #[arg(long, value_name = "LOCAL[:NAME]")]
    pub(crate) file: Vec<PathBuf>,
    /// Copy new and changed files of /workspace to this folder; files that are there already stay as they are
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// With `--out`: overwrite files that are there already
    #[arg(long, requires = "out")]
    pub(crate) force: bool,
    /// The most time for the whole run, such as 30s, including all waiting; `--set proc.wall_timeout=30s` limits the
    /// program's own time
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<String>,
    /// Let the program reach every public host that no denylist names, then print the least policy that would have
    /// allowed it
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    #[expect(clippy::option_option, reason = "the flag, and the file that it may have")]
    pub(crate) learn: Option<Option<PathBuf>>,
    /// Refuse to start if a limit would only be watched, or enforced for each process alone
    #[arg(long)]
    pub(crate) require_hard: bool,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ProbeArgs {
    #[command(flatten)]
    pub(crate) rules: PolicyArgs,
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Print the findings as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The operator's configuration file; else `ringfence.yaml` of this folder if it is trusted, else your own
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TrustArgs {
    /// The folder that contains the `ringfence.yaml`
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell to print the script for
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// The command that the page describes, such as `session list`; the whole program if left out
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Prints help, the version, or the error in the arguments, and returns the exit code.
pub(crate) fn print_usage_error(error: &clap::Error) -> ExitCode {
    // A failed write needs no handling: nobody reads the output.
    let _ = error.print();
    if !error.use_stderr() {
        return ExitCode::SUCCESS;
    }
    ExitCode::from(fault::EXIT_USAGE)
}
