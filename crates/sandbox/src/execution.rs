//! One execution: what it runs, and how the host judges its end.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher as _;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ringfence_jail::cgroup::CgroupError;
use ringfence_wire::{EmittedFile, JobLanguage, JobOutcome, JobOutcomeKind, TICKS_PER_SECOND};
use tokio::sync::{mpsc, watch};
use tokio::time;

use crate::call_port::{CallPort, ToolRefusal};
use crate::control::ControlError;
use crate::follow::{IgnoreChild, ObservedRun};
use crate::pipe::{HostPipe, PipeError, PipeProgress};
use crate::sandbox::Sandbox;
use crate::spec::SpecError;
use crate::tunnel::ProgramTunnel;
use crate::verdict::{ExecutionLimit, MeasuredUsage, Verdict, Violation};

/// A JavaScript engine starts within milliseconds, a Python interpreter within tens of them.
const READY_TIMEOUT: Duration = Duration::from_secs(20);
/// What an execution runs, with its input and its connections to the caller.
#[derive(Debug)]
pub struct ExecutionTask {
    /// The code, script or program to run.
    pub program: RunProgram,
    /// The arguments of the program.
    pub args: Vec<String>,
    /// Standard input in pieces; `None`: empty.
    pub stdin: Option<mpsc::Receiver<Vec<u8>>>,
    /// The port for the program's tool calls; `None`: every call is refused.
    pub call_port: Option<CallPort>,
    /// The time limit, where it is shorter than the policy's.
    pub wall: Option<Duration>,
    /// The network access of programs, scripts and Python in a sandbox made for it; `None`: no network.
    pub network: Option<NetworkAccess>,
    /// What makes code behave as in an earlier run; `None`: [fresh](ReplayState::fresh). Programs and scripts are never replayed.
    pub replay: Option<ReplayState>,
}

/// A standard input whose content is known before the program starts.
pub fn fixed_stdin(bytes: Vec<u8>) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(1);
    // The channel has capacity for one message.
    let _ = sender.try_send(bytes);
    receiver
}

/// Everything that an execution of code depends on, except its source, arguments, files and replies.
#[derive(Clone, PartialEq, Eq)]
pub struct ReplayState {
    /// The seed of the program's random numbers.
    pub seed: u64,
    /// The start of the program's clock, in ticks of 100 µs since the Unix epoch.
    pub clock: u64,
    /// The trace of the earlier run, as its calls and its end reported it; empty for the first run.
    pub trace: Vec<u8>,
}

impl ReplayState {
    /// The state of a first run: a random seed and the current time.
    pub fn fresh() -> ReplayState {
        ReplayState {
            seed: RandomState::new().hash_one(0u8),
            clock: ticks_now(),
            trace: Vec::new(),
        }
    }
}

impl fmt::Debug for ReplayState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Again")
            .field("seed", &self.seed)
            .field("clock", &self.clock)
            .field("trace", &format_args!("{} bytes", self.trace.len()))
            .finish()
    }
}

/// The current time in ticks of a program's clock.
pub(crate) fn ticks_now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let tick = Duration::from_secs(1).as_nanos() / u128::from(TICKS_PER_SECOND);
    u64::try_from(now.as_nanos() / tick).unwrap_or(u64::MAX)
}

/// Network access: a port of the sandbox's loopback interface, [`NETWORK_PORT`](crate::NETWORK_PORT), whose connections are
/// handed to the host one by one.
#[derive(Debug)]
pub struct NetworkAccess {
    /// Additional environment variables; they override those of the sandbox.
    pub env: Vec<(String, String)>,
    /// Certificates, as PEM of at most 16 KiB, that programs should trust in addition to the usual ones; all of them
    /// together are in `/run/ringfence/ca.pem`.
    pub trust: String,
    /// The channel to the host's handler of connections, of which at most 256 exist at a time. Connections wait while the
    /// channel is full and are reset when its receiver is gone.
    pub tunnels: mpsc::Sender<ProgramTunnel>,
}

/// What an execution runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunProgram {
    /// Code that runs on an engine.
    Code {
        /// Any language except [`JobLanguage::Program`].
        language: JobLanguage,
        /// The file name that errors show.
        file_name: String,
        /// The source code to run.
        source: String,
    },
    /// Code that defines a function. The function is called, and its return value is the value of the execution.
    Function {
        /// Any language except [`JobLanguage::Program`].
        language: JobLanguage,
        /// The file name that errors show.
        file_name: String,
        /// The source code that defines the function.
        source: String,
        /// The argument of the function: a JSON object as text.
        input: String,
    },
    /// A script: for bash where its name ends in `.bash` or its first line says so, else for `sh`.
    Shell {
        /// The script's name, which it sees as `$0`.
        file_name: String,
        /// The text of the script.
        source: String,
    },
    /// A program by its name or path.
    Named(String),
}

impl RunProgram {
    /// A script for bash, which the extension of its name says.
    pub fn bash(file_name: &str, source: String) -> RunProgram {
        let file_name = format!("{}.bash", file_name.trim_end_matches(".bash").trim_end_matches(".sh"));
        RunProgram::Shell { file_name, source }
    }

