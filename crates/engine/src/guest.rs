//! Tool servers as guests: a stdio server in a sandbox of its own, for as long as it is used.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use ringfence_gateway::{Spawn, SpawnError, Spawned, Spawner};
use ringfence_policy::{AllowedPrograms, Policy};
use ringfence_sandbox::{Native, Options, Output, Spec, Stop, Task, TaskKind, Words};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// Bytes that a server may write ahead of its reader before it is ended as a flood.
const AHEAD: usize = 64 << 20;

/// Starts tool servers in sandboxes.
pub(crate) struct Guests {
    native: Arc<Native>,
    /// The policy of each server whose entry names one.
    policies: BTreeMap<String, Policy>,
    python: Option<PathBuf>,
    folders: PathBuf,
    /// Servers that run, until their sandboxes are gone.
    running: Mutex<JoinSet<()>>,
}

impl fmt::Debug for Guests {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Guests").finish_non_exhaustive()
    }
}

impl Guests {
    pub(crate) fn new(
        native: Arc<Native>,
        policies: BTreeMap<String, Policy>,
        python: Option<PathBuf>,
        folders: PathBuf,
    ) -> Guests {
        Guests {
            native,
            policies,
            python,
            folders,
            running: Mutex::default(),
        }
    }

    /// Waits until every server whose connection was closed has left nothing behind.
    pub(crate) async fn gone(&self) {
        let running = std::mem::take(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner));
        running.join_all().await;
    }

    /// The policy of a server's sandbox.
    fn policy_of(&self, spawn: &Spawn<'_>) -> Result<&Policy, SpawnError> {
        let policy = self.policies.get(spawn.server).ok_or_else(|| {
            let message = format!("no policy `{}` was read for server `{}`", spawn.policy, spawn.server);
            failed("policy.unknown", message)
        })?;
        if policy.net().enabled == Some(true) {
            // Its connections would be nobody's: a server outlives the sessions that use it.
            let server = spawn.server;
            let message = format!("`net.enabled` of server `{server}`: a tool server in a sandbox has no network");
            return Err(failed("policy.unbuilt", message));
        }
        if policy.limits().programs == AllowedPrograms::None {
            let server = spawn.server;
            let message = format!("`proc.programs` of server `{server}` is none, and a tool server is a program");
            return Err(failed("policy.programs", message));
        }
        Ok(policy)
    }

    async fn start(&self, spawn: Spawn<'_>) -> Result<Spawned, SpawnError> {
        let policy = self.policy_of(&spawn)?;
        let options = Options {
            python: self.python.clone(),
            folders: Some(self.folders.join(spawn.server)),
            ..Options::default()
        };
        let env = spawn
            .env
            .iter()
            .map(|(name, secret)| (name.clone(), secret.reveal().to_owned()));
        let spec = Spec::new(policy, &options)
            .map_err(|error| failed("policy.mount", error.to_string()))?
            .for_a_server(env);
        let mut sandbox = self
            .native
            .launch(&Arc::new(spec))
            .await
            .map_err(|error| failed("sandbox.launch", error.to_string()))?;
        let (stdin, pieces) = mpsc::channel(16);
        let (said, stdout) = mpsc::unbounded_channel();
        let (noted, stderr) = mpsc::unbounded_channel();
        let task = Task {
            kind: TaskKind::Program {
                program: spawn.command.to_owned(),
            },
            args: spawn.args.to_vec(),
            stdin: Some(pieces),
            door: None,
            wall: None,
            network: None,
            again: None,
        };
        let (switch, mut stop) = Stop::new();
        let server = spawn.server.to_owned();
        let mut words = Speech {
            stdout: said,
            stderr: noted,
            ahead: Arc::default(),
            switch: switch.clone(),
        };
        let ahead = Arc::clone(&words.ahead);
        let ended = async move {
            match sandbox.run(task, &mut words, &mut stop).await {
                Ok(ended) => tracing::debug!(%server, verdict = ?ended.verdict, "a tool server in a sandbox has ended"),
                Err(error) => tracing::warn!(%server, %error, "a tool server in a sandbox broke"),
            }
            drop(words);
            if let Err(error) = sandbox.end().await {
                tracing::warn!(%server, %error, "the sandbox of a tool server did not end");
            }
        };
        self.running.lock().unwrap_or_else(PoisonError::into_inner).spawn(ended);
        Ok(Spawned {
            stdout: Box::new(Heard::new(stdout, Arc::clone(&ahead))),
            stdin: Box::new(Told::new(stdin)),
            stderr: Some(Box::new(Heard::new(stderr, ahead))),
            guard: Box::new(Guard(switch)),
        })
    }
}

