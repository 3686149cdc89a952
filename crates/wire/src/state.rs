//! The state of each conversation: which message each side may send next. A well-formed message at the wrong time is a
//! protocol violation: a worker can neither answer what the host did not ask nor speak for another execution. The state
//! does not grow with the number of executions.

use std::collections::{BTreeSet, VecDeque};

use crate::call::MAX_OPEN_CALLS;
use crate::outcome::FromChild;
use crate::worker_command::{PrepareCommand, WorkerCommand, WorkerReport};

/// The most commands that may wait for a report.
const MAX_PENDING_COMMANDS: usize = 16;

/// A message that its sender may not send in the current state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolViolation {
    /// The child sends a message that its state does not allow.
    #[error("the child may not say this now")]
    Child,
    /// The host sends the job before the child is ready, or a second time.
    #[error("the child cannot take a job now")]
    Job,
    /// The call's number is not the next one.
    #[error("the call is numbered {number}, and the next is {next}")]
    Call {
        /// The number in the message.
        number: u32,
        /// The number that the next call must have.
        next: u32,
    },
    /// The child makes a call while the most calls are open.
    #[error("{MAX_OPEN_CALLS} calls are unanswered already")]
    TooManyCalls,
    /// The response names no open call.
    #[error("there is no unanswered call {number}")]
    Return {
        /// The number in the response.
        number: u32,
    },
    /// Body bytes arrive that no message announced.
    #[error("{bytes} bytes belong to no call")]
    Body {
        /// How many bytes belong to no body.
        bytes: usize,
    },
    /// The trace is longer than an execution may have, or follows the message that ended it.
    #[error("{bytes} bytes of trace are too many")]
    Trace {
        /// Bytes of trace in the refused message.
        bytes: usize,
    },
    /// The execution emits more files than its quota, which is 0 for a program or a script.
    #[error("the execution may name no more files to go out")]
    TooManyEmits,
    /// The child reports a wait without a pending wait query.
    #[error("nobody asked whether the program waits")]
    Waits,
    /// The child marks the execution as unrepeatable a second time.
    #[error("the child said twice that it cannot be run again")]
    Unrepeatable,
    /// The report does not answer the oldest pending command.
    #[error("the report answers no order")]
    Report,
    /// The host sends a command after the shutdown.
    #[error("the sandbox cannot take orders now")]
    Order,
    /// The host sends a command while the most commands are pending.
    #[error("{MAX_PENDING_COMMANDS} orders are unanswered already")]
    TooMany,
}

/// The host's view of a child. It moves through these states in order; a job that cannot start skips `Started`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildState {
    /// The host has received nothing yet.
    New,
    /// The child waits for its job.
    Ready,
    /// The host has sent the job, and the child has not reported a start.
    JobSent,
    /// The child runs the job and may make calls.
    Started,
    /// The child has reported the outcome; every later message is a violation.
    Done,
}

impl ChildState {
    /// Records that the host is about to send the job.
    pub fn send_job(&mut self) -> Result<(), ProtocolViolation> {
        if *self != Self::Ready {
            return Err(ProtocolViolation::Job);
        }
        *self = Self::JobSent;
        Ok(())
    }

    /// Checks a message from the child and moves to the next state. A job may be done without having started, as when
    /// there is no such program.
    pub fn on_message(&mut self, message: &FromChild) -> Result<(), ProtocolViolation> {
        *self = match (*self, message) {
            (Self::New, FromChild::Ready) => Self::Ready,
            (Self::JobSent | Self::Started, FromChild::Done(_)) => Self::Done,
            (Self::JobSent, FromChild::Started)
            | (
                Self::Started,
                FromChild::Call(_)
                | FromChild::Open { .. }
                | FromChild::Emit(_)
                | FromChild::Trace(_)
                | FromChild::Waits { .. }
                | FromChild::Unrepeatable { .. },
            ) => Self::Started,
            (Self::New | Self::Ready | Self::JobSent | Self::Started | Self::Done, _) => {
                return Err(ProtocolViolation::Child);
            }
        };
        Ok(())
    }
}

/// The open calls of an execution; each end keeps one of these. Numbers only count up, so each is used once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenCalls {
    last: u32,
    unanswered: BTreeSet<u32>,
}

