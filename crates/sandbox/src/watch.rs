//! Checks the limits that the kernel does not enforce: at every tick, and once more at the end.

use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use ringfence_jail::cgroup::{Leaf, Memory, Usage};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task;

use crate::execution::RunError;
use crate::locks::RecordLocks;
use crate::native::space;
use crate::pinned::{self, DeletedFiles, DescriptorOwners, DiskGrowth, FileId};
use crate::running::Sandbox;
use crate::spec::{Writable, WritableKind};
use crate::tree::{self, Held};
use crate::verdict::Limit;

/// How long the kernel has to reclaim memory that is not the program's, before the rest counts.
const RECLAIM_PATIENCE: Duration = Duration::from_millis(50);
/// The next check of places on disk is delayed by this many times the duration of the last one.
const RESTS: u32 = 4;

/// What the host measured of an execution that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counted {
    pub(crate) limit: Option<Limit>,
    pub(crate) cpu: Duration,
    pub(crate) peak_memory: u64,
    pub(crate) peak_tmpfs: u64,
}

/// Checks the limits of one execution.
#[derive(Debug)]
pub(crate) struct Watch {
    cpu_time: Duration,
    memory: u64,
    processes: usize,
    seen: tree::Totals,
    cpu: Duration,
    /// Peak memory in bytes, without files in memory.
    program: u64,
    /// Peak size of files in memory, and their size at the beginning.
    tmpfs: u64,
    tmpfs_at_first: u64,
    locks: RecordLocks,
    deleted: DeletedFiles,
    growth: DiskGrowth,
    /// The least that each place held since the execution began, where that may be more than its quota.
    lowest: Vec<Held>,
    /// When places on disk are checked again: a check takes time too.
    next: Instant,
}

impl Watch {
    pub(crate) fn new(sandbox: &Sandbox) -> Watch {
        let limits = &sandbox.spec.limits;
        let held: Vec<Option<Held>> = run_blocking(|| {
            let places = sandbox.places();
            places.map(|(place, handle)| at_first(place, handle)).collect()
        });
        let bytes = |held: &Option<Held>| held.map_or(u64::MAX, |held| held.bytes);
        let counted = held.iter().map(bytes).fold(0, u64::saturating_add);
        Watch {
            cpu_time: limits.cpu_time,
            memory: limits.memory.get(),
            processes: usize::try_from(limits.processes).unwrap_or(usize::MAX),
            seen: tree::Totals::default(),
            cpu: Duration::ZERO,
            program: 0,
            tmpfs: 0,
            tmpfs_at_first: in_memory(sandbox),
            locks: RecordLocks::new(),
            deleted: DeletedFiles::default(),
            // Where the file systems cannot be queried now, all that they hold later counts as growth.
            growth: DiskGrowth::new(in_use_on_disk(sandbox).unwrap_or(0), counted),
            lowest: sandbox
                .places()
                .zip(held)
                .map(|((place, _), held)| lowest_at_first(place, held))
                .collect(),
            next: Instant::now(),
        }
    }

    /// Checks the limits that are due; returns the limit that was reached, if any.
    pub(crate) fn look(&mut self, sandbox: &Sandbox, leaf: Option<&Leaf>) -> Result<Option<Limit>, RunError> {
        let limit = match leaf {
            Some(leaf) => {
                let usage = leaf.usage()?;
                let limit = match self.judge(&usage) {
                    Some(limit) => Some(limit),
                    None if leaf.counts_memory() => self.look_at_memory(sandbox, leaf, &usage)?,
                    None => run_blocking(|| self.look_at_processes(sandbox))?,
                };
                self.cpu = usage
                    .cpu
                    .unwrap_or_else(|| run_blocking(|| tree::totals(sandbox.pid()).cpu));
                limit
            }
            None => run_blocking(|| self.look_at_processes(sandbox))?,
        };
        match limit {
            Some(limit) => Ok(Some(limit)),
            None if has_places_on_disk(sandbox) => {
                run_blocking(|| self.look_at_places(sandbox)).map_err(RunError::Watch)
            }
            None => self.look_at_places(sandbox).map_err(RunError::Watch),
        }
    }