fn failed(code: &str, message: String) -> SpawnError {
    SpawnError {
        code: code.to_owned(),
        message,
    }
}

impl Spawner for Guests {
    fn spawn<'a>(&'a self, spawn: Spawn<'a>) -> BoxFuture<'a, Result<Spawned, SpawnError>> {
        Box::pin(self.start(spawn))
    }
}

/// Ends the server when it is dropped.
struct Guard(watch::Sender<bool>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

type Ahead = Arc<std::sync::atomic::AtomicUsize>;

/// What a server writes, on its way to its reader. One that writes far ahead of it is ended.
struct Speech {
    stdout: mpsc::UnboundedSender<Vec<u8>>,
    stderr: mpsc::UnboundedSender<Vec<u8>>,
    ahead: Ahead,
    switch: watch::Sender<bool>,
}

impl Words for Speech {
    fn take(&mut self, output: Output, bytes: &[u8]) {
        use std::sync::atomic::Ordering;
        if self.ahead.fetch_add(bytes.len(), Ordering::AcqRel) > AHEAD {
            self.switch.send_replace(true);
            return;
        }
        let to = match output {
            Output::Stdout => &self.stdout,
            Output::Stderr => &self.stderr,
        };
        // A reader that has gone away takes the server with it.
        if to.send(bytes.to_vec()).is_err() {
            self.ahead.fetch_sub(bytes.len(), Ordering::AcqRel);
        }
    }
}

/// The reading end of what a server writes.
struct Heard {
    pieces: mpsc::UnboundedReceiver<Vec<u8>>,
    rest: Vec<u8>,
    read: usize,
    ahead: Ahead,
}

impl Heard {
    fn new(pieces: mpsc::UnboundedReceiver<Vec<u8>>, ahead: Ahead) -> Heard {
        Heard {
            pieces,
            rest: Vec::new(),
            read: 0,
            ahead,
        }
    }
}

impl AsyncRead for Heard {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.read == this.rest.len() {
            match this.pieces.poll_recv(context) {
                Poll::Ready(Some(piece)) => (this.rest, this.read) = (piece, 0),
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Pending => return Poll::Pending,
            }
        }
        let rest = this.rest.get(this.read..).unwrap_or_default();
        let part = rest.get(..rest.len().min(buffer.remaining())).unwrap_or_default();
        buffer.put_slice(part);
        this.read += part.len();
        this.ahead.fetch_sub(part.len(), std::sync::atomic::Ordering::AcqRel);
        Poll::Ready(Ok(()))
    }
}

/// The writing end of what a server reads.
struct Told {
    pieces: tokio_util::sync::PollSender<Vec<u8>>,
}

impl Told {
    fn new(pieces: mpsc::Sender<Vec<u8>>) -> Told {
        Told {
            pieces: tokio_util::sync::PollSender::new(pieces),
        }
    }
}

fn gone<T>(_: T) -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

impl AsyncWrite for Told {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.pieces.poll_reserve(context) {
            Poll::Ready(Ok(())) => {
                self.pieces.send_item(bytes.to_vec()).map_err(gone)?;
                Poll::Ready(Ok(bytes.len()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(gone(error))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pieces.close();
        Poll::Ready(Ok(()))
    }
}
