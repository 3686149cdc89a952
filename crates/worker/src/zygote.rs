//! The first process's side of the Python zygote, which is started once and forks a child per execution.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::Duration;

use ringfence_jail::inside::{self, ForkSide, WaitMode};
use ringfence_jail::seccomp::Filter;
use ringfence_jail::socket::{self, PairKind};
use ringfence_wire::ChildLimits;

use crate::python::{
    self, CONTROL_DESCRIPTOR, ENVIRONMENT, MAX_PACKET, PythonReadError, READY, ZygoteReply, ZygoteRequest,
};

/// A zygote that takes longer to reap a child was stopped by that child, which runs as the same user.
const REAP_PATIENCE: Duration = Duration::from_millis(200);

/// Why there is no Python child.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ZygoteError {
    /// The sockets or pipes cannot be made.
    #[error("cannot make the pipes of a Python program")]
    Pipes(#[source] io::Error),
    /// The zygote's process cannot be made.
    #[error("cannot fork")]
    Fork(#[source] io::Error),
    /// The zygote ended before it was ready.
    #[error("`{interpreter}` did not start; it needs the modules `ctypes`, `resource` and `json`")]
    NotReady { interpreter: String },
    /// The socket to the zygote fails, or a reply takes too long.
    #[error("cannot talk to the Python zygote")]
    Socket(#[source] io::Error),
    /// The zygote's reply cannot be understood.
    #[error(transparent)]
    Read(#[from] PythonReadError),
    /// The zygote reports that it failed.
    #[error("the Python zygote could not: {message}")]
    Refused { message: String },
}

/// A Python process that waits for its job, and the ends of its socket and pipes.
#[derive(Debug)]
pub(crate) struct PythonChild {
    /// The process id in the sandbox.
    pub(crate) pid: i32,
    /// The stream of the process's frames.
    pub(crate) stream: OwnedFd,
    /// The reading end of its standard output.
    pub(crate) stdout: io::PipeReader,
    /// The reading end of its standard error.
    pub(crate) stderr: io::PipeReader,
}

/// The zygote's process. Dropping this closes its socket, which ends it.
#[derive(Debug)]
pub(crate) struct PythonZygote {
    pid: i32,
    socket: OwnedFd,
}

impl PythonZygote {
    /// Starts the interpreter and waits until it has imported the modules that programs use.
    pub(crate) fn start(interpreter: &str, filter: &Filter) -> Result<PythonZygote, ZygoteError> {
        let (ours, theirs) = socket::pair(PairKind::Packet).map_err(ZygoteError::Pipes)?;
        let pid = match inside::fork().map_err(ZygoteError::Fork)? {
            ForkSide::Child => become_zygote(interpreter, filter, &theirs),
            ForkSide::Parent(pid) => pid,
        };
        drop(theirs);
        let zygote = PythonZygote { pid, socket: ours };
        match zygote.receive() {
            Ok(packet) if packet == READY => Ok(zygote),
            _ => Err(ZygoteError::NotReady {
                interpreter: interpreter.to_owned(),
            }),
        }
    }

    /// Whether the zygote's process still runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(inside::wait_for_child(self.pid, WaitMode::Now), Ok(None))
    }

    /// Forks a child in the control groups of `tasks`, under `limits`.
    pub(crate) fn fork(&mut self, tasks: &[OwnedFd], limits: ChildLimits) -> Result<PythonChild, ZygoteError> {
        let (stream, their_stream) = socket::pair(PairKind::Stream).map_err(ZygoteError::Pipes)?;
        let (stdout, their_stdout) = io::pipe().map_err(ZygoteError::Pipes)?;
        let (stderr, their_stderr) = io::pipe().map_err(ZygoteError::Pipes)?;
        let mut rlimits = BTreeMap::from([("CPU".to_owned(), u64::from(limits.cpu_seconds))]);
        if let Some(bytes) = limits.address_space {
            rlimits.insert("AS".to_owned(), bytes);
        }
        let first: [RawFd; 3] = [
            their_stream.as_raw_fd(),
            their_stdout.as_raw_fd(),
            their_stderr.as_raw_fd(),
        ];
        let descriptors: Vec<RawFd> = first.into_iter().chain(tasks.iter().map(AsRawFd::as_raw_fd)).collect();
        match self.send_request(&ZygoteRequest::Fork { rlimits }, &descriptors)? {
            ZygoteReply::Child { pid } => Ok(PythonChild {
                pid,
                stream,
                stdout,
                stderr,
            }),
            ZygoteReply::Refused { message } => Err(ZygoteError::Refused { message }),
            ZygoteReply::Reaped { .. } => Err(PythonReadError::Missing { what: "a child" }.into()),
        }
    }

    /// Ends a child and waits until it is gone. If the zygote does not help with that, this ends the zygote too.
    pub(crate) fn end(mut self, pid: i32) -> Option<PythonZygote> {
        // A child that has already ended is still there to be reaped.
        if inside::kill(pid).is_ok() && self.reap(pid).is_ok() {
            return Some(self);
        }
        // The zygote cannot refuse either call. Its orphan then belongs to this process; an error means that the child
        // is already gone.
        let _ = inside::kill(self.pid);
        let _ = inside::wait_for_child(self.pid, WaitMode::Forever);
        let _ = inside::wait_for_child(pid, WaitMode::Forever);
        None
    }

    fn reap(&mut self, pid: i32) -> Result<(), ZygoteError> {
        self.send(&ZygoteRequest::Reap { pid }, &[])?;
        if !inside::is_readable(self.socket.as_fd(), REAP_PATIENCE).map_err(ZygoteError::Socket)? {
            return Err(ZygoteError::Socket(io::ErrorKind::TimedOut.into()));
        }
        match self.reply()? {
            ZygoteReply::Reaped { .. } => Ok(()),
            ZygoteReply::Refused { message } => Err(ZygoteError::Refused { message }),
            ZygoteReply::Child { .. } => Err(PythonReadError::Missing { what: "a status" }.into()),
        }
    }

    fn send_request(&mut self, request: &ZygoteRequest, descriptors: &[RawFd]) -> Result<ZygoteReply, ZygoteError> {
        self.send(request, descriptors)?;
        self.reply()
    }

    fn send(&self, request: &ZygoteRequest, descriptors: &[RawFd]) -> Result<(), ZygoteError> {
        let sent = socket::send(self.socket.as_fd(), &request.to_packet(), descriptors);
        sent.map(drop).map_err(ZygoteError::Socket)
    }

    fn reply(&self) -> Result<ZygoteReply, ZygoteError> {
        Ok(ZygoteReply::from_packet(&self.receive()?)?)
    }

    fn receive(&self) -> Result<Vec<u8>, ZygoteError> {
        let mut packet = vec![0; MAX_PACKET];
        let (length, _) = socket::receive(self.socket.as_fd(), &mut packet).map_err(ZygoteError::Socket)?;
        packet.truncate(length);
        if packet.is_empty() {
            Err(ZygoteError::Socket(io::ErrorKind::UnexpectedEof.into()))
        } else {
            Ok(packet)
        }
    }
}

fn become_zygote(interpreter: &str, filter: &Filter, socket: &OwnedFd) -> ! {
    const CANNOT_START: i32 = 74;
    let argv: Vec<String> = std::iter::once(interpreter.to_owned())
        .chain(python::zygote_arguments(&filter.to_bytes()))
        .collect();
    let env = ENVIRONMENT.map(|(name, value)| (name.to_owned(), value.to_owned()));
    if inside::dup_onto(socket.as_fd(), CONTROL_DESCRIPTOR).is_ok() {
        // `become_program` returns only on failure, and the closed socket tells the parent.
        let _ = inside::become_program(Path::new(interpreter), &argv, &env);
    }
    inside::exit_now(CANNOT_START)
}
