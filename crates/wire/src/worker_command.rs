//! Commands from the host to a sandbox's first process, and its reports. Each message is one frame. File descriptors
//! that belong to a command travel as ancillary data of the same packet and are not part of this protocol.

use serde::{Deserialize, Serialize};

use crate::bounded::BoundedText;
use crate::codec::{ControlMessage, InvalidMessage};
use crate::job::{JobLanguage, PROTOCOL_VERSION};

/// Text that says why a command failed; longer text is truncated.
pub type FailureReason = BoundedText<2048>;

/// A message from the host to the first process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkerCommand {
    /// Fork a child for an execution.
    Prepare(PrepareCommand),
    /// Kill everything of an execution and reap it.
    Finish {
        /// The number from the `Prepare` command.
        number: u32,
    },
    /// Remove everything from the places that a program can write to.
    Wipe,
    /// Exit, which ends every process in the sandbox.
    Shutdown,
}

/// The child to fork. The pipe and the task files of its control groups travel beside the command, as descriptors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrepareCommand {
    /// The execution's number in this sandbox, which no other execution there has.
    pub number: u32,
    /// What the child must be able to run; only a job of this kind may follow.
    pub language: JobLanguage,
    /// The resource limits for each of its processes.
    pub limits: ChildLimits,
    /// The interpreter's path in the sandbox; empty for a language without an interpreter.
    pub interpreter: BoundedText<1024>,
    /// Whether the sandbox has a network, so that the zygote's filter lets Python programs connect.
    pub network: bool,
}

/// Resource limits that the child sets on itself, in addition to control groups or in their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildLimits {
    /// Bytes of address space, for engines; `None` sets no limit.
    pub address_space: Option<u64>,
    /// Bytes of private memory, for programs; `None` sets no limit.
    pub private_memory: Option<u64>,
    /// Seconds of processor time for each process.
    pub cpu_seconds: u32,
}

impl ControlMessage for WorkerCommand {
    const MAX_LIST_MEMORY: usize = 0;

    fn check(&self) -> Result<(), InvalidMessage> {
        Ok(())
    }
}

/// A message from the first process to the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkerReport {
    /// The sandbox accepts commands. This is the first report, and comes once.
    Ready {
        /// The protocol version of the worker.
        version: u16,
    },
    /// The child exists and has its pipe.
    Prepared {
        /// The number from the `Prepare` command.
        number: u32,
    },
    /// The first process could not make the child.
    PrepareFailed {
        /// The number from the `Prepare` command.
        number: u32,
        /// The error and its causes.
        reason: FailureReason,
    },
    /// No process of the execution is left.
    Finished {
        /// The number from the `Finish` command.
        number: u32,
    },
    /// The writable places are empty.
    Wiped,
    /// A writable place is not empty: the host must not use the sandbox again.
    WipeFailed {
        /// The error and its causes.
        reason: FailureReason,
    },
    /// An interpreter's zygote has ended: the host must not use the sandbox again.
    ZygoteFailed {
        /// The error and its causes.
        reason: FailureReason,
    },
}

impl ControlMessage for WorkerReport {
    const MAX_LIST_MEMORY: usize = 0;

    fn check(&self) -> Result<(), InvalidMessage> {
        match *self {
            Self::Ready { version } if version != PROTOCOL_VERSION => Err(InvalidMessage::Version { theirs: version }),
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
