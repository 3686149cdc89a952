//! What an execution request contains.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ringfence_journal::ClientClaims;
use ringfence_policy::{Policy, RelPath};
use ringfence_sandbox::{ExistingFileAction, RunProgram};
use tokio::sync::mpsc;

/// A request to run something once.
#[derive(Debug)]
pub struct ExecutionRequest {
    /// The policy of the request.
    pub policy: Arc<Policy>,
    /// The program to run.
    pub program: RunProgram,
    /// The arguments of the program.
    pub args: Vec<String>,
    /// Files that are copied into the workspace first.
    pub files: Vec<InputFile>,
    /// The standard input of the program, in pieces; none leaves it empty.
    pub stdin: Option<mpsc::Receiver<Vec<u8>>>,
    /// Where new and changed files go.
    pub out: OutputDestination,
    /// Refuse a rule that can only be watched, not enforced.
    pub require_hard: bool,
    /// How long it may run, where that is less than the policy allows.
    pub timeout: Option<Duration>,
    /// The client that made the request, if one did.
    pub client: Option<ClientClaims>,
    /// The audience of the result.
    pub reader: ResultAudience,
    /// The user's session to run in: its id, or a name that opens one; none: a session of its own.
    pub session: Option<String>,
}

/// The audience of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultAudience {
    /// The owner: values are shown as they are.
    Owner,
    /// The program that called: what stays inside is not redacted.
    Program,
    /// A model that sees what a command prints: full output is in a file.
    CommandModel,
    /// A model behind a front door: full output has a link.
    Client,
}

impl ExecutionRequest {
    /// A request without arguments, files or input.
    pub fn new(policy: Policy, program: RunProgram) -> ExecutionRequest {
        ExecutionRequest {
            policy: Arc::new(policy),
            program,
            args: Vec::new(),
            files: Vec::new(),
            stdin: None,
            out: OutputDestination::ListOnly,
            require_hard: false,
            timeout: None,
            client: None,
            reader: ResultAudience::Owner,
            session: None,
        }
    }
}

/// Where new and changed files go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputDestination {
    /// Files are listed, not copied.
    ListOnly,
    /// Files go to a folder of the user's.
    Folder {
        /// The path of the folder on the host.
        path: PathBuf,
        /// What happens with files of the same name there.
        existing: ExistingFileAction,
    },
    /// Files go to an artifacts folder of the engine, which ends with this process.
    Artifacts(PathBuf),
}

/// A file that is copied in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputFile {
    /// Where the content comes from.
    pub from: InputSource,
    /// The path of the file in the workspace.
    pub name: RelPath,
}

/// Where a file's content comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputSource {
    /// A file on the host, by its path.
    Path(PathBuf),
    /// The request itself holds the content.
    Bytes(Vec<u8>),
}

impl InputSource {
    pub(crate) fn byte_length(&self) -> u64 {
        match self {
            InputSource::Path(path) => std::fs::metadata(path).map_or(0, |found| found.len()),
            InputSource::Bytes(bytes) => bytes.len() as u64,
        }
    }
}