    /// The name that reports and approval requests show.
    pub fn name(&self) -> &str {
        match self {
            RunProgram::Code { file_name, .. }
            | RunProgram::Function { file_name, .. }
            | RunProgram::Shell { file_name, .. } => file_name,
            RunProgram::Named(name) => name,
        }
    }

    /// The source, where it has one.
    pub fn source(&self) -> Option<&str> {
        match self {
            RunProgram::Code { source, .. }
            | RunProgram::Function { source, .. }
            | RunProgram::Shell { source, .. } => Some(source),
            RunProgram::Named(_) => None,
        }
    }

    /// The engine that it runs on; [`JobLanguage::Program`] for scripts and programs.
    pub fn language(&self) -> JobLanguage {
        match self {
            RunProgram::Code { language, .. } | RunProgram::Function { language, .. } => *language,
            RunProgram::Shell { .. } | RunProgram::Named(_) => JobLanguage::Program,
        }
    }
}

impl ExecutionTask {
    /// A task without arguments, input, calls or network, under the policy's own limits.
    pub fn new(program: RunProgram) -> ExecutionTask {
        ExecutionTask {
            program,
            args: Vec::new(),
            stdin: None,
            call_port: None,
            wall: None,
            network: None,
            replay: None,
        }
    }

    pub(crate) fn language(&self) -> JobLanguage {
        self.program.language()
    }
}

/// The standard output streams of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandardStream {
    /// Standard output, descriptor 1.
    Stdout,
    /// Standard error, descriptor 2.
    Stderr,
}

/// Receives a program's output while it runs, up to the output limit.
pub trait OutputSink: Send {
    /// Receives a piece of output.
    fn on_output(&mut self, output: StandardStream, bytes: &[u8]);

    /// Receives each refused attempt when it happens.
    fn on_violation(&mut self, _violation: &Violation) {}

    /// Receives the reason why the execution cannot be replayed; the reason comes from the sandbox and is untrusted.
    fn on_unrepeatable(&mut self, _why: &str) {}
}

/// A request to end an execution: a cancellation by its caller, or a deadline.
#[derive(Debug, Clone)]
pub struct Stop {
    cancelled: watch::Receiver<bool>,
    deadline: Option<time::Instant>,
}

impl Stop {
    /// A stop, and the sender that cancels it.
    pub fn new() -> (watch::Sender<bool>, Stop) {
        let (sender, receiver) = watch::channel(false);
        let stop = Stop {
            cancelled: receiver,
            deadline: None,
        };
        (sender, stop)
    }

