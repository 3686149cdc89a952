//! What goes into an execution: the job, its source, and standard input as it arrives.

use std::collections::BTreeMap;

use ringfence_wire::{
    self as wire, BoundedList, BoundedText, Job, JobArguments, JobEnvironment, JobKind, JobLanguage, PROTOCOL_VERSION,
    PipeStream, StdinMode, ToChild,
};
use tokio::sync::mpsc;

use crate::execution::{ExecutionError, ExecutionTask, ReplayState, TaskKind};
use crate::files::WORKSPACE;
use crate::pipe::{HostPipe, PipeError};
use crate::sandbox::Sandbox;

/// The port on 127.0.0.1 at which programs find their proxy.
pub const NETWORK_PORT: u16 = 3128;

/// The file into which the worker writes the certificates that programs should trust.
pub const NETWORK_TRUST: &str = "/run/ringfence/ca.pem";

/// What is still to be sent: the source, then standard input as it arrives.
pub(crate) struct InputFeed {
    /// The source, followed by the input and the trace.
    source: Vec<u8>,
    sent: usize,
    source_open: bool,
    stdin: Option<mpsc::Receiver<Vec<u8>>>,
    piece: Vec<u8>,
    stdin_open: bool,
}

impl InputFeed {
    pub(crate) fn begin(
        pipe: &mut HostPipe,
        sandbox: &Sandbox,
        task: ExecutionTask,
    ) -> Result<InputFeed, ExecutionError> {
        let (job, source) = build_job(sandbox, &task)?;
        let stdin_open = task.stdin.is_some();
        pipe.queue_message(&ToChild::Job(job))?;
        if let Some(network) = task.network {
            pipe.allow_tunnels(network.tunnels);
        }
        let source_open = !matches!(task.kind, TaskKind::Program { .. });
        Ok(InputFeed {
            source,
            sent: 0,
            source_open,
            stdin: task.stdin,
            piece: Vec::new(),
            stdin_open,
        })
    }

    pub(crate) fn send_pending(&mut self, pipe: &mut HostPipe) -> Result<(), PipeError> {
        if self.source_open {
            self.sent += pipe.queue_bytes(PipeStream::Source, self.source.get(self.sent..).unwrap_or_default())?;
            if self.sent == self.source.len() {
                pipe.end_stream(PipeStream::Source)?;
                self.source_open = false;
            }
        }
        if !self.piece.is_empty() {
            let taken = pipe.queue_bytes(PipeStream::Stdin, &self.piece)?;
            self.piece.drain(..taken);
        }
        if self.stdin_open && self.stdin.is_none() && self.piece.is_empty() {
            pipe.end_stream(PipeStream::Stdin)?;
            self.stdin_open = false;
        }
        Ok(())
    }

    pub(crate) fn wants_stdin(&self, pipe: &HostPipe) -> bool {
        self.stdin.is_some() && self.piece.is_empty() && pipe.room(PipeStream::Stdin) > 0
    }

    pub(crate) async fn next_stdin(&mut self) -> Option<Vec<u8>> {
        match &mut self.stdin {
            Some(stdin) => stdin.recv().await,
            None => std::future::pending().await,
        }
    }

    pub(crate) fn push_stdin(&mut self, piece: Option<Vec<u8>>) {
        match piece {
            Some(piece) => self.piece = piece,
            None => self.stdin = None,
        }
    }
}

fn build_job(sandbox: &Sandbox, task: &ExecutionTask) -> Result<(Job, Vec<u8>), ExecutionError> {
    let too_large = |what: &str| ExecutionError::Job { what: what.to_owned() };
    let text = |value: &str, what: &str| BoundedText::new(value).map_err(|_| too_large(what));
    let mut args = task
        .args
        .iter()
        .map(|one| text(one, "arguments"))
        .collect::<Result<Vec<_>, _>>()?;
    let (kind, source) = match &task.kind {
        TaskKind::Code {
            language,
            file_name,
            source,
        } => {
            let args = BoundedList::new(args).map_err(|_| too_large("arguments"))?;
            code_job(task, (*language, file_name), args, (source, None))
        }
        TaskKind::Function {
            language,
            file_name,
            source,
            input,
        } => {
            let args = BoundedList::new(args).map_err(|_| too_large("arguments"))?;
            code_job(task, (*language, file_name), args, (source, Some(input)))
        }
        TaskKind::Shell { file_name, source } => {
            let args = BoundedList::new(args).map_err(|_| too_large("arguments"))?;
            let source_bytes = source.len() as u64;
            (
                JobKind::Shell {
                    file_name: BoundedText::truncated(file_name),
                    args,
                    source_bytes,
                },
                source.clone().into_bytes(),
            )
        }
        TaskKind::Program { program } => {
            args.insert(0, text(program, "the program's name")?);
            let all = BoundedList::new(args).map_err(|_| too_large("arguments"))?;
            (JobKind::Program { argv: all }, Vec::new())
        }
    };
    let stdin = if task.stdin.is_some() {
        StdinMode::Stream
    } else {
        StdinMode::Empty
    };
    Ok((
        Job {
            version: PROTOCOL_VERSION,
            kind,
            cwd: BoundedText::truncated(&sandbox.inner.path_inside(WORKSPACE)),
            env: environment(sandbox, task)?,
            stdin,
            network: wire_network(sandbox, task)?,
        },
        source,
    ))
}

/// A job of code, and the bytes of its source stream: the source, the input and the trace.
fn code_job(
    task: &ExecutionTask,
    (language, file_name): (JobLanguage, &str),
    args: JobArguments,
    (source, input): (&str, Option<&String>),
) -> (JobKind, Vec<u8>) {
    let again = task.replay.clone().unwrap_or_else(ReplayState::fresh);
    let kind = JobKind::Code {
        language,
        file_name: BoundedText::truncated(file_name),
        args,
        source_bytes: source.len() as u64,
        input_bytes: input.map(|input| input.len() as u64),
        seed: again.seed,
        clock: again.clock,
        trace_bytes: again.trace.len() as u64,
    };
    let input = input.map_or("", String::as_str);
    (kind, [source.as_bytes(), input.as_bytes(), &again.trace].concat())
}

fn wire_network(sandbox: &Sandbox, task: &ExecutionTask) -> Result<Option<wire::NetworkProxy>, ExecutionError> {
    let too_large = |_| ExecutionError::Job {
        what: "certificates".to_owned(),
    };
    match &task.network {
        Some(_) if !sandbox.spec.network => Err(ExecutionError::NoNetwork),
        Some(network) => Ok(Some(wire::NetworkProxy {
            port: NETWORK_PORT,
            trust: BoundedText::new(network.trust.as_str()).map_err(too_large)?,
        })),
        None => Ok(None),
    }
}

/// The environment of the sandbox, with the variables that the network adds.
fn environment(sandbox: &Sandbox, task: &ExecutionTask) -> Result<JobEnvironment, ExecutionError> {
    let too_large = || ExecutionError::Job { what: "env".to_owned() };
    let more = task.network.iter().flat_map(|network| &network.env);
    let all: BTreeMap<&str, &str> = sandbox
        .spec
        .env
        .iter()
        .chain(more)
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let env = all
        .into_iter()
        .map(|(name, value)| Ok((BoundedText::try_from(name)?, BoundedText::try_from(value)?)))
        .collect::<Result<Vec<_>, wire::BoundExceeded>>()
        .map_err(|_| too_large())?;
    BoundedList::new(env).map_err(|_| too_large())
}
