//! How an execution ended, as the host saw it.

use std::time::Duration;

/// What ended an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The program came to its own end.
    Finished,
    /// It reached a limit.
    Limit(Limit),
    /// Somebody asked for its end.
    Cancelled,
    /// The time of the whole run was over, with all that it waited for.
    Overdue,
    /// Its sandbox broke under it.
    Died,
    /// It only waited for calls that [wait for a person](crate::Door::held): it was ended, and is to be run again.
    Released {
        /// When its next timer is due, in ticks of its clock.
        due: Option<u64>,
    },
}

impl Verdict {
    /// The code and the rule of what was used up, where that ended it.
    pub fn used_up(self) -> Option<(&'static str, &'static str)> {
        match self {
            Verdict::Limit(limit) => Some((limit.code(), limit.rule())),
            Verdict::Overdue => Some((Limit::Wall.code(), "timeout")),
            Verdict::Finished | Verdict::Cancelled | Verdict::Died | Verdict::Released { .. } => None,
        }
    }
}

/// The limits that end an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Time on the clock.
    Wall,
    /// Processor time.
    Cpu,
    /// Memory.
    Memory,
    /// Processes and threads.
    Processes,
    /// Bytes in a writable place.
    Disk,
    /// Files in a writable place.
    Inodes,
    /// Bytes of output.
    Output,
}

impl Limit {
    /// Its stable code.
    pub fn code(self) -> &'static str {
        match self {
            Limit::Wall => "limit.wall",
            Limit::Cpu => "limit.cpu",
            Limit::Memory => "limit.memory",
            Limit::Processes => "limit.processes",
            Limit::Disk => "limit.disk",
            Limit::Inodes => "limit.inodes",
            Limit::Output => "limit.output",
        }
    }

    /// What an execution did that reached it.
    pub fn sentence(self) -> &'static str {
        match self {
            Limit::Wall => "the execution took longer than its wall time",
            Limit::Cpu => "the execution used up its processor time",
            Limit::Memory => "the execution used more memory than it may",
            Limit::Processes => "the execution started more processes than it may",
            Limit::Disk => "the execution filled a writable place",
            Limit::Inodes => "the execution made more files than it may",
            Limit::Output => "the execution printed far more than it may",
        }
    }

    /// The key of the policy that sets it.
    pub fn rule(self) -> &'static str {
        match self {
            Limit::Wall => "proc.wall_timeout",
            Limit::Cpu => "proc.cpu_time",
            Limit::Memory => "proc.mem_limit",
            Limit::Processes => "proc.fork_limit",
            Limit::Disk | Limit::Inodes => "fs.mounts",
            Limit::Output => "proc.output",
        }
    }
}

/// What an execution used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// From the job's first byte to its end.
    pub wall: Duration,
    /// Processor time of all its processes.
    pub cpu: Duration,
    /// Most memory at one time, files in memory not counted.
    pub peak_memory: u64,
    /// The most that its files in memory came to.
    pub peak_tmpfs: u64,
}

/// Something the program tried and was refused by the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Its kind: `syscall`.
    pub kind: &'static str,
    /// What was tried.
    pub detail: String,
    /// The rule that refused it.
    pub rule: &'static str,
}
