//! One execution: what it is asked to run, and how the host judges its end.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher as _;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ringfence_jail::cgroup::{GroupError, Leaf};
use ringfence_wire::{Emit, Language, Outcome, OutcomeKind, TICKS_PER_SECOND};
use tokio::sync::{mpsc, watch};
use tokio::time;

use crate::control::ControlError;
use crate::door::{Door, Refusal};
use crate::follow::{Followed, Nobody};
use crate::pipe::{Pipe, PipeError, Progress};
use crate::running::Sandbox;
use crate::tunnel::Tunnel;
use crate::verdict::{Limit, Usage, Verdict, Violation};

/// An engine is warm within milliseconds, a Python within tens of them.
const READY_PATIENCE: Duration = Duration::from_secs(20);
/// What to run.
#[derive(Debug)]
pub struct Task {
    /// Code or program.
    pub kind: TaskKind,
    /// What it finds as arguments.
    pub args: Vec<String>,
    /// What it reads, in pieces; `None`: nothing.
    pub stdin: Option<mpsc::Receiver<Vec<u8>>>,
    /// Where its calls go; `None`: nowhere, and it is told so.
    pub door: Option<Door>,
    /// How long it may take, where that is less than the place allows.
    pub wall: Option<Duration>,
    /// Its way to the network, for programs, scripts and Python in a place made for it; `None`: none.
    pub network: Option<Network>,
    /// What makes code do the same again; `None`: [fresh](Again::fresh). Programs and scripts have none.
    pub again: Option<Again>,
}

/// A standard input that is known before the program starts.
pub fn known_stdin(bytes: Vec<u8>) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(1);
    // There is room for one.
    let _ = sender.try_send(bytes);
    receiver
}

/// Everything but its source, its arguments, its files and its answers that an execution of code depends on.
#[derive(Clone, PartialEq, Eq)]
pub struct Again {
    /// What its random numbers are made of.
    pub seed: u64,
    /// What its clock starts with: ticks of 100 µs since the Unix epoch.
    pub clock: u64,
    /// What reached it when it ran before, as it was told with its calls and its end; empty for the first time.
    pub trace: Vec<u8>,
}

impl Again {
    /// For the first time: any seed, now.
    pub fn fresh() -> Again {
        Again {
            seed: RandomState::new().hash_one(0u8),
            clock: ticks_now(),
            trace: Vec::new(),
        }
    }
}

impl fmt::Debug for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Again")
            .field("seed", &self.seed)
            .field("clock", &self.clock)
            .field("trace", &format_args!("{} bytes", self.trace.len()))
            .finish()
    }
}

/// Now, in ticks of a program's clock.
pub(crate) fn ticks_now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let tick = Duration::from_secs(1).as_nanos() / u128::from(TICKS_PER_SECOND);
    u64::try_from(now.as_nanos() / tick).unwrap_or(u64::MAX)
}

/// A way to the network: a port of the sandbox's loopback, [`NETWORK_PORT`](crate::NETWORK_PORT), whose connections are
/// handed over one by one.
#[derive(Debug)]
pub struct Network {
    /// Variables beside those of the place; where both have one, this one counts.
    pub env: Vec<(String, String)>,
    /// Certificates, as PEM of at most 16 KiB, that programs are to trust beside the usual ones: together they are in
    /// `/run/ringfence/ca.pem`.
    pub trust: String,
    /// Who takes the connections, of which at most 256 exist at a time. While there is no room they wait; when nobody is
    /// there any more they are reset.
    pub tunnels: mpsc::Sender<Tunnel>,
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
    /// Code that defines a function: it is called, and what it answers is the value.
    Function {
        /// Any but [`Language::Program`].
        language: Language,
        /// What errors call it.
        file_name: String,
        /// The program.
        source: String,
        /// What the function is called with: a JSON object as text.
        input: String,
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
            TaskKind::Code { language, .. } | TaskKind::Function { language, .. } => *language,
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

    /// Hears of something that was tried and refused, when it happens.
    fn tried(&mut self, _violation: &Violation) {}

    /// Hears that it cannot be run again, and why; a claim.
    fn unrepeatable(&mut self, _why: &str) {}
}

/// Somebody's wish that an execution end, or the moment at which it ends by itself.
#[derive(Debug, Clone)]
pub struct Stop {
    pulled: watch::Receiver<bool>,
    deadline: Option<time::Instant>,
}

impl Stop {
    /// A stop and the switch that pulls it.
    pub fn new() -> (watch::Sender<bool>, Stop) {
        let (sender, receiver) = watch::channel(false);
        let stop = Stop {
            pulled: receiver,
            deadline: None,
        };
        (sender, stop)
    }

