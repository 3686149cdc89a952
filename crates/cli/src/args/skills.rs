//! The arguments of `skills`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use super::{Lang, RunArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum SkillsCommand {
    /// List skills, ordered by name
    List(SkillsList),
    /// Show one skill: its description, program and files
    Show(SkillsShow),
    /// Save a program, or the program of a past run, as the next version of a skill
    Save(SkillsSave),
    /// Run a skill with an input, as a program of yours would call it
    Run(Box<SkillsRun>),
    /// Remove a skill with all its versions
    Rm(SkillsRm),
    /// Import a skill from a folder, `.tar.gz` or `.zip`
    Import(SkillsImport),
    /// Export a skill to a folder, `.tar.gz` or `.zip`
    Export(SkillsExport),
}

/// The owner of a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SkillOwner {
    /// You, in all your sessions
    User,
    /// Everybody who uses this data folder
    Team,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SkillsList {
    /// Only skills of this owner
    #[arg(long, value_enum)]
    pub(crate) scope: Option<SkillOwner>,
    /// Include the skills that this session has for itself
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Print the skills as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The arguments that select one skill.
#[derive(Debug, clap::Args)]
pub(crate) struct SkillSelector {
    /// The name of the skill
    pub(crate) name: String,
    /// The owner of the skill; else yours comes before the team's
    #[arg(long, value_enum)]
    pub(crate) scope: Option<SkillOwner>,
    /// The version of the skill; else the newest
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u32>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SkillsShow {
    #[command(flatten)]
    pub(crate) which: SkillSelector,
    /// Print the skill as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["from_run", "file"]))]
pub(crate) struct SkillsSave {
    /// The name of the skill: lower-case letters, digits and single hyphens
    pub(crate) name: String,
    /// What it does and when to use it
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: String,
    /// Take program, files and tools from a past run
    #[arg(long, value_name = "EXECUTION")]
    pub(crate) from_run: Option<String>,
    /// Take the program from a file: .ts .mts .js .mjs .py .sh .bash
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) file: Option<PathBuf>,
    /// The program's language, where the file name does not say
    #[arg(long, value_enum, requires = "file")]
    pub(crate) lang: Option<Lang>,
    /// A file that the program needs in /workspace
    #[arg(long, value_name = "LOCAL[:NAME]", requires = "file")]
    pub(crate) with: Vec<PathBuf>,
    /// A tool that the program calls, such as `crm.list_orders`; it must have been called here before
    #[arg(long, value_name = "TOOL", requires = "file")]
    pub(crate) tool: Vec<String>,
    /// The owner of the skill
    #[arg(long, value_enum, default_value = "user")]
    pub(crate) scope: SkillOwner,
    /// A file with a JSON Schema of the input
    #[arg(long, value_name = "FILE")]
    pub(crate) inputs: Option<PathBuf>,
    /// A file with a JSON Schema of the value
    #[arg(long, value_name = "FILE")]
    pub(crate) outputs: Option<PathBuf>,
    /// Save the skill even with the personal data and secrets in its files and texts
    #[arg(long, requires = "from_run")]
    pub(crate) allow_personal_data: bool,
    /// Print the skill as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SkillsRun {
    /// The skill's name; yours comes before the team's
    pub(crate) name: String,
    /// The input as JSON: a text, `@FILE`, or `-` for standard input
    #[arg(value_name = "INPUT")]
    pub(crate) input: Option<String>,
    #[command(flatten)]
    pub(crate) place: RunArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SkillsRm {
    /// The name of the skill
    pub(crate) name: String,
    /// The owner of the skill
    #[arg(long, value_enum, default_value = "user")]
    pub(crate) scope: SkillOwner,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SkillsImport {
    /// A folder with a `SKILL.md`, or such a folder as `.tar.gz` or `.zip`
    pub(crate) path: PathBuf,
    /// The file of the folder that is the program, if none is called `program`
    #[arg(long, value_name = "PATH")]
    pub(crate) program: Option<String>,
    /// The owner of the skill
    #[arg(long, value_enum, default_value = "user")]
    pub(crate) scope: SkillOwner,
    /// Print the skill as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SkillsExport {
    #[command(flatten)]
    pub(crate) which: SkillSelector,
    /// The destination: a name that ends in `.tar.gz` or `.zip`, else a folder
    pub(crate) path: PathBuf,
}
