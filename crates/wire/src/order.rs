//! What the host tells a sandbox's first process, and what it answers. One message is one frame; descriptors that belong to
//! an order travel beside it and are no part of this language.

use serde::{Deserialize, Serialize};

use crate::bounded::Text;
use crate::codec::{Message, Unfit};
use crate::job::{Language, VERSION};

/// Why something failed, in words.
pub type Reason = Text<2048>;

/// From the host to the first process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Fork a child for an execution.
    Prepare(Preparation),
    /// Kill everything of an execution and reap it.
    Finish {
        /// The execution's number.
        number: u32,
    },
    /// Empty the writable places.
    Wipe,
    /// End the sandbox.
    Shutdown,
}

/// What a child is made for. Its pipe and the task files of its control groups travel beside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preparation {
    /// The execution's number in this sandbox; never used twice.
    pub number: u32,
    /// What the child must be able to run.
    pub language: Language,
    /// What each of its processes is limited to.
    pub limits: ChildLimits,
    /// The interpreter's path in the sandbox; empty where none is needed.
    pub interpreter: Text<1024>,
    /// The place has a network, so that a Python program may connect.
    pub network: bool,
}

/// Limits that the child puts on itself, behind or instead of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildLimits {
    /// Bytes of address space, for engines.
    pub address_space: Option<u64>,
    /// Bytes of private memory, for programs.
    pub private_memory: Option<u64>,
    /// Processor seconds.
    pub cpu_seconds: u32,
}

impl Message for Order {
    const LISTS: usize = 0;

    fn check(&self) -> Result<(), Unfit> {
        Ok(())
    }
}

/// From the first process to the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// The sandbox stands and takes orders. The first report, once.
    Ready {
        /// The version it speaks.
        version: u16,
    },
    /// The child exists and has its pipe.
    Prepared {
        /// The execution's number.
        number: u32,
    },
    /// There is no child.
    PrepareFailed {
        /// The execution's number.
        number: u32,
        /// What went wrong.
        reason: Reason,
    },
    /// Nothing of the execution is left.
    Finished {
        /// The execution's number.
        number: u32,
    },
    /// The writable places are empty.
    Wiped,
    /// Something is left in a writable place: the sandbox must not be used again.
    WipeFailed {
        /// What went wrong.
        reason: Reason,
    },
    /// An interpreter's zygote ended: the sandbox must not be used again.
    ZygoteFailed {
        /// What went wrong.
        reason: Reason,
    },
}

impl Message for Report {
    const LISTS: usize = 0;

    fn check(&self) -> Result<(), Unfit> {
        match *self {
            Self::Ready { version } if version != VERSION => Err(Unfit::Version { theirs: version }),
            Self::Ready { .. }
            | Self::Prepared { .. }
            | Self::PrepareFailed { .. }
            | Self::Finished { .. }
            | Self::Wiped
            | Self::WipeFailed { .. }
            | Self::ZygoteFailed { .. } => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
