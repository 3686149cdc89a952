//! Checks the limits of a jail that the kernel does not enforce: at every tick, and once more at the end.

use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use ringfence_jail::cgroup::{Leaf, LeafMemory, LeafUsage};

use super::filesystem_space;
use super::jailed_place::JailedPlace;
use super::locks::RecordLocks;
use super::pinned::{self, DeletedFiles, DescriptorOwners, DiskGrowth};
use crate::backend::parts::{FinalCounts, run_blocking};
use crate::execution::ExecutionError;
use crate::spec::{WritableKind, WritablePlace};
use crate::tree::{self, FileId, FolderUsage};
use crate::verdict::ExecutionLimit;

/// How long the kernel has to reclaim memory that is not the program's, before the rest counts.
const RECLAIM_TIMEOUT: Duration = Duration::from_millis(50);
/// The next check of places on disk is delayed by this many times the duration of the last one.
const REST_FACTOR: u32 = 4;

/// Checks the limits of one execution.
#[derive(Debug)]
pub(crate) struct LimitWatch {
    cpu_time: Duration,
    memory: u64,
    processes: usize,
    seen: tree::ProcessTotals,
    cpu: Duration,
    /// Peak memory in bytes, without files in memory.
    peak_program: u64,
    /// Peak size of files in memory, and their size at the beginning.
    peak_tmpfs: u64,
    tmpfs_at_first: u64,
    locks: RecordLocks,
    deleted: DeletedFiles,
    growth: DiskGrowth,
    /// The least that each place held since the execution began, where that may be more than its quota.
    lowest: Vec<FolderUsage>,
    /// When places on disk are checked again: a check takes time too.
    next_check: Instant,
}

impl LimitWatch {
    pub(crate) fn new(sandbox: &JailedPlace) -> LimitWatch {
        let limits = &sandbox.spec.limits;
        let held: Vec<Option<FolderUsage>> = run_blocking(|| {
            let places = sandbox.places();
            places.map(|(place, handle)| initial_usage(place, handle)).collect()
        });
        let bytes = |held: &Option<FolderUsage>| held.map_or(u64::MAX, |held| held.bytes);
        let counted = held.iter().map(bytes).fold(0, u64::saturating_add);
        LimitWatch {
            cpu_time: limits.cpu_time,
            memory: limits.memory.get(),
            processes: usize::try_from(limits.processes).unwrap_or(usize::MAX),
            seen: tree::ProcessTotals::default(),
            cpu: Duration::ZERO,
            peak_program: 0,
            peak_tmpfs: 0,
            tmpfs_at_first: sandbox.tmpfs_bytes(),
            locks: RecordLocks::new(),
            deleted: DeletedFiles::default(),
            // Where the file systems cannot be queried now, all that they hold later counts as growth.
            growth: DiskGrowth::new(in_use_on_disk(sandbox).unwrap_or(0), counted),
            lowest: sandbox
                .places()
                .zip(held)
                .map(|((place, _), held)| initial_floor(place, held))
                .collect(),
            next_check: Instant::now(),
        }
    }

    /// Checks the limits that are due; returns the limit that was reached, if any.
    pub(crate) fn check(
        &mut self,
        sandbox: &JailedPlace,
        leaf: Option<&Leaf>,
    ) -> Result<Option<ExecutionLimit>, ExecutionError> {
        let limit = match leaf {
            Some(leaf) => {
                let usage = leaf.usage()?;
                let limit = match self.judge_usage(&usage) {
                    Some(limit) => Some(limit),
                    None if leaf.counts_memory() => self.check_memory(sandbox, leaf, &usage)?,
                    None => run_blocking(|| self.check_processes(sandbox))?,
                };
                self.cpu = usage
                    .cpu
                    .unwrap_or_else(|| run_blocking(|| tree::process_totals(sandbox.pid()).cpu));
                limit
            }
            None => run_blocking(|| self.check_processes(sandbox))?,
        };
        match limit {
            Some(limit) => Ok(Some(limit)),
            None if has_places_on_disk(sandbox) => {
                run_blocking(|| self.check_places(sandbox)).map_err(ExecutionError::Watch)
            }
            None => self.check_places(sandbox).map_err(ExecutionError::Watch),
        }
    }

