//! Limits that the kernel does not end a program for: looked at every tick, and once more at the end.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use ringfence_jail::cgroup::{Leaf, Usage};

use crate::execution::RunError;
use crate::native::space;
use crate::running::Sandbox;
use crate::spec::{Writable, WritableKind};
use crate::tree;
use crate::verdict::Limit;

/// What the host counted of an execution that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counted {
    pub(crate) limit: Option<Limit>,
    pub(crate) cpu: Duration,
    pub(crate) peak_memory: u64,
}

/// Looks at one execution.
#[derive(Debug)]
pub(crate) struct Watch {
    cpu_time: Duration,
    memory: u64,
    processes: usize,
    seen: tree::Totals,
    cpu: Duration,
}

impl Watch {
    pub(crate) fn new(sandbox: &Sandbox) -> Watch {
        let limits = &sandbox.spec.limits;
        Watch {
            cpu_time: limits.cpu_time,
            memory: limits.memory.get(),
            processes: usize::try_from(limits.processes).unwrap_or(usize::MAX),
            seen: tree::Totals::default(),
            cpu: Duration::ZERO,
        }
    }

    /// The limit that was reached, if one was.
    pub(crate) fn look(&mut self, sandbox: &Sandbox, leaf: Option<&Leaf>) -> Result<Option<Limit>, RunError> {
        let limit = match leaf {
            Some(leaf) => {
                let usage = leaf.usage()?;
                self.cpu = usage.cpu.unwrap_or_else(|| tree::totals(sandbox.pid()).cpu);
                self.judge(&usage)
            }
            None => self.look_at_processes(sandbox),
        };
        match limit {
            Some(limit) => Ok(Some(limit)),
            None => look_at_places(sandbox).map_err(RunError::Watch),
        }
    }

    /// Remembers what the processes use now.
    pub(crate) fn note_processes(&mut self, sandbox: &Sandbox) {
        self.seen = self.seen.most(tree::totals(sandbox.pid()));
    }

    /// The same after the end, with what was used.
    pub(crate) fn counted(&self, sandbox: &Sandbox, leaf: Option<&Leaf>) -> Result<Counted, RunError> {
        let (limit, cpu, peak_memory) = match leaf {
            Some(leaf) => {
                let usage = leaf.usage()?;
                (
                    self.judge(&usage),
                    usage.cpu.unwrap_or_default(),
                    usage.peak_memory.unwrap_or_default(),
                )
            }
            None => (self.judge_seen(), self.seen.cpu, self.seen.memory),
        };
        let limit = match limit {
            Some(limit) => Some(limit),
            None => look_at_places(sandbox).map_err(RunError::Watch)?,
        };
        Ok(Counted {
            limit,
            cpu,
            peak_memory,
        })
    }

    fn judge(&self, usage: &Usage) -> Option<Limit> {
        if usage.memory_kills > 0 {
            Some(Limit::Memory)
        } else if usage.processes_refused > 0 {
            Some(Limit::Processes)
        } else if usage.cpu.is_some_and(|cpu| cpu >= self.cpu_time) {
            Some(Limit::Cpu)
        } else {
            None
        }
    }

    /// Without control groups: everything below the first process, added up.
    fn look_at_processes(&mut self, sandbox: &Sandbox) -> Option<Limit> {
        self.note_processes(sandbox);
        self.cpu = self.seen.cpu;
        self.judge_seen()
    }

    /// Processor time used when it was last looked at.
    pub(crate) fn cpu(&self) -> Duration {
        self.cpu
    }

    fn judge_seen(&self) -> Option<Limit> {
        // The child itself is not the program's.
        let own = self.seen.processes.saturating_sub(1);
        if self.seen.memory > self.memory {
            Some(Limit::Memory)
        } else if own > self.processes {
            Some(Limit::Processes)
        } else if self.seen.cpu >= self.cpu_time {
            Some(Limit::Cpu)
        } else {
            None
        }
    }
}

fn look_at_places(sandbox: &Sandbox) -> io::Result<Option<Limit>> {
    for (place, handle) in sandbox.places() {
        if let Some(limit) = look_at_place(place, handle)? {
            return Ok(Some(limit));
        }
    }
    Ok(None)
}

fn look_at_place(place: &Writable, handle: BorrowedFd<'_>) -> io::Result<Option<Limit>> {
    match place.kind {
        WritableKind::Memory => {
            let space = space(&handle)?;
            Ok(if space.bytes_free == 0 {
                Some(Limit::Disk)
            } else if space.inodes_free == 0 {
                Some(Limit::Inodes)
            } else {
                None
            })
        }
        WritableKind::Folder => {
            let used = tree::folder_bytes(handle, place.quota)?;
            Ok((used > place.quota).then_some(Limit::Disk))
        }
        WritableKind::Host => Ok(None),
    }
}