    /// Adds a deadline after `timeout` from now, which holds whatever the execution waits for.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Option<Duration>) -> Stop {
        self.deadline = timeout.and_then(|timeout| time::Instant::now().checked_add(timeout));
        self
    }

    /// Whether the caller cancelled it or the deadline has passed.
    pub fn is_cancelled(&self) -> bool {
        *self.cancelled.borrow() || self.is_overdue()
    }

    /// Whether the deadline has passed and the caller did not cancel it.
    pub fn is_overdue(&self) -> bool {
        !*self.cancelled.borrow() && self.deadline.is_some_and(|deadline| deadline <= time::Instant::now())
    }

    /// The verdict of an execution that this stop ends now.
    pub fn verdict(&self) -> Verdict {
        if self.is_overdue() {
            Verdict::Overdue
        } else {
            Verdict::Cancelled
        }
    }

    /// Waits for a cancellation or the deadline; forever if neither can come.
    pub async fn cancelled(&mut self) {
        let deadline = self.deadline;
        let pulled = async {
            if self.cancelled.wait_for(|pulled| *pulled).await.is_err() {
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

/// Everything that the host knows about an execution that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConcludedExecution {
    /// How the execution ended, as judged by the host.
    pub verdict: Verdict,
    /// How the child reports its end; untrusted.
    pub outcome: Option<JobOutcome>,
    /// The refusal that the host sent for a call whose error the program did not catch.
    pub refused: Option<ToolRefusal>,
    /// The value as JSON text; untrusted.
    pub value: Vec<u8>,
    /// The resources that the execution used.
    pub usage: MeasuredUsage,
    /// Bytes of standard output and standard error, including those that were cut off.
    pub output_bytes: (u64, u64),
    /// Attempts that were refused, up to a maximum number.
    pub violations: Vec<Violation>,
    /// Number of refused attempts that are not in the list.
    pub more_violations: u64,
    /// Numbers of the calls that went through the port and had no reply at the end.
    pub unanswered: Vec<u32>,
    /// The trace since the last call, for a later replay.
    pub trace: Vec<u8>,
    /// Why the execution cannot be replayed; untrusted.
    pub unrepeatable: Option<String>,
    /// Files that the program wants to emit; untrusted, for [`StoredWorkspace::collect`](crate::Workspace::collect).
    pub emitted: Vec<EmittedFile>,
}

/// Why an execution could not run.
#[derive(Debug, thiserror::Error)]
pub enum ExecutionError {
    /// The control channel to the first process failed.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The pipe of the execution failed.
    #[error(transparent)]
    Pipe(#[from] PipeError),
    /// The control groups could not be made or read.
    #[error(transparent)]
    Group(#[from] CgroupError),
    /// The job is too large for the wire format.
    #[error("the job is too large: {what}")]
    Job {
        /// The part of the job that is too large.
        what: String,
    },
    /// The sockets of the pipe could not be made.
    #[error("cannot make the pipe of an execution")]
    Socket(#[source] io::Error),
    /// The processes of the sandbox could not be killed.
    #[error("cannot end the sandbox")]
    Kill(#[source] io::Error),
    /// The limits could not be checked.
    #[error("cannot watch the limits of an execution")]
    Watch(#[source] io::Error),
    /// The child did not start in time.
    #[error("the engine did not start")]
    NotPrepared,
    /// The task wants a network, and the sandbox has none.
    #[error("the place was made without a network")]
    NoNetwork,
    /// The task is a program or a script, and the policy has `proc.programs: none`.
    #[error("the place runs code on the engines only: `proc.programs` is none")]
    NoPrograms,
    /// This host has no Python interpreter.
    #[error("there is no Python on this machine")]
    NoPython,
    /// The configured Python interpreter cannot be used.
    #[error("{}", .0.whole())]
    UnusablePython(Arc<SpecError>),
}

/// A child that is started and waits for its job.
#[derive(Debug)]
pub(crate) struct PreparedChild {
    pub(crate) number: u32,
    pub(crate) language: JobLanguage,
    /// Boxed because it is large and would move with every future that holds it.
    pub(crate) pipe: Box<HostPipe>,
}

impl PreparedChild {
    pub(crate) fn new(number: u32, language: JobLanguage, end: OwnedFd) -> Result<PreparedChild, ExecutionError> {
        Ok(PreparedChild {
            number,
            language,
            pipe: Box::new(HostPipe::new(end)?),
        })
    }

    /// Whether this child can run `language`: TypeScript and JavaScript share one engine.
    pub(crate) fn serves(&self, language: JobLanguage) -> bool {
        let engine = |language| matches!(language, JobLanguage::TypeScript | JobLanguage::JavaScript);
        self.language == language || (engine(self.language) && engine(language))
    }

    pub(crate) async fn wait_until_ready(&mut self) -> Result<(), ExecutionError> {
        let ready = async {
            while !self.pipe.is_ready() {
                self.pipe.readable().await.map_err(PipeError::Socket)?;
                if self.pipe.receive(&mut IgnoreChild)? == PipeProgress::Over {
                    return Err(ExecutionError::NotPrepared);
                }
            }
            Ok(())
        };
        time::timeout(READY_TIMEOUT, ready)
            .await
            .map_err(|_| ExecutionError::NotPrepared)?
    }
}

/// Whether the child itself reported its end.
pub(crate) fn is_done_by_child(followed: &Result<ObservedRun, ExecutionError>) -> bool {
    followed
        .as_ref()
        .is_ok_and(|followed| followed.verdict == Verdict::Finished)
}

/// Judges an execution when no process of it is left: what the kernel counted overrides what the child reported.
pub(crate) fn conclude(
    sandbox: &Sandbox,
    prepared: &mut PreparedChild,
    followed: Result<ObservedRun, ExecutionError>,
) -> Result<ConcludedExecution, ExecutionError> {
    let outcome = prepared.pipe.take_outcome();
    let uncaught = outcome.as_ref().and_then(|outcome| outcome.error.as_ref()?.call);
    let refused = uncaught.and_then(|call| prepared.pipe.take_issued(call));
    let trace = prepared.pipe.take_trace();
    let unrepeatable = prepared.pipe.unrepeatable().map(str::to_owned);
    let emitted = prepared.pipe.take_emitted();
    let followed = followed?;
    let counted = sandbox.inner.final_counts()?;
    let out_of_memory = outcome
        .as_ref()
        .is_some_and(|outcome| outcome.kind == JobOutcomeKind::OutOfMemory);
    let verdict = match (followed.verdict, counted.limit) {
        (Verdict::Finished, Some(limit)) => Verdict::Limit(limit),
        // Without a control group the limit shows as a failed allocation, which only the program sees. A group's limit
        // kills.
        (Verdict::Finished, None) if out_of_memory && !sandbox.inner.has_group() => {
            Verdict::Limit(ExecutionLimit::Memory)
        }
        (Verdict::Finished, None) if outcome.is_none() => Verdict::Died,
        (verdict, _) => verdict,
    };
    Ok(ConcludedExecution {
        verdict,
        outcome,
        refused,
        value: followed.value,
        usage: MeasuredUsage {
            wall: followed.wall,
            cpu: counted.cpu,
            peak_memory: counted.peak_memory,
            peak_tmpfs: counted.peak_tmpfs,
        },
        output_bytes: followed.output_bytes,
        violations: followed.violations.listed,
        more_violations: followed.violations.more,
        unanswered: followed.unanswered,
        trace,
        unrepeatable,
        emitted,
    })
}