impl OpenCalls {
    /// Takes the number for the next call, or `None` while too many calls are open.
    pub fn next_number(&mut self) -> Option<u32> {
        let number = self.last.checked_add(1)?;
        self.on_call(number).ok().map(|()| number)
    }

    /// Whether one more call may be sent.
    pub fn has_capacity(&self) -> bool {
        self.unanswered.len() < MAX_OPEN_CALLS && self.last < u32::MAX
    }

    /// Records a call. Its number must be the next one.
    pub fn on_call(&mut self, number: u32) -> Result<(), ProtocolViolation> {
        let next = self.last.saturating_add(1);
        if number != next || number == self.last {
            return Err(ProtocolViolation::Call { number, next });
        }
        if self.unanswered.len() >= MAX_OPEN_CALLS {
            return Err(ProtocolViolation::TooManyCalls);
        }
        self.last = number;
        self.unanswered.insert(number);
        Ok(())
    }

    /// Closes a call whose response has arrived or is about to be sent.
    pub fn on_response(&mut self, number: u32) -> Result<(), ProtocolViolation> {
        if self.unanswered.remove(&number) {
            Ok(())
        } else {
            Err(ProtocolViolation::Return { number })
        }
    }

    /// How many calls are open.
    pub fn unanswered(&self) -> usize {
        self.unanswered.len()
    }

    /// Whether the call `number` is open.
    pub fn is_unanswered(&self, number: u32) -> bool {
        self.unanswered.contains(&number)
    }
}

/// The host's view of a sandbox's first process: it answers every command except the shutdown with one report, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingCommands {
    state: WorkerPhase,
    unanswered: VecDeque<ExpectedReport>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkerPhase {
    New,
    Ready,
    ShutDown,
}

/// The report that a command waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectedReport {
    Prepared(u32),
    Finished(u32),
    Wiped,
}

impl PendingCommands {
    /// The state of a sandbox that has not reported yet.
    pub fn new() -> Self {
        Self {
            state: WorkerPhase::New,
            unanswered: VecDeque::new(),
        }
    }

    /// Records a command that is about to be sent. The host may send commands before the sandbox is ready.
    pub fn send_command(&mut self, order: &WorkerCommand) -> Result<(), ProtocolViolation> {
        if self.state == WorkerPhase::ShutDown {
            return Err(ProtocolViolation::Order);
        }
        if self.unanswered.len() == MAX_PENDING_COMMANDS {
            return Err(ProtocolViolation::TooMany);
        }
        match *order {
            WorkerCommand::Prepare(PrepareCommand { number, .. }) => {
                self.unanswered.push_back(ExpectedReport::Prepared(number));
            }
            WorkerCommand::Finish { number } => self.unanswered.push_back(ExpectedReport::Finished(number)),
            WorkerCommand::Wipe => self.unanswered.push_back(ExpectedReport::Wiped),
            WorkerCommand::Shutdown => self.state = WorkerPhase::ShutDown,
        }
        Ok(())
    }

    /// Checks a report. It must answer the oldest pending command.
    pub fn on_report(&mut self, report: &WorkerReport) -> Result<(), ProtocolViolation> {
        let answer = match *report {
            WorkerReport::Ready { .. } => {
                if self.state != WorkerPhase::New {
                    return Err(ProtocolViolation::Report);
                }
                self.state = WorkerPhase::Ready;
                return Ok(());
            }
            // This report answers no command.
            WorkerReport::ZygoteFailed { .. } => return Ok(()),
            WorkerReport::Prepared { number } | WorkerReport::PrepareFailed { number, .. } => {
                ExpectedReport::Prepared(number)
            }
            WorkerReport::Finished { number } => ExpectedReport::Finished(number),
            WorkerReport::Wiped | WorkerReport::WipeFailed { .. } => ExpectedReport::Wiped,
        };
        if self.state == WorkerPhase::New || self.unanswered.front() != Some(&answer) {
            return Err(ProtocolViolation::Report);
        }
        self.unanswered.pop_front();
        Ok(())
    }

    /// Whether every command has its report.
    pub fn is_idle(&self) -> bool {
        self.unanswered.is_empty()
    }
}

impl Default for PendingCommands {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
