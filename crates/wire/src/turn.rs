//! The state of each conversation: which message each side may send next. A well-formed message at the wrong time is a
//! protocol violation: a worker can neither answer what the host did not ask nor speak for another execution. The state
//! does not grow with the number of executions.

use std::collections::{BTreeSet, VecDeque};

use crate::call::CALLS_MAX;
use crate::order::{Order, Preparation, Report};
use crate::outcome::FromChild;

/// The most commands that may wait for a report.
const UNANSWERED: usize = 16;

/// A message that its sender may not send in the current state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutOfTurn {
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
    #[error("{CALLS_MAX} calls are unanswered already")]
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
    #[error("{UNANSWERED} orders are unanswered already")]
    TooMany,
}

/// The host's view of a child. It moves through these states in order; a job that cannot start skips `Started`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildTurn {
    /// The host has received nothing yet.
    New,
    /// The child waits for its job.
    Ready,
    /// The host has sent the job, and the child has not reported a start.
    Given,
    /// The child runs the job and may make calls.
    Started,
    /// The child has reported the outcome; every later message is a violation.
    Done,
}

impl ChildTurn {
    /// Records that the host is about to send the job.
    pub fn give(&mut self) -> Result<(), OutOfTurn> {
        if *self != Self::Ready {
            return Err(OutOfTurn::Job);
        }
        *self = Self::Given;
        Ok(())
    }

    /// Checks a message from the child and moves to the next state. A job may be done without having started, as when
    /// there is no such program.
    pub fn hear(&mut self, message: &FromChild) -> Result<(), OutOfTurn> {
        *self = match (*self, message) {
            (Self::New, FromChild::Ready) => Self::Ready,
            (Self::Given | Self::Started, FromChild::Done(_)) => Self::Done,
            (Self::Given, FromChild::Started)
            | (
                Self::Started,
                FromChild::Call(_)
                | FromChild::Open { .. }
                | FromChild::Emit(_)
                | FromChild::Trace(_)
                | FromChild::Waits { .. }
                | FromChild::Unrepeatable { .. },
            ) => Self::Started,
            (Self::New | Self::Ready | Self::Given | Self::Started | Self::Done, _) => {
                return Err(OutOfTurn::Child);
            }
        };
        Ok(())
    }
}

/// The open calls of an execution; each end keeps one of these. Numbers only count up, so each is used once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    last: u32,
    unanswered: BTreeSet<u32>,
}

impl Calls {
    /// Takes the number for the next call, or `None` while too many calls are open.
    pub fn number(&mut self) -> Option<u32> {
        let number = self.last.checked_add(1)?;
        self.ask(number).ok().map(|()| number)
    }

    /// Whether one more call may be sent.
    pub fn has_room(&self) -> bool {
        self.unanswered.len() < CALLS_MAX && self.last < u32::MAX
    }

    /// Records a call. Its number must be the next one.
    pub fn ask(&mut self, number: u32) -> Result<(), OutOfTurn> {
        let next = self.last.saturating_add(1);
        if number != next || number == self.last {
            return Err(OutOfTurn::Call { number, next });
        }
        if self.unanswered.len() >= CALLS_MAX {
            return Err(OutOfTurn::TooManyCalls);
        }
        self.last = number;
        self.unanswered.insert(number);
        Ok(())
    }

    /// Closes a call whose response has arrived or is about to be sent.
    pub fn answer(&mut self, number: u32) -> Result<(), OutOfTurn> {
        if self.unanswered.remove(&number) {
            Ok(())
        } else {
            Err(OutOfTurn::Return { number })
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
pub struct Orders {
    state: Standing,
    unanswered: VecDeque<Answer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    New,
    Ready,
    ShutDown,
}

/// The report that a command waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Prepared(u32),
    Finished(u32),
    Wiped,
}

impl Orders {
    /// The state of a sandbox that has not reported yet.
    pub fn new() -> Self {
        Self {
            state: Standing::New,
            unanswered: VecDeque::new(),
        }
    }

    /// Records a command that is about to be sent. The host may send commands before the sandbox is ready.
    pub fn give(&mut self, order: &Order) -> Result<(), OutOfTurn> {
        if self.state == Standing::ShutDown {
            return Err(OutOfTurn::Order);
        }
        if self.unanswered.len() == UNANSWERED {
            return Err(OutOfTurn::TooMany);
        }
        match *order {
            Order::Prepare(Preparation { number, .. }) => self.unanswered.push_back(Answer::Prepared(number)),
            Order::Finish { number } => self.unanswered.push_back(Answer::Finished(number)),
            Order::Wipe => self.unanswered.push_back(Answer::Wiped),
            Order::Shutdown => self.state = Standing::ShutDown,
        }
        Ok(())
    }

    /// Checks a report. It must answer the oldest pending command.
    pub fn hear(&mut self, report: &Report) -> Result<(), OutOfTurn> {
        let answer = match *report {
            Report::Ready { .. } => {
                if self.state != Standing::New {
                    return Err(OutOfTurn::Report);
                }
                self.state = Standing::Ready;
                return Ok(());
            }
            // This report answers no command.
            Report::ZygoteFailed { .. } => return Ok(()),
            Report::Prepared { number } | Report::PrepareFailed { number, .. } => Answer::Prepared(number),
            Report::Finished { number } => Answer::Finished(number),
            Report::Wiped | Report::WipeFailed { .. } => Answer::Wiped,
        };
        if self.state == Standing::New || self.unanswered.front() != Some(&answer) {
            return Err(OutOfTurn::Report);
        }
        self.unanswered.pop_front();
        Ok(())
    }

    /// Whether every command has its report.
    pub fn settled(&self) -> bool {
        self.unanswered.is_empty()
    }
}

impl Default for Orders {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
