//! How a stdio server gets a sandbox of its own: somebody who has sandboxes hands this over.

use std::any::Any;
use std::fmt;

use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::credential::Secret;

/// What to start, and under which policy.
#[derive(Debug)]
pub struct Spawn<'a> {
    /// The operator's name of the server.
    pub server: &'a str,
    /// The program.
    pub command: &'a str,
    /// Its arguments.
    pub args: &'a [String],
    /// Its environment, which its sandbox may hold.
    pub env: &'a [(String, Secret)],
    /// The policy that its entry names.
    pub policy: &'a str,
}

/// A started server: its streams, and what keeps it alive.
pub struct Spawned {
    /// What it writes.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// What it reads.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// What it says to people, if that comes apart.
    pub stderr: Option<Box<dyn AsyncRead + Send + Unpin>>,
    /// Dropping this ends it, with everything it started.
    pub guard: Box<dyn Any + Send + Sync>,
}

impl fmt::Debug for Spawned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spawned")
    }
}

/// Why it could not be started; the text holds no secret.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{code}: {message}")]
pub struct SpawnError {
    /// The stable code of what went wrong.
    pub code: String,
    /// In words.
    pub message: String,
}

/// Starts programs in sandboxes.
pub trait Spawner: Send + Sync {
    /// Starts one.
    fn spawn<'a>(&'a self, spawn: Spawn<'a>) -> BoxFuture<'a, Result<Spawned, SpawnError>>;
}