    /// The same, pulled by itself when so much time is over from now, whatever the execution waits for meanwhile.
    #[must_use]
    pub fn within(mut self, timeout: Option<Duration>) -> Stop {
        self.deadline = timeout.and_then(|timeout| time::Instant::now().checked_add(timeout));
        self
    }

    /// Whether it was pulled, or its time is over.
    pub fn is_pulled(&self) -> bool {
        *self.pulled.borrow() || self.is_overdue()
    }

    /// Whether its time is over, and nobody pulled it.
    pub fn is_overdue(&self) -> bool {
        !*self.pulled.borrow() && self.deadline.is_some_and(|deadline| deadline <= time::Instant::now())
    }

    /// What ends an execution that ends by it now.
    pub fn verdict(&self) -> Verdict {
        if self.is_overdue() {
            Verdict::Overdue
        } else {
            Verdict::Cancelled
        }
    }

    /// Waits until it is pulled, or its time is over; for ever if neither can be.
    pub async fn pulled(&mut self) {
        let deadline = self.deadline;
        let pulled = async {
            if self.pulled.wait_for(|pulled| *pulled).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        match deadline {
            None => pulled.await,
            Some(deadline) => tokio::select! {
                biased;
                () = pulled => {}
                () = time::sleep_until(deadline) => {}
            },
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
    /// The refusal of a call that it did not catch, as this side said it.
    pub refused: Option<Refusal>,
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
    /// Calls that went through the door and were not answered before the end, by their numbers.
    pub unanswered: Vec<u32>,
    /// What it recorded since its last call, so that it can be run again.
    pub trace: Vec<u8>,
    /// Why it cannot be run again; a claim.
    pub unrepeatable: Option<String>,
    /// Files that it wants to go out; claims, for [`Workspace::collect`](crate::Workspace::collect).
    pub emitted: Vec<Emit>,
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
    /// A network for a place that has none.
    #[error("the place was made without a network")]
    NoNetwork,
    /// A program or a script for a place whose policy has `proc.programs: none`.
    #[error("the place runs code on the engines only: `proc.programs` is none")]
    NoPrograms,
    /// No Python on this host.
    #[error("there is no Python on this machine")]
    NoPython,
}

/// A child that waits for its job.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) number: u32,
    pub(crate) language: Language,
    /// Boxed, for it is large and moves with every future that holds it.
    pub(crate) pipe: Box<Pipe>,
    pub(crate) leaf: Option<Leaf>,
}

impl Prepared {
    pub(crate) fn new(number: u32, language: Language, end: OwnedFd, leaf: Option<Leaf>) -> Result<Prepared, RunError> {
        Ok(Prepared {
            number,
            language,
            pipe: Box::new(Pipe::new(end)?),
            leaf,
        })
    }

    /// TypeScript and JavaScript are one engine.
    pub(crate) fn serves(&self, language: Language) -> bool {
        let engine = |language| matches!(language, Language::TypeScript | Language::JavaScript);
        self.language == language || (engine(self.language) && engine(language))
    }

    pub(crate) async fn wait_until_ready(&mut self) -> Result<(), RunError> {
        let ready = async {
            while !self.pipe.is_ready() {
                self.pipe.readable().await.map_err(PipeError::Socket)?;
                if self.pipe.receive(&mut Nobody)? == Progress::Over {
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
    let uncaught = outcome.as_ref().and_then(|outcome| outcome.error.as_ref()?.call);
    let refused = uncaught.and_then(|call| prepared.pipe.take_issued(call));
    let trace = prepared.pipe.take_trace();
    let unrepeatable = prepared.pipe.unrepeatable().map(str::to_owned);
    let emitted = prepared.pipe.take_emitted();
    let followed = followed?;
    let counted = followed.watched.counted(sandbox, prepared.leaf.as_ref())?;
    let out_of_memory = outcome
        .as_ref()
        .is_some_and(|outcome| outcome.kind == OutcomeKind::OutOfMemory);
    let verdict = match (followed.verdict, counted.limit) {
        (Verdict::Finished, Some(limit)) => Verdict::Limit(limit),
        // Where the kernel's answer to a request for memory is the limit, only the program sees it. A group's limit kills.
        (Verdict::Finished, None) if out_of_memory && prepared.leaf.is_none() => Verdict::Limit(Limit::Memory),
        (Verdict::Finished, None) if outcome.is_none() => Verdict::Died,
        (verdict, _) => verdict,
    };
    Ok(Ended {
        verdict,
        outcome,
        refused,
        value: followed.value,
        usage: Usage {
            wall: followed.wall,
            cpu: counted.cpu,
            peak_memory: counted.peak_memory,
            peak_tmpfs: counted.peak_tmpfs,
        },
        written: followed.written,
        violations: followed.violations.listed,
        more_violations: followed.violations.more,
        unanswered: followed.unanswered,
        trace,
        unrepeatable,
        emitted,
    })
}
