//! Who may say what, when. A message that is well-formed and out of turn is an error: a worker can neither answer what was
//! not asked nor speak for another execution, and what is remembered does not grow with the number of executions.

use std::collections::VecDeque;

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
            (Self::Given, FromChild::Started) => Self::Started,
            (Self::Given | Self::Started, FromChild::Done(_)) => Self::Done,
            (Self::New | Self::Ready | Self::Given | Self::Started | Self::Done, _) => {
                return Err(OutOfTurn::Child);
            }
        };
        Ok(())
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
