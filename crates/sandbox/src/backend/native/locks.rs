//! Record locks that programs hold: the kernel keeps each in memory that no control group counts.
//!
//! Only locks of processes are counted here. The filter refuses locks of open files and threads with a descriptor table of
//! their own, so every lock shows at a descriptor of its process. Reading `/proc/locks` would take a time that grows with
//! the square of its length.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::tree::{self, unless_ending};

/// Bytes that the kernel keeps for one lock, rounded up: 192 bytes on Linux 6.18.
const LOCK_BYTES: u64 = 256;
/// The most locks that one sandbox may hold, whatever its limit: reading a longer list would take too long.
const MAX_LOCKS: u64 = 16_384;
/// The next count is delayed by this many times the duration of the last one.
const REST_FACTOR: u32 = 4;

/// Counts the record locks of a sandbox.
#[derive(Debug)]
pub(crate) struct RecordLocks {
    count: u64,
    next_count: Instant,
}

impl RecordLocks {
    pub(crate) fn new() -> RecordLocks {
        RecordLocks {
            count: 0,
            next_count: Instant::now(),
        }
    }

    /// Whether the next count is due.
    pub(crate) fn is_due(&self) -> bool {
        Instant::now() >= self.next_count
    }

    /// Counts the locks of the processes below `first`.
    pub(crate) fn update(&mut self, first: i32) -> io::Result<()> {
        let begun = Instant::now();
        self.count = count(&tree::processes_below(first))?;
        self.schedule_next(begun.elapsed());
        Ok(())
    }

    fn schedule_next(&mut self, took: Duration) {
        self.next_count = Instant::now() + took * REST_FACTOR;
    }

    /// Bytes that the locks use, as of the last count.
    pub(crate) fn bytes(&self) -> u64 {
        self.count * LOCK_BYTES
    }

    /// Whether there are more locks than the maximum, so that the count stopped.
    pub(crate) fn are_too_many(&self) -> bool {
        self.count > MAX_LOCKS
    }
}

/// The number of locks of these processes; stops above the maximum. A process that ends during the count is left out.
fn count(processes: &[i32]) -> io::Result<u64> {
    let mut locks = 0;
    for pid in processes {
        // When the first thread of a process has ended, another of its threads is read.
        for task in tree::tasks(*pid) {
            if add_locks(&task, &mut locks)? == Descriptors::Present {
                break;
            }
        }
        if locks > MAX_LOCKS {
            break;
        }
    }
    Ok(locks)
}

/// Whether a thread has any descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Descriptors {
    Present,
    Absent,
}

fn add_locks(task: &Path, locks: &mut u64) -> io::Result<Descriptors> {
    let Some(entries) = unless_ending(task, fs::read_dir(task.join("fdinfo")))? else {
        return Ok(Descriptors::Absent);
    };
    let mut files = HashSet::new();
    let mut found = Descriptors::Absent;
    for entry in entries {
        let Some(entry) = unless_ending(task, entry)? else {
            break;
        };
        found = Descriptors::Present;
        // Each descriptor of a file shows the locks of that file. Where the file is unknown they count each time.
        let file = fs::metadata(task.join("fd").join(entry.file_name()));
        if file.is_ok_and(|file| !files.insert((file.dev(), file.ino()))) {
            continue;
        }
        let Some(text) = unless_ending(task, fs::read(entry.path()))? else {
            continue;
        };
        *locks += locks_in(&text);
        if *locks > MAX_LOCKS {
            break;
        }
    }
    Ok(found)
}

fn locks_in(text: &[u8]) -> u64 {
    text.split(|byte| *byte == b'\n')
        .filter(|line| line.starts_with(b"lock:"))
        .count() as u64
}

#[cfg(test)]
mod tests;
