//! One execution: the job goes in, output comes out, limits are watched, and the host decides how it ended.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use ringfence_jail::SyscallListener;
use ringfence_jail::cgroup::{GroupError, Leaf};
use ringfence_wire::{Language, Outcome, OutcomeKind, Stream};
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, watch};
use tokio::time;

use crate::control::ControlError;
use crate::feed::Feed;
use crate::pipe::{Pipe, PipeError, Progress, Receiver};
use crate::running::Sandbox;
use crate::verdict::{Limit, Usage, Verdict, Violation};
use crate::watch::Watch;

/// How often limits that the kernel does not hold are looked at.
const TICK: Duration = Duration::from_millis(50);
/// Output is cut at the limit; a program that goes on this many times beyond it is flooding.
const FLOOD: u64 = 16;
/// After so many turns of its loop an execution lets the runtime look at everything else.
const TURNS: u32 = 16;
/// An engine is warm within milliseconds, a Python within tens of them.
const READY_PATIENCE: Duration = Duration::from_secs(20);
/// More attempts are counted, not listed.
const MOST_VIOLATIONS: usize = 32;

/// What to run.
#[derive(Debug)]
pub struct Task {
    /// Code or program.
    pub kind: TaskKind,
    /// What it finds as arguments.
    pub args: Vec<String>,
    /// What it reads, in pieces; `None`: nothing.
    pub stdin: Option<mpsc::Receiver<Vec<u8>>>,
}

/// Code or program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskKind {
    /// Code on an engine.
    Code {
        /// Any but [`Language::Program`].
        language: Language,
        /// What errors call it.
        file_name: String,
        /// The program.
        source: String,
    },
    /// A shell script.
    Shell {
        /// Its `$0`.
        file_name: String,
        /// The script.
        source: String,
    },
    /// A program by name or path.
    Program {
        /// Its name.
        program: String,
    },
}

impl Task {
    pub(crate) fn language(&self) -> Language {
        match &self.kind {
            TaskKind::Code { language, .. } => *language,
            TaskKind::Shell { .. } | TaskKind::Program { .. } => Language::Program,
        }
    }
}

/// Which of a program's two outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Who takes a program's output while it runs, never more than the limit.
pub trait Words: Send {
    /// Takes some of it.
    fn take(&mut self, output: Output, bytes: &[u8]);
}

/// Somebody's wish that an execution end.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// A stop and the switch that pulls it.
    pub fn new() -> (watch::Sender<bool>, Stop) {
        let (sender, receiver) = watch::channel(false);
        (sender, Stop(receiver))
    }

    /// Waits until it is pulled; for ever if nobody can any more.
    async fn pulled(&mut self) {
        if self.0.wait_for(|pulled| *pulled).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Everything the host knows of an execution that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// What ended it.
    pub verdict: Verdict,
    /// What the child said of its end; a claim.
    pub outcome: Option<Outcome>,
    /// The value as JSON text; a claim.
    pub value: Vec<u8>,
    /// What it used.
    pub usage: Usage,
    /// Bytes of standard output and error there were, also those cut off.
    pub written: (u64, u64),
    /// What it tried and was refused.
    pub violations: Vec<Violation>,
    /// Attempts that are not in the list.
    pub more_violations: u64,
}

