//! What can be asked to run.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ringfence_journal::Client;
use ringfence_policy::{Policy, RelPath};
use ringfence_sandbox::{Existing, Language};
use tokio::sync::mpsc;

/// Something to run once.
#[derive(Debug)]
pub struct RunCode {
    /// The policy in force.
    pub policy: Arc<Policy>,
    /// What to run.
    pub program: Program,
    /// What it finds as arguments.
    pub args: Vec<String>,
    /// Files to bring in.
    pub files: Vec<Input>,
    /// What it reads, in pieces.
    pub stdin: Option<mpsc::Receiver<Vec<u8>>>,
    /// Where new and changed files go.
    pub out: Out,
    /// Refuse what is only watched.
    pub require_hard: bool,
    /// How long it may take, where that is less than the policy allows.
    pub timeout: Option<Duration>,
    /// Who asked for it, if a client did.
    pub client: Option<Client>,
    /// Who reads what comes of it.
    pub reader: Reader,
    /// The session of the user's to run in: its id, or a name that opens one; none: one of its own.
    pub session: Option<String>,
}

/// Who reads what comes of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// Whoever asked for it: values as they are.
    Owner,
    /// The program that called it: what is inside stays as it is.
    Program,
    /// A model, by what a command prints: what is cut is in a file.
    Printed,
    /// A model, through a front door: what is cut has a link.
    Client,
}

impl RunCode {
    /// A program with nothing around it.
    pub fn new(policy: Policy, program: Program) -> RunCode {
        RunCode {
            policy: Arc::new(policy),
            program,
            args: Vec::new(),
            files: Vec::new(),
            stdin: None,
            out: Out::Nowhere,
            require_hard: false,
            timeout: None,
            client: None,
            reader: Reader::Owner,
            session: None,
        }
    }
}

/// Where new and changed files go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Out {
    /// They are named only.
    Nowhere,
    /// To a folder of the user's.
    Folder {
        /// Where it is.
        path: PathBuf,
        /// What becomes of files of the same name there.
        existing: Existing,
    },
    /// To a folder of ours, which ends with this process.
    Kept(PathBuf),
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// Code of a language.
    Code {
        /// Any but [`Language::Program`].
        language: Language,
        /// What errors call it.
        file_name: String,
        /// The source.
        source: String,
    },
    /// Code that defines a function, and what that is called with.
    Function {
        /// Any but [`Language::Program`].
        language: Language,
        /// What errors call it.
        file_name: String,
        /// The source.
        source: String,
        /// A JSON object as text.
        input: String,
    },
    /// A shell script: for bash where its name ends in `.bash` or its first line says so, else for `sh`.
    Shell {
        /// Its `$0`.
        file_name: String,
        /// The script.
        source: String,
    },
    /// A program of the sandbox.
    Named(String),
}

impl Program {
    /// A script for bash: the end of its name says so.
    pub fn bash(file_name: &str, source: String) -> Program {
        let file_name = format!("{}.bash", file_name.trim_end_matches(".bash").trim_end_matches(".sh"));
        Program::Shell { file_name, source }
    }

    /// The language of the stubs that it calls tools by, if it can call any.
    pub(crate) fn stubs(&self) -> Option<ringfence_catalog::Language> {
        match self {
            Program::Code {
                language: Language::Python,
                ..
            }
            | Program::Function {
                language: Language::Python,
                ..
            } => Some(ringfence_catalog::Language::Python),
            Program::Code { .. } | Program::Function { .. } => Some(ringfence_catalog::Language::TypeScript),
            Program::Shell { .. } | Program::Named(_) => None,
        }
    }

    /// What it is called.
    pub(crate) fn name(&self) -> &str {
        match self {
            Program::Code { file_name, .. }
            | Program::Function { file_name, .. }
            | Program::Shell { file_name, .. } => file_name,
            Program::Named(name) => name,
        }
    }

    /// Its text, where it has one.
    pub(crate) fn source(&self) -> Option<&str> {
        match self {
            Program::Code { source, .. } | Program::Function { source, .. } | Program::Shell { source, .. } => {
                Some(source)
            }
            Program::Named(_) => None,
        }
    }

    pub(crate) fn language(&self) -> Language {
        match self {
            Program::Code { language, .. } | Program::Function { language, .. } => *language,
            Program::Shell { .. } | Program::Named(_) => Language::Program,
        }
    }
}

/// A file to bring in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Where it comes from.
    pub from: Source,
    /// What it is called in the workspace.
    pub name: RelPath,
}

/// Where a file comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file of the host's.
    Path(PathBuf),
    /// The request itself.
    Bytes(Vec<u8>),
}

impl Source {
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Source::Path(path) => std::fs::metadata(path).map_or(0, |found| found.len()),
            Source::Bytes(bytes) => bytes.len() as u64,
        }
    }
}