    /// Checks memory: the group's own limit has capacity for files in memory, and use of that capacity for anything else is
    /// detected here.
    fn look_at_memory(&mut self, sandbox: &Sandbox, leaf: &Leaf, usage: &Usage) -> Result<Option<Limit>, RunError> {
        if self.locks.is_due() {
            run_blocking(|| self.locks.update(sandbox.pid())).map_err(RunError::Watch)?;
        }
        if self.locks.are_too_many() {
            self.program = self.program.max(self.locks.bytes());
            return Ok(Some(Limit::Memory));
        }
        let sockets = pinned::sockets(sandbox).map_err(RunError::Watch)?;
        let uncounted = Uncounted {
            internet: sockets.internet,
            others: sockets.netlink.saturating_add(self.locks.bytes()),
        };
        if uncounted == Uncounted::default() && usage.peak_memory.is_some_and(|peak| peak <= self.memory) {
            return Ok(None);
        }
        let tmpfs = in_memory(sandbox);
        self.tmpfs = self.tmpfs.max(tmpfs);
        let mut memory = leaf.memory()?.unwrap_or_default();
        if used(&memory, tmpfs, uncounted) > self.memory && memory.reclaimable.is_none() {
            // Kernel memory that can be reclaimed does not count as the program's.
            run_blocking(|| leaf.reclaim(RECLAIM_PATIENCE));
            memory = leaf.memory()?.unwrap_or_default();
        }
        let used = used(&memory, tmpfs, uncounted);
        self.program = self.program.max(used);
        Ok((used > self.memory).then_some(Limit::Memory))
    }

    fn look_at_places(&mut self, sandbox: &Sandbox) -> io::Result<Option<Limit>> {
        let begun = Instant::now();
        let on_disk = begun >= self.next;
        let (mut named, mut held_on_disk, mut most_on_disk) = (HashMap::new(), 0u64, 0u64);
        for ((place, handle), lowest) in sandbox.places().zip(&mut self.lowest) {
            if !place.is_on_disk() || on_disk {
                let (limit, held) = look_at_place(place, handle, *lowest, &mut named)?;
                if limit.is_some() {
                    return Ok(limit);
                }
                if place.is_on_disk() {
                    held_on_disk = held_on_disk.saturating_add(held.bytes);
                    most_on_disk = most_on_disk.saturating_add(place.most().most(*lowest).bytes);
                }
                *lowest = lowest.least(held);
            }
        }
        if on_disk && !named.is_empty() {
            let owners = DescriptorOwners::of(sandbox)?;
            let deleted = self.deleted.count(&owners, named, most_on_disk);
            let counted = held_on_disk.saturating_add(deleted.bytes);
            let bound = self.growth.bound(in_use_on_disk(sandbox)?, counted, deleted.visibility);
            if bound > most_on_disk {
                return Ok(Some(Limit::Disk));
            }
        }
        if on_disk {
            self.next = Instant::now() + begun.elapsed() * RESTS;
        }
        Ok(None)
    }

    /// Records what the processes use now.
    pub(crate) fn note_processes(&mut self, sandbox: &Sandbox) {
        self.seen = self.seen.most(run_blocking(|| tree::totals(sandbox.pid())));
    }

    /// Checks the limits after the end and returns what was used.
    pub(crate) fn counted(&self, sandbox: &Sandbox, leaf: Option<&Leaf>) -> Result<Counted, RunError> {
        let tmpfs = in_memory(sandbox).max(self.tmpfs);
        let grown = tmpfs.saturating_sub(self.tmpfs_at_first);
        let (limit, cpu, peak_memory) = match leaf {
            Some(leaf) => {
                let usage = leaf.usage()?;
                let peak = usage.peak_memory.unwrap_or_default().saturating_sub(grown);
                (
                    self.judge(&usage).or_else(|| self.judge_seen()),
                    usage.cpu.unwrap_or(self.seen.cpu),
                    peak.max(self.program).max(self.seen.memory),
                )
            }
            None => (self.judge_seen(), self.seen.cpu, self.seen.memory),
        };
        let limit = match limit {
            Some(limit) => Some(limit),
            None if has_places_on_disk(sandbox) => run_blocking(|| self.last_look(sandbox)).map_err(RunError::Watch)?,
            None => self.last_look(sandbox).map_err(RunError::Watch)?,
        };
        Ok(Counted {
            limit,
            cpu,
            peak_memory,
            peak_tmpfs: tmpfs,
        })
    }

