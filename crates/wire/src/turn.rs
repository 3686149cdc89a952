//! Who may say what, when. A message that is well-formed and out of turn is an error: a worker can neither answer what was
//! not asked nor speak for another execution, and what is remembered does not grow with the number of executions.

use std::collections::{BTreeSet, VecDeque};

use crate::call::CALLS_MAX;
use crate::order::{Order, Preparation, Report};
use crate::outcome::FromChild;

/// The most orders that may be unanswered.
const UNANSWERED: usize = 16;

/// A message came, or is about to be sent, at the wrong time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutOfTurn {
    /// The child said something before or after its time.
    #[error("the child may not say this now")]
    Child,
    /// The job was given before the child was ready, or twice.
    #[error("the child cannot take a job now")]
    Job,
    /// A call whose number is not the next one.
    #[error("the call is numbered {number}, and the next is {next}")]
    Call {
        /// What it says.
        number: u32,
        /// What it should say.
        next: u32,
    },
    /// Too many calls are unanswered.
    #[error("{CALLS_MAX} calls are unanswered already")]
    TooManyCalls,
    /// The answer is to no call, or to one that was answered before.
    #[error("there is no unanswered call {number}")]
    Return {
        /// The number in the answer.
        number: u32,
    },
    /// Bytes of a body that no message announced.
    #[error("{bytes} bytes belong to no call")]
    Body {
        /// How many.
        bytes: usize,
    },
    /// More trace than an execution may have, or trace of one that cannot be run again.
    #[error("{bytes} bytes of trace are too many")]
    Trace {
        /// How many came at once.
        bytes: usize,
    },
    /// More files to go out than one execution names, or one of a program that names none.
    #[error("the execution may name no more files to go out")]
    TooManyEmits,
    /// A wait that nobody asked about.
    #[error("nobody asked whether the program waits")]
    Waits,
    /// It was said before that the execution cannot be run again.
    #[error("the child said twice that it cannot be run again")]
    Unrepeatable,
    /// The report answers none of the orders, or not the oldest.
    #[error("the report answers no order")]
    Report,
    /// An order was given after the sandbox's shutdown.
    #[error("the sandbox cannot take orders now")]
    Order,
    /// Too many orders are unanswered.
    #[error("{UNANSWERED} orders are unanswered already")]
    TooMany,
}

/// The host's view of a child: ready, given its job, started, done; each once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildTurn {
    /// Nothing was heard yet.
    New,
    /// It waits for its job.
    Ready,
    /// It has its job.
    Given,
    /// The job runs.
    Started,
    /// The outcome was told.
    Done,
}

impl ChildTurn {
    /// The job is about to be sent.
    pub fn give(&mut self) -> Result<(), OutOfTurn> {
        if *self != Self::Ready {
            return Err(OutOfTurn::Job);
        }
        *self = Self::Given;
        Ok(())
    }

    /// The child said something. A job may be done without having started, as when there is no such program.
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

/// Which calls of an execution are unanswered; both ends keep one. Numbers are used once because they only count up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    last: u32,
    unanswered: BTreeSet<u32>,
}

impl Calls {
    /// The number of the call that is about to be sent, or nothing while too many are unanswered.
    pub fn number(&mut self) -> Option<u32> {
        let number = self.last.checked_add(1)?;
        self.ask(number).ok().map(|()| number)
    }

    /// Whether one more may be sent.
    pub fn has_room(&self) -> bool {
        self.unanswered.len() < CALLS_MAX && self.last < u32::MAX
    }

    /// A call came.
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

    /// An answer came, or is about to be sent.
    pub fn answer(&mut self, number: u32) -> Result<(), OutOfTurn> {
        if self.unanswered.remove(&number) {
            Ok(())
        } else {
            Err(OutOfTurn::Return { number })
        }
    }

    /// How many are unanswered.
    pub fn unanswered(&self) -> usize {
        self.unanswered.len()
    }

    /// Whether this one is.
    pub fn is_unanswered(&self, number: u32) -> bool {
        self.unanswered.contains(&number)
    }
}

/// The host's view of a sandbox's first process: every order but the last has one answer, in order.
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

/// The answer that an order waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Prepared(u32),
    Finished(u32),
    Wiped,
}

impl Orders {
    /// A sandbox that has not reported yet.
    pub fn new() -> Self {
        Self {
            state: Standing::New,
            unanswered: VecDeque::new(),
        }
    }

    /// An order is about to be sent; the first ones may wait for a sandbox that is not ready yet.
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

    /// The first process reported something.
    pub fn hear(&mut self, report: &Report) -> Result<(), OutOfTurn> {
        let answer = match *report {
            Report::Ready { .. } => {
                if self.state != Standing::New {
                    return Err(OutOfTurn::Report);
                }
                self.state = Standing::Ready;
                return Ok(());
            }
            // Nobody asks for this one.
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

    /// Whether every order has its answer.
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
