//! Limits that the kernel does not end a program for: looked at every tick, and once more at the end.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use ringfence_jail::cgroup::{Leaf, Usage};

use crate::execution::RunError;
use crate::native::space;
use crate::running::Sandbox;
use crate::spec::{Writable, WritableKind};
use crate::tree::{self, Held};
use crate::verdict::Limit;

/// After places on disk were looked at, so many times as long is rested.
const RESTS: u32 = 4;

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
    /// The least that each place held since the execution began, where that may be more than its quota.
    lowest: Vec<Held>,
    /// When places on disk are looked at again: looking takes time too.
    next: Instant,
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
            lowest: sandbox
                .places()
                .map(|(place, handle)| at_first(place, handle))
                .collect(),
            next: Instant::now(),
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
            None => self.look_at_places(sandbox).map_err(RunError::Watch),
        }
    }

    fn look_at_places(&mut self, sandbox: &Sandbox) -> io::Result<Option<Limit>> {
        let begun = Instant::now();
        let on_disk = begun >= self.next;
        for ((place, handle), lowest) in sandbox.places().zip(&mut self.lowest) {
            if !place.is_on_disk() || on_disk {
                let (limit, held) = look_at_place(place, handle, *lowest)?;
                if limit.is_some() {
                    return Ok(limit);
                }
                *lowest = lowest.least(held);
            }
        }
        if on_disk {
            self.next = Instant::now() + begun.elapsed() * RESTS;
        }
        Ok(None)
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
            None => self.last_look(sandbox).map_err(RunError::Watch)?,
        };
        Ok(Counted {
            limit,
            cpu,
            peak_memory,
        })
    }

    /// After the end every place is looked at, whenever that was done last.
    fn last_look(&self, sandbox: &Sandbox) -> io::Result<Option<Limit>> {
        for ((place, handle), lowest) in sandbox.places().zip(&self.lowest) {
            let (limit, _) = look_at_place(place, handle, *lowest)?;
            if limit.is_some() {
                return Ok(limit);
            }
        }
        Ok(None)
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

/// What a kept place may have been left with by executions before: it must not grow, and need not shrink at once. Any other begins
/// below its quota.
fn at_first(place: &Writable, handle: BorrowedFd<'_>) -> Held {
    if place.kind != WritableKind::Kept {
        return Held::default();
    }
    tree::folder_use(handle, Held::UNKNOWN).unwrap_or_default()
}

fn look_at_place(place: &Writable, handle: BorrowedFd<'_>, lowest: Held) -> io::Result<(Option<Limit>, Held)> {
    match place.kind {
        WritableKind::Memory => {
            let space = space(&handle)?;
            let limit = if space.bytes_free == 0 {
                Some(Limit::Disk)
            } else if space.inodes_free == 0 {
                Some(Limit::Inodes)
            } else {
                None
            };
            Ok((limit, Held::default()))
        }
        WritableKind::Folder | WritableKind::Kept => {
            let most = place.most().most(lowest);
            let held = tree::folder_use(handle, most)?;
            let limit = if held.bytes > most.bytes {
                Some(Limit::Disk)
            } else if held.files > most.files {
                Some(Limit::Inodes)
            } else {
                None
            };
            Ok((limit, held))
        }
        WritableKind::Host => Ok((None, Held::default())),
    }
}