    /// Checks every place after the end, even if its next check is not due.
    fn last_look(&self, sandbox: &Sandbox) -> io::Result<Option<Limit>> {
        for ((place, handle), lowest) in sandbox.places().zip(&self.lowest) {
            let (limit, _) = look_at_place(place, handle, *lowest, &mut HashMap::new())?;
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

    /// Checks processes without control groups: adds up everything below the first process.
    fn look_at_processes(&mut self, sandbox: &Sandbox) -> Result<Option<Limit>, RunError> {
        let sockets = pinned::sockets(sandbox).map_err(RunError::Watch)?.all();
        if self.locks.is_due() {
            self.locks.update(sandbox.pid()).map_err(RunError::Watch)?;
        }
        let mut now = tree::totals(sandbox.pid());
        now.memory = now.memory.saturating_add(sockets).saturating_add(self.locks.bytes());
        self.seen = self.seen.most(now);
        self.tmpfs = self.tmpfs.max(in_memory(sandbox));
        self.cpu = self.seen.cpu;
        Ok(self.judge_seen())
    }

    /// Processor time used at the last check.
    pub(crate) fn cpu(&self) -> Duration {
        self.cpu
    }

    fn judge_seen(&self) -> Option<Limit> {
        // The child itself does not count as the program's.
        let own = self.seen.processes.saturating_sub(1);
        if self.seen.memory > self.memory || self.seen.too_many_mappings || self.locks.are_too_many() {
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

fn has_places_on_disk(sandbox: &Sandbox) -> bool {
    sandbox.places().any(|(place, _)| place.is_on_disk())
}

/// Runs work whose duration depends on a program's files and processes; on a runtime with several threads, other tasks go on
/// meanwhile.
fn run_blocking<T>(work: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) => task::block_in_place(work),
        _ => work(),
    }
}

/// What earlier executions left in a place on disk; `None`: it cannot be measured.
fn at_first(place: &Writable, handle: BorrowedFd<'_>) -> Option<Held> {
    if !place.is_on_disk() {
        return Some(Held::default());
    }
    let held = tree::folder_use(handle, Held::UNKNOWN).ok();
    held.filter(|held| *held != Held::UNKNOWN)
}

/// The initial floor of a place. A kept place that holds more than its quota must not grow, and need not shrink at once. Any
/// other begins below its quota, and one that cannot be measured must stay within it.
fn lowest_at_first(place: &Writable, held: Option<Held>) -> Held {
    match held {
        Some(held) if place.kind == WritableKind::Kept => held,
        _ => Held::default(),
    }
}

/// Bytes in use on the file systems of places on disk, by all their users.
fn in_use_on_disk(sandbox: &Sandbox) -> io::Result<u64> {
    let mut devices = HashMap::new();
    for (_, handle) in sandbox.places().filter(|(place, _)| place.is_on_disk()) {
        let space = space(&handle)?;
        let device = rustix::fs::fstat(handle)?.st_dev;
        devices.insert(device, space.bytes.saturating_sub(space.bytes_free));
    }
    Ok(devices.values().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes)))
}

/// Memory that a control group counts not at all or only in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Uncounted {
    /// Bytes of internet sockets.
    internet: u64,
    /// Bytes of locks and netlink sockets.
    others: u64,
}

/// Memory that belongs to no file and cannot be reclaimed.
fn used(memory: &Memory, tmpfs: u64, uncounted: Uncounted) -> u64 {
    let kernel = memory.kernel.saturating_sub(memory.reclaimable.unwrap_or(0));
    let shared = memory.shared.saturating_sub(tmpfs);
    // What the group counts for sockets is a part of what they hold.
    let sockets = memory.sockets.max(uncounted.internet);
    [memory.own, shared, kernel, sockets, uncounted.others]
        .into_iter()
        .fold(0, u64::saturating_add)
}

/// Bytes of files in memory.
fn in_memory(sandbox: &Sandbox) -> u64 {
    let places = sandbox.places().filter(|(place, _)| place.kind == WritableKind::Memory);
    let spaces = places.filter_map(|(_, handle)| space(&handle).ok());
    spaces.map(|space| space.bytes.saturating_sub(space.bytes_free)).sum()
}

fn look_at_place(
    place: &Writable,
    handle: BorrowedFd<'_>,
    lowest: Held,
    named: &mut HashMap<FileId, u64>,
) -> io::Result<(Option<Limit>, Held)> {
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
            let held = tree::folder_files(handle, most, named)?;
            let limit = if held.bytes > most.bytes {
                Some(Limit::Disk)
            } else if held.files > most.files {
                Some(Limit::Inodes)
            } else {
                None
            };
            Ok((limit, held))
        }
    }
}