    /// Checks memory: the group's own limit has capacity for files in memory, and use of that capacity for anything else is
    /// detected here.
    fn check_memory(
        &mut self,
        sandbox: &JailedPlace,
        leaf: &Leaf,
        usage: &LeafUsage,
    ) -> Result<Option<ExecutionLimit>, ExecutionError> {
        if self.locks.is_due() {
            run_blocking(|| self.locks.update(sandbox.pid())).map_err(ExecutionError::Watch)?;
        }
        if self.locks.are_too_many() {
            self.peak_program = self.peak_program.max(self.locks.bytes());
            return Ok(Some(ExecutionLimit::Memory));
        }
        let sockets = pinned::socket_memory(sandbox).map_err(ExecutionError::Watch)?;
        let uncounted = UncountedMemory {
            internet: sockets.internet,
            others: sockets.netlink.saturating_add(self.locks.bytes()),
        };
        if uncounted == UncountedMemory::default() && usage.peak_memory.is_some_and(|peak| peak <= self.memory) {
            return Ok(None);
        }
        let tmpfs = sandbox.tmpfs_bytes();
        self.peak_tmpfs = self.peak_tmpfs.max(tmpfs);
        let mut memory = leaf.memory()?.unwrap_or_default();
        if used_memory(&memory, tmpfs, uncounted) > self.memory && memory.reclaimable.is_none() {
            // Kernel memory that can be reclaimed does not count as the program's.
            run_blocking(|| leaf.reclaim(RECLAIM_TIMEOUT));
            memory = leaf.memory()?.unwrap_or_default();
        }
        let used = used_memory(&memory, tmpfs, uncounted);
        self.peak_program = self.peak_program.max(used);
        Ok((used > self.memory).then_some(ExecutionLimit::Memory))
    }

    fn check_places(&mut self, sandbox: &JailedPlace) -> io::Result<Option<ExecutionLimit>> {
        let begun = Instant::now();
        let on_disk = begun >= self.next_check;
        let (mut named, mut held_on_disk, mut most_on_disk) = (HashMap::new(), 0u64, 0u64);
        for ((place, handle), lowest) in sandbox.places().zip(&mut self.lowest) {
            if !place.is_on_disk() || on_disk {
                let (limit, held) = check_place(place, handle, *lowest, &mut named)?;
                if limit.is_some() {
                    return Ok(limit);
                }
                if place.is_on_disk() {
                    held_on_disk = held_on_disk.saturating_add(held.bytes);
                    most_on_disk = most_on_disk.saturating_add(place.capacity().max_each(*lowest).bytes);
                }
                *lowest = lowest.min_each(held);
            }
        }
        if on_disk && !named.is_empty() {
            let owners = DescriptorOwners::from_sandbox(sandbox)?;
            let deleted = self.deleted.count(&owners, named, most_on_disk);
            let counted = held_on_disk.saturating_add(deleted.bytes);
            let bound = self.growth.bound(in_use_on_disk(sandbox)?, counted, deleted.visibility);
            if bound > most_on_disk {
                return Ok(Some(ExecutionLimit::Disk));
            }
        }
        if on_disk {
            self.next_check = Instant::now() + begun.elapsed() * REST_FACTOR;
        }
        Ok(None)
    }

    /// Records what the processes use now.
    pub(crate) fn note_processes(&mut self, sandbox: &JailedPlace) {
        self.seen = self.seen.max_each(run_blocking(|| tree::process_totals(sandbox.pid())));
    }

    /// Checks the limits after the end and returns what was used.
    pub(crate) fn final_counts(
        &self,
        sandbox: &JailedPlace,
        leaf: Option<&Leaf>,
    ) -> Result<FinalCounts, ExecutionError> {
        let tmpfs = sandbox.tmpfs_bytes().max(self.peak_tmpfs);
        let grown = tmpfs.saturating_sub(self.tmpfs_at_first);
        let (limit, cpu, peak_memory) = match leaf {
            Some(leaf) => {
                let usage = leaf.usage()?;
                let peak = usage.peak_memory.unwrap_or_default().saturating_sub(grown);
                (
                    self.judge_usage(&usage).or_else(|| self.judge_peaks()),
                    usage.cpu.unwrap_or(self.seen.cpu),
                    peak.max(self.peak_program).max(self.seen.memory),
                )
            }
            None => (self.judge_peaks(), self.seen.cpu, self.seen.memory),
        };
        let limit = match limit {
            Some(limit) => Some(limit),
            None if has_places_on_disk(sandbox) => {
                run_blocking(|| self.check_all_places(sandbox)).map_err(ExecutionError::Watch)?
            }
            None => self.check_all_places(sandbox).map_err(ExecutionError::Watch)?,
        };
        Ok(FinalCounts {
            limit,
            cpu,
            peak_memory,
            peak_tmpfs: tmpfs,
        })
    }

    /// Checks every place after the end, even if its next check is not due.
    fn check_all_places(&self, sandbox: &JailedPlace) -> io::Result<Option<ExecutionLimit>> {
        for ((place, handle), lowest) in sandbox.places().zip(&self.lowest) {
            let (limit, _) = check_place(place, handle, *lowest, &mut HashMap::new())?;
            if limit.is_some() {
                return Ok(limit);
            }
        }
        Ok(None)
    }

    fn judge_usage(&self, usage: &LeafUsage) -> Option<ExecutionLimit> {
        if usage.memory_kills > 0 {
            Some(ExecutionLimit::Memory)
        } else if usage.processes_refused > 0 {
            Some(ExecutionLimit::Processes)
        } else if usage.cpu.is_some_and(|cpu| cpu >= self.cpu_time) {
            Some(ExecutionLimit::Cpu)
        } else {
            None
        }
    }

