//! Arguments of `skills`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use super::{Lang, Place};

/// `skills`.
#[derive(Debug, Subcommand)]
pub(crate) enum SkillsCommand {
    /// Skills, by name
    List(SkillsList),
    /// One skill: what it says of itself, its program and files
    Show(SkillsShow),
    /// Save a program, or what a past run ran, as the next version of a skill
    Save(SkillsSave),
    /// Run a skill with an input, as a program of yours would call it
    Run(Box<SkillsRun>),
    /// Remove a skill with all its versions
    Rm(SkillsRm),
    /// Take in a skill from a folder, `.tar.gz` or `.zip`
    Import(SkillsImport),
    /// Write a skill to a folder, `.tar.gz` or `.zip`
    Export(SkillsExport),
}

/// Who has a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SkillOwner {
    /// You, in all your sessions
    User,
    /// Everybody who uses this data folder
    Team,
}

/// `skills list`.
#[derive(Debug, clap::Args)]
pub(crate) struct SkillsList {
    /// Only those of one scope
    #[arg(long, value_enum)]
    pub(crate) scope: Option<SkillOwner>,
    /// Those that a session has for itself, too
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which skill.
#[derive(Debug, clap::Args)]
pub(crate) struct SkillWhich {
    /// The skill's name
    pub(crate) name: String,
    /// The one of this scope; else yours comes before the team's
    #[arg(long, value_enum)]
    pub(crate) scope: Option<SkillOwner>,
    /// A version; else the newest
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u32>,
}

/// `skills show`.
#[derive(Debug, clap::Args)]
pub(crate) struct SkillsShow {
    #[command(flatten)]
    pub(crate) which: SkillWhich,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `skills save`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["from_run", "file"]))]
pub(crate) struct SkillsSave {
    /// Its name: lower-case letters, digits and single hyphens
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
    /// Who will have it
    #[arg(long, value_enum, default_value = "user")]
    pub(crate) scope: SkillOwner,
    /// A JSON Schema of its input
    #[arg(long, value_name = "FILE")]
    pub(crate) inputs: Option<PathBuf>,
    /// A JSON Schema of its value
    #[arg(long, value_name = "FILE")]
    pub(crate) outputs: Option<PathBuf>,
    /// Save it with the personal data and secrets that its files and words have
    #[arg(long, requires = "from_run")]
    pub(crate) allow_personal_data: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `skills run`.
#[derive(Debug, clap::Args)]
pub(crate) struct SkillsRun {
    /// The skill's name; yours comes before the team's
    pub(crate) name: String,
    /// Its input as JSON: a text, `@FILE`, or `-` for standard input
    #[arg(value_name = "INPUT")]
    pub(crate) input: Option<String>,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// `skills rm`.
#[derive(Debug, clap::Args)]
pub(crate) struct SkillsRm {
    /// The skill's name
    pub(crate) name: String,
    /// Who has it
    #[arg(long, value_enum, default_value = "user")]
    pub(crate) scope: SkillOwner,
}

/// `skills import`.
#[derive(Debug, clap::Args)]
pub(crate) struct SkillsImport {
    /// A folder with a `SKILL.md`, or such a folder as `.tar.gz` or `.zip`
    pub(crate) path: PathBuf,
    /// The file of it that is the program, where none is called `program`
    #[arg(long, value_name = "PATH")]
    pub(crate) program: Option<String>,
    /// Who will have it
    #[arg(long, value_enum, default_value = "user")]
    pub(crate) scope: SkillOwner,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `skills export`.
#[derive(Debug, clap::Args)]
pub(crate) struct SkillsExport {
    #[command(flatten)]
    pub(crate) which: SkillWhich,
    /// Where to: a name that ends in `.tar.gz` or `.zip`, else a folder
    pub(crate) path: PathBuf,
}
