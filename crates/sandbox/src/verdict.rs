//! How an execution ended, as the host saw it.

use std::time::Duration;

/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The program ended by itself.
    Finished,
    /// The execution reached a limit.
    Limit(ExecutionLimit),
    /// The caller cancelled the execution.
    Cancelled,
    /// The deadline of the whole run passed, including all waiting.
    Overdue,
    /// The sandbox failed during the execution.
    Died,
    /// The execution only waited for calls that [wait for a person](crate::CallPort::held): the host ended it, and it is to be
    /// replayed.
    Released {
        /// When its next timer is due, in ticks of its clock.
        due: Option<u64>,
    },
}

impl Verdict {
    /// The code and the rule of the exhausted limit, where a limit ended the execution.
    pub fn exhausted_limit(self) -> Option<(&'static str, &'static str)> {
        match self {
            Verdict::Limit(limit) => Some((limit.code(), limit.rule())),
            Verdict::Overdue => Some((ExecutionLimit::Wall.code(), "timeout")),
            Verdict::Finished | Verdict::Cancelled | Verdict::Died | Verdict::Released { .. } => None,
        }
    }
}

/// The limits that end an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutionLimit {
    /// Time on the wall clock.
    Wall,
    /// Processor time of all processes.
    Cpu,
    /// Memory of all processes together.
    Memory,
    /// Number of processes and threads.
    Processes,
    /// Bytes in a writable place.
    Disk,
    /// Files in a writable place.
    Inodes,
    /// Bytes of standard output or standard error.
    Output,
}

impl ExecutionLimit {
    /// The stable code that results show.
    pub fn code(self) -> &'static str {
        match self {
            ExecutionLimit::Wall => "limit.wall",
            ExecutionLimit::Cpu => "limit.cpu",
            ExecutionLimit::Memory => "limit.memory",
            ExecutionLimit::Processes => "limit.processes",
            ExecutionLimit::Disk => "limit.disk",
            ExecutionLimit::Inodes => "limit.inodes",
            ExecutionLimit::Output => "limit.output",
        }
    }

    /// What an execution did to reach the limit, as a phrase.
    pub fn description(self) -> &'static str {
        match self {
            ExecutionLimit::Wall => "the execution took longer than its wall time",
            ExecutionLimit::Cpu => "the execution used up its processor time",
            ExecutionLimit::Memory => "the execution used more memory than it may",
            ExecutionLimit::Processes => "the execution started more processes than it may",
            ExecutionLimit::Disk => "the execution filled a writable place",
            ExecutionLimit::Inodes => "the execution made more files than it may",
            ExecutionLimit::Output => "the execution printed far more than it may",
        }
    }

    /// The key of the policy that sets the limit.
    pub fn rule(self) -> &'static str {
        match self {
            ExecutionLimit::Wall => "proc.wall_timeout",
            ExecutionLimit::Cpu => "proc.cpu_time",
            ExecutionLimit::Memory => "proc.mem_limit",
            ExecutionLimit::Processes => "proc.fork_limit",
            ExecutionLimit::Disk | ExecutionLimit::Inodes => "fs.mounts",
            ExecutionLimit::Output => "proc.output",
        }
    }
}

/// The resources that an execution used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MeasuredUsage {
    /// From the job's first byte to the end, without excluded waiting time.
    pub wall: Duration,
    /// Processor time of all its processes.
    pub cpu: Duration,
    /// Peak memory in bytes, without files in memory.
    pub peak_memory: u64,
    /// Peak size of its files in memory, in bytes.
    pub peak_tmpfs: u64,
}

/// An attempt of the program that the host refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The kind of the attempt, at present always `syscall`.
    pub kind: &'static str,
    /// The name of the refused system call, or its number if it has no known name.
    pub detail: String,
    /// The key of the policy that refused the attempt.
    pub rule: &'static str,
}