/// Why an execution could not be.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The conversation with the first process.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The pipe of the execution.
    #[error(transparent)]
    Pipe(#[from] PipeError),
    /// Its control groups.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The job does not fit the wire.
    #[error("the job is too large: {what}")]
    Job {
        /// Which part.
        what: String,
    },
    /// A socket.
    #[error("cannot make the pipe of an execution")]
    Socket(#[source] io::Error),
    /// Killing.
    #[error("cannot end the sandbox")]
    Kill(#[source] io::Error),
    /// Looking at limits.
    #[error("cannot watch the limits of an execution")]
    Watch(#[source] io::Error),
    /// The child did not come up.
    #[error("the engine did not start")]
    NotPrepared,
    /// No Python on this host.
    #[error("there is no Python on this machine")]
    NoPython,
}

/// A child that waits for its job.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) number: u32,
    pub(crate) language: Language,
    pipe: Pipe,
    pub(crate) leaf: Option<Leaf>,
}

impl Prepared {
    pub(crate) fn new(number: u32, language: Language, end: OwnedFd, leaf: Option<Leaf>) -> Result<Prepared, RunError> {
        Ok(Prepared {
            number,
            language,
            pipe: Pipe::new(end)?,
            leaf,
        })
    }

    /// TypeScript and JavaScript are one engine.
    pub(crate) fn serves(&self, language: Language) -> bool {
        let engine = |language| matches!(language, Language::TypeScript | Language::JavaScript);
        self.language == language || (engine(self.language) && engine(language))
    }

    pub(crate) async fn wait_until_ready(&mut self) -> Result<(), RunError> {
        let mut nobody = Taken::new(0, None);
        let ready = async {
            while !self.pipe.is_ready() {
                self.pipe.readable().await.map_err(PipeError::Socket)?;
                if self.pipe.receive(&mut nobody)? == Progress::Over {
                    return Err(RunError::NotPrepared);
                }
            }
            Ok(())
        };
        time::timeout(READY_PATIENCE, ready)
            .await
            .map_err(|_| RunError::NotPrepared)?
    }
}

/// What a run leaves before the host has judged it.
#[derive(Debug)]
pub(crate) struct Followed {
    verdict: Verdict,
    value: Vec<u8>,
    written: (u64, u64),
    wall: Duration,
    violations: Violations,
    watched: Watch,
}

/// What the child sends, taken.
struct Taken<'a> {
    words: Option<&'a mut dyn Words>,
    most: u64,
    written: (u64, u64),
    value: Vec<u8>,
}

impl<'a> Taken<'a> {
    fn new(most: u64, words: Option<&'a mut dyn Words>) -> Taken<'a> {
        Taken {
            words,
            most,
            written: (0, 0),
            value: Vec::new(),
        }
    }

    fn floods(&self) -> bool {
        self.written.0.max(self.written.1) > self.most.saturating_mul(FLOOD)
    }
}

impl Receiver for Taken<'_> {
    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        let (output, written) = match stream {
            Stream::Value => return self.value.extend_from_slice(bytes),
            Stream::Stderr => (Output::Stderr, &mut self.written.1),
            Stream::Stdout | Stream::Source | Stream::Stdin => (Output::Stdout, &mut self.written.0),
        };
        let room = usize::try_from(self.most.saturating_sub(*written)).unwrap_or(usize::MAX);
        *written += bytes.len() as u64;
        let part = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        if let (Some(words), false) = (self.words.as_mut(), part.is_empty()) {
            words.take(output, part);
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Violations {
    listed: Vec<Violation>,
    more: u64,
}

/// Gives the job and follows it to its end.
pub(crate) async fn follow(
    sandbox: &Sandbox,
    prepared: &mut Prepared,
    task: Task,
    words: &mut dyn Words,
    stop: &mut Stop,
) -> Result<Followed, RunError> {
    let most = sandbox.spec.limits.output.get();
    let mut taken = Taken::new(most, Some(words));
    let mut feed = Feed::begin(&mut prepared.pipe, sandbox, task)?;
    let started = Instant::now();
    let deadline = time::sleep(sandbox.spec.limits.wall.min(sandbox.lifetime_left()));
    tokio::pin!(deadline);
    let mut tick = time::interval_at(time::Instant::now() + TICK, TICK);
    tick.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    let mut watched = Watch::new(sandbox);
    let mut violations = Violations::default();
    let pipe = &mut prepared.pipe;
    let mut turns = 0u32;
    let verdict = loop {
        turns = turns.wrapping_add(1);
        if turns.is_multiple_of(TURNS) {
            // A branch that is always ready must not keep the clock and the sockets from being looked at.
            tokio::task::yield_now().await;
        }
        feed.pump(pipe)?;
        pipe.send()?;
        tokio::select! {
            // In this order: an end that was asked for is never late because of a flood.
            biased;
            () = stop.pulled() => break Verdict::Cancelled,
            () = &mut deadline => break Verdict::Limit(Limit::Wall),
            _ = tick.tick() => {
                if let Some(limit) = watched.look(sandbox, prepared.leaf.as_ref())? {
                    break Verdict::Limit(limit);
                }
            }
            stopped = next_stopped(&sandbox.listener) => violations.note(stopped?),
            readable = pipe.readable() => {
                readable.map_err(PipeError::Socket)?;
                let progress = pipe.receive(&mut taken)?;
                if taken.floods() {
                    break Verdict::Limit(Limit::Output);
                }
                if progress == Progress::Over {
                    break Verdict::Finished;
                }
            }
            writable = pipe.writable(), if pipe.wants_to_write() => writable.map_err(PipeError::Socket)?,
            piece = feed.next_piece(), if feed.wants_a_piece(pipe) => feed.take(piece),
        }
    };
    if prepared.leaf.is_none() {
        // The last look while its processes are still there to be looked at.
        watched.note_processes(sandbox);
    }
    let (value, written, wall) = (taken.value, taken.written, started.elapsed());
    Ok(Followed {
        verdict,
        value,
        written,
        wall,
        violations,
        watched,
    })
}

async fn next_stopped(listener: &AsyncFd<SyscallListener>) -> Result<ringfence_jail::Stopped, RunError> {
    loop {
        let mut guard = listener.readable().await.map_err(RunError::Watch)?;
        match guard.get_inner().refuse_next().map_err(RunError::Watch)? {
            Some(stopped) => return Ok(stopped),
            None => guard.clear_ready(),
        }
    }
}

impl Violations {
    fn note(&mut self, stopped: ringfence_jail::Stopped) {
        if self.listed.len() >= MOST_VIOLATIONS {
            self.more += 1;
            return;
        }
        let detail = stopped
            .name()
            .map_or_else(|| format!("system call {}", stopped.number), str::to_owned);
        self.listed.push(Violation {
            kind: "syscall",
            detail,
            rule: "proc.syscalls",
        });
    }
}

/// Whether the child itself said that it is done.
pub(crate) fn is_done(followed: &Result<Followed, RunError>) -> bool {
    followed
        .as_ref()
        .is_ok_and(|followed| followed.verdict == Verdict::Finished)
}

/// Judges an execution after nothing of it is left: what the kernel counted outweighs what the child said.
pub(crate) fn conclude(
    sandbox: &Sandbox,
    prepared: &mut Prepared,
    followed: Result<Followed, RunError>,
) -> Result<Ended, RunError> {
    let outcome = prepared.pipe.take_outcome();
    let followed = match followed {
        Ok(followed) => followed,
        // Nonsense on the pipe is an attack or a crash: the execution is over either way, and that is its result.
        Err(RunError::Pipe(error @ (PipeError::Protocol(_) | PipeError::Message(_) | PipeError::Turn(_)))) => {
            tracing::warn!(%error, "an execution broke the protocol");
            Followed {
                verdict: Verdict::Died,
                value: Vec::new(),
                written: (0, 0),
                wall: Duration::ZERO,
                violations: Violations::default(),
                watched: Watch::new(sandbox),
            }
        }
        Err(error) => return Err(error),
    };
    let counted = followed.watched.counted(sandbox, prepared.leaf.as_ref())?;
    let out_of_memory = outcome
        .as_ref()
        .is_some_and(|outcome| outcome.kind == OutcomeKind::OutOfMemory);
    let verdict = match (followed.verdict, counted.limit) {
        (Verdict::Finished, Some(limit)) => Verdict::Limit(limit),
        // Where the kernel's answer to a request for memory is the limit, only the program sees it.
        (Verdict::Finished, None) if out_of_memory => Verdict::Limit(Limit::Memory),
        (Verdict::Finished, None) if outcome.is_none() => Verdict::Died,
        (verdict, _) => verdict,
    };
    Ok(Ended {
        verdict,
        outcome,
        value: followed.value,
        usage: Usage {
            wall: followed.wall,
            cpu: counted.cpu,
            peak_memory: counted.peak_memory,
        },
        written: followed.written,
        violations: followed.violations.listed,
        more_violations: followed.violations.more,
    })
}
