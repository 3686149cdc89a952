//! What goes into an execution: the job, its source, and standard input as it arrives.

use std::collections::BTreeMap;

use ringfence_wire::{
    self as wire, Arguments, Environment, Job, JobKind, Language, List, StdinMode, Stream, Text, ToChild, VERSION,
};
use tokio::sync::mpsc;

use crate::execution::{Again, RunError, Task, TaskKind};
use crate::pipe::{Pipe, PipeError};
use crate::running::Sandbox;

/// The port on 127.0.0.1 at which programs find their proxy.
pub const NETWORK_PORT: u16 = 3128;

/// The file into which the worker writes the certificates that programs should trust.
pub const NETWORK_TRUST: &str = "/run/ringfence/ca.pem";

/// What is still to be sent: the source, then standard input as it arrives.
pub(crate) struct Feed {
    /// The source, followed by the input and the trace.
    source: Vec<u8>,
    sent: usize,
    source_open: bool,
    stdin: Option<mpsc::Receiver<Vec<u8>>>,
    piece: Vec<u8>,
    stdin_open: bool,
}

impl Feed {
    pub(crate) fn begin(pipe: &mut Pipe, sandbox: &Sandbox, task: Task) -> Result<Feed, RunError> {
        let (job, source) = job(sandbox, &task)?;
        let stdin_open = task.stdin.is_some();
        pipe.give(&ToChild::Job(job))?;
        if let Some(network) = task.network {
            pipe.allow_tunnels(network.tunnels);
        }
        let source_open = !matches!(task.kind, TaskKind::Program { .. });
        Ok(Feed {
            source,
            sent: 0,
            source_open,
            stdin: task.stdin,
            piece: Vec::new(),
            stdin_open,
        })
    }

    pub(crate) fn pump(&mut self, pipe: &mut Pipe) -> Result<(), PipeError> {
        if self.source_open {
            self.sent += pipe.offer(Stream::Source, self.source.get(self.sent..).unwrap_or_default())?;
            if self.sent == self.source.len() {
                pipe.end(Stream::Source)?;
                self.source_open = false;
            }
        }
        if !self.piece.is_empty() {
            let taken = pipe.offer(Stream::Stdin, &self.piece)?;
            self.piece.drain(..taken);
        }
        if self.stdin_open && self.stdin.is_none() && self.piece.is_empty() {
            pipe.end(Stream::Stdin)?;
            self.stdin_open = false;
        }
        Ok(())
    }

    pub(crate) fn wants_a_piece(&self, pipe: &Pipe) -> bool {
        self.stdin.is_some() && self.piece.is_empty() && pipe.room(Stream::Stdin) > 0
    }

    pub(crate) async fn next_piece(&mut self) -> Option<Vec<u8>> {
        match &mut self.stdin {
            Some(stdin) => stdin.recv().await,
            None => std::future::pending().await,
        }
    }

    pub(crate) fn take(&mut self, piece: Option<Vec<u8>>) {
        match piece {
            Some(piece) => self.piece = piece,
            None => self.stdin = None,
        }
    }
}

fn job(sandbox: &Sandbox, task: &Task) -> Result<(Job, Vec<u8>), RunError> {
    let too_large = |what: &str| RunError::Job { what: what.to_owned() };
    let text = |value: &str, what: &str| Text::new(value).map_err(|_| too_large(what));
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
            let args = List::new(args).map_err(|_| too_large("arguments"))?;
            code(task, (*language, file_name), args, (source, None))
        }
        TaskKind::Function {
            language,
            file_name,
            source,
            input,
        } => {
            let args = List::new(args).map_err(|_| too_large("arguments"))?;
            code(task, (*language, file_name), args, (source, Some(input)))
        }
        TaskKind::Shell { file_name, source } => {
            let args = List::new(args).map_err(|_| too_large("arguments"))?;
            let source_bytes = source.len() as u64;
            (
                JobKind::Shell {
                    file_name: Text::cut(file_name),
                    args,
                    source_bytes,
                },
                source.clone().into_bytes(),
            )
        }
        TaskKind::Program { program } => {
            args.insert(0, text(program, "the program's name")?);
            let all = List::new(args).map_err(|_| too_large("arguments"))?;
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
            version: VERSION,
            kind,
            cwd: Text::cut("/workspace"),
            env: environment(sandbox, task)?,
            stdin,
            network: network(sandbox, task)?,
        },
        source,
    ))
}

/// A job of code, and the bytes of its source stream: the source, the input and the trace.
fn code(
    task: &Task,
    (language, file_name): (Language, &str),
    args: Arguments,
    (source, input): (&str, Option<&String>),
) -> (JobKind, Vec<u8>) {
    let again = task.again.clone().unwrap_or_else(Again::fresh);
    let kind = JobKind::Code {
        language,
        file_name: Text::cut(file_name),
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

fn network(sandbox: &Sandbox, task: &Task) -> Result<Option<wire::Network>, RunError> {
    let too_large = |_| RunError::Job {
        what: "certificates".to_owned(),
    };
    match &task.network {
        Some(_) if !sandbox.spec.network => Err(RunError::NoNetwork),
        Some(network) => Ok(Some(wire::Network {
            port: NETWORK_PORT,
            trust: Text::new(network.trust.as_str()).map_err(too_large)?,
        })),
        None => Ok(None),
    }
}

/// The environment of the sandbox, with the variables that the network adds.
fn environment(sandbox: &Sandbox, task: &Task) -> Result<Environment, RunError> {
    let too_large = || RunError::Job { what: "env".to_owned() };
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
        .map(|(name, value)| Ok((Text::try_from(name)?, Text::try_from(value)?)))
        .collect::<Result<Vec<_>, wire::TooLong>>()
        .map_err(|_| too_large())?;
    List::new(env).map_err(|_| too_large())
}
