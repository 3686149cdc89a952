//! What an execution request contains.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ringfence_journal::Client;
use ringfence_policy::{Policy, RelPath};
use ringfence_sandbox::{Existing, Language};
use tokio::sync::mpsc;

/// A request to run something once.
#[derive(Debug)]
pub struct RunCode {
    /// The policy of the request.
    pub policy: Arc<Policy>,
    /// The program to run.
    pub program: Program,
    /// The arguments of the program.
    pub args: Vec<String>,
    /// Files that are copied into the workspace first.
    pub files: Vec<Input>,
    /// The standard input of the program, in pieces; none leaves it empty.
    pub stdin: Option<mpsc::Receiver<Vec<u8>>>,
    /// Where new and changed files go.
    pub out: Out,
    /// Refuse a rule that can only be watched, not enforced.
    pub require_hard: bool,
    /// How long it may run, where that is less than the policy allows.
    pub timeout: Option<Duration>,
    /// The client that made the request, if one did.
    pub client: Option<Client>,
    /// The audience of the result.
    pub reader: Reader,
    /// The user's session to run in: its id, or a name that opens one; none: a session of its own.
    pub session: Option<String>,
}

/// The audience of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// The owner: values are shown as they are.
    Owner,
    /// The program that called: what stays inside is not redacted.
    Program,
    /// A model that sees what a command prints: full output is in a file.
    Printed,
    /// A model behind a front door: full output has a link.
    Client,
}

impl RunCode {
    /// A request without arguments, files or input.
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
    /// Files are listed, not copied.
    Nowhere,
    /// Files go to a folder of the user's.
    Folder {
        /// The path of the folder on the host.
        path: PathBuf,
        /// What happens with files of the same name there.
        existing: Existing,
    },
    /// Files go to an artifacts folder of the engine, which ends with this process.
    Kept(PathBuf),
}

/// The program that a request runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// Source code in one of the languages.
    Code {
        /// The language of the source; not [`Language::Program`].
        language: Language,
        /// The file name that errors show.
        file_name: String,
        /// The text of the program.
        source: String,
    },
    /// Source code that defines a function, and the input to call it with.
    Function {
        /// The language of the source; not [`Language::Program`].
        language: Language,
        /// The file name that errors show.
        file_name: String,
        /// The text of the program.
        source: String,
        /// The input, a JSON object as text.
        input: String,
    },
    /// A shell script: for bash where its name ends in `.bash` or its first line says so, else for `sh`.
    Shell {
        /// The name that the script sees as `$0`.
        file_name: String,
        /// The text of the script.
        source: String,
    },
    /// A program that the sandbox contains, by name.
    Named(String),
}

impl Program {
    /// A script for bash, which the extension of its name says.
    pub fn bash(file_name: &str, source: String) -> Program {
        let file_name = format!("{}.bash", file_name.trim_end_matches(".bash").trim_end_matches(".sh"));
        Program::Shell { file_name, source }
    }

    /// The language of its stubs; none where it cannot call tools.
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

    /// The name that reports and approval requests show.
    pub(crate) fn name(&self) -> &str {
        match self {
            Program::Code { file_name, .. }
            | Program::Function { file_name, .. }
            | Program::Shell { file_name, .. } => file_name,
            Program::Named(name) => name,
        }
    }

    /// The source, where it has one.
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

/// A file that is copied in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Where the content comes from.
    pub from: Source,
    /// The path of the file in the workspace.
    pub name: RelPath,
}

/// Where a file's content comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file on the host, by its path.
    Path(PathBuf),
    /// The request itself holds the content.
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
