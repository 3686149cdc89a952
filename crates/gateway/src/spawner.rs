//! Starts stdio servers in sandboxes of their own; a crate with sandboxes implements this.

use std::any::Any;
use std::fmt;

use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::credential::SecretString;

/// The program to start, and the policy for its sandbox.
#[derive(Debug)]
pub struct SpawnRequest<'a> {
    /// The operator's name for the server.
    pub server: &'a str,
    /// The program to run: a path or a name.
    pub command: &'a str,
    /// Command-line arguments of the program.
    pub args: &'a [String],
    /// Its environment, which the sandbox may contain.
    pub env: &'a [(String, SecretString)],
    /// The policy that the server's entry names.
    pub policy: &'a str,
}

/// A started server: its streams, and the guard that keeps it alive.
pub struct SpawnedServer {
    /// The server's standard output, to read from.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// The server's standard input, to write to.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// The server's standard error; `None` if it is not separate.
    pub stderr: Option<Box<dyn AsyncRead + Send + Unpin>>,
    /// Dropping the guard ends the server and everything that it started.
    pub guard: Box<dyn Any + Send + Sync>,
}

impl fmt::Debug for SpawnedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spawned")
    }
}

/// Why a server could not be started; the text contains no secret.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{code}: {message}")]
pub struct SpawnError {
    /// The stable code of the error.
    pub code: String,
    /// The error in words, without secrets.
    pub message: String,
}

/// Starts programs in sandboxes.
pub trait Spawner: Send + Sync {
    /// Starts one server and returns its streams.
    fn spawn<'a>(&'a self, spawn: SpawnRequest<'a>) -> BoxFuture<'a, Result<SpawnedServer, SpawnError>>;
}