    /// Checks processes without control groups: adds up everything below the first process.
    fn check_processes(&mut self, sandbox: &JailedPlace) -> Result<Option<ExecutionLimit>, ExecutionError> {
        let sockets = pinned::socket_memory(sandbox).map_err(ExecutionError::Watch)?.total();
        if self.locks.is_due() {
            self.locks.update(sandbox.pid()).map_err(ExecutionError::Watch)?;
        }
        let mut now = tree::process_totals(sandbox.pid());
        now.memory = now.memory.saturating_add(sockets).saturating_add(self.locks.bytes());
        self.seen = self.seen.max_each(now);
        self.peak_tmpfs = self.peak_tmpfs.max(sandbox.tmpfs_bytes());
        self.cpu = self.seen.cpu;
        Ok(self.judge_peaks())
    }

    /// Processor time used at the last check.
    pub(crate) fn cpu(&self) -> Duration {
        self.cpu
    }

    fn judge_peaks(&self) -> Option<ExecutionLimit> {
        // The child itself does not count as the program's.
        let own = self.seen.processes.saturating_sub(1);
        if self.seen.memory > self.memory || self.seen.too_many_mappings || self.locks.are_too_many() {
            Some(ExecutionLimit::Memory)
        } else if own > self.processes {
            Some(ExecutionLimit::Processes)
        } else if self.seen.cpu >= self.cpu_time {
            Some(ExecutionLimit::Cpu)
        } else {
            None
        }
    }
}

fn has_places_on_disk(sandbox: &JailedPlace) -> bool {
    sandbox.places().any(|(place, _)| place.is_on_disk())
}

/// What earlier executions left in a place on disk; `None`: it cannot be measured.
fn initial_usage(place: &WritablePlace, handle: BorrowedFd<'_>) -> Option<FolderUsage> {
    if !place.is_on_disk() {
        return Some(FolderUsage::default());
    }
    let held = tree::folder_usage(handle, FolderUsage::UNKNOWN).ok();
    held.filter(|held| *held != FolderUsage::UNKNOWN)
}

/// The initial floor of a place. A kept place that holds more than its quota must not grow, and need not shrink at once. Any
/// other begins below its quota, and one that cannot be measured must stay within it.
fn initial_floor(place: &WritablePlace, held: Option<FolderUsage>) -> FolderUsage {
    match held {
        Some(held) if place.kind == WritableKind::Kept => held,
        _ => FolderUsage::default(),
    }
}

/// Bytes in use on the file systems of places on disk, by all their users.
fn in_use_on_disk(sandbox: &JailedPlace) -> io::Result<u64> {
    let mut devices = HashMap::new();
    for (_, handle) in sandbox.places().filter(|(place, _)| place.is_on_disk()) {
        let space = filesystem_space(&handle)?;
        let device = rustix::fs::fstat(handle)?.st_dev;
        devices.insert(device, space.bytes.saturating_sub(space.bytes_free));
    }
    Ok(devices.values().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes)))
}

/// Memory that a control group counts not at all or only in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct UncountedMemory {
    /// Bytes of internet sockets.
    internet: u64,
    /// Bytes of locks and netlink sockets.
    others: u64,
}

/// Memory that belongs to no file and cannot be reclaimed.
fn used_memory(memory: &LeafMemory, tmpfs: u64, uncounted: UncountedMemory) -> u64 {
    let kernel = memory.kernel.saturating_sub(memory.reclaimable.unwrap_or(0));
    let shared = memory.shared.saturating_sub(tmpfs);
    // What the group counts for sockets is a part of what they hold.
    let sockets = memory.sockets.max(uncounted.internet);
    [memory.own, shared, kernel, sockets, uncounted.others]
        .into_iter()
        .fold(0, u64::saturating_add)
}

fn check_place(
    place: &WritablePlace,
    handle: BorrowedFd<'_>,
    lowest: FolderUsage,
    named: &mut HashMap<FileId, u64>,
) -> io::Result<(Option<ExecutionLimit>, FolderUsage)> {
    match place.kind {
        WritableKind::Memory => {
            let space = filesystem_space(&handle)?;
            let limit = if space.bytes_free == 0 {
                Some(ExecutionLimit::Disk)
            } else if space.inodes_free == 0 {
                Some(ExecutionLimit::Inodes)
            } else {
                None
            };
            Ok((limit, FolderUsage::default()))
        }
        WritableKind::Folder | WritableKind::Kept => {
            let most = place.capacity().max_each(lowest);
            let held = tree::folder_files(handle, most, named)?;
            let limit = if held.bytes > most.bytes {
                Some(ExecutionLimit::Disk)
            } else if held.files > most.files {
                Some(ExecutionLimit::Inodes)
            } else {
                None
            };
            Ok((limit, held))
        }
    }
}
