//! Record locks that programs hold: the kernel keeps each in memory that no control group counts.
//!
//! Only locks of a process are counted here. The filter refuses those of open files, and threads with descriptors of their own, so every
//! lock is told with a descriptor of its process. `/proc/locks` would take a time that grows with the square of its length.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::tree::{self, unless_ending};

/// What the kernel keeps for one lock, rounded up: 192 bytes on Linux 6.18.
const LOCK_BYTES: u64 = 256;
/// More locks in one sandbox are too much whatever the limit: reading their list would take too long.
const MAX_LOCKS: u64 = 16_384;
/// After locks were counted, so many times as long is rested.
const RESTS: u32 = 4;

/// Follows the record locks of a sandbox.
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

    /// Whether it is time to count again.
    pub(crate) fn is_due(&self) -> bool {
        Instant::now() >= self.next_count
    }

    /// Counts those of the processes below `first`.
    pub(crate) fn update(&mut self, first: i32) -> io::Result<()> {
        let begun = Instant::now();
        self.count = count(&tree::below(first))?;
        self.rest(begun.elapsed());
        Ok(())
    }

    fn rest(&mut self, took: Duration) {
        self.next_count = Instant::now() + took * RESTS;
    }

    /// Memory that they take, as counted last.
    pub(crate) fn bytes(&self) -> u64 {
        self.count * LOCK_BYTES
    }

    /// Whether there are so many that they were not counted to the end.
    pub(crate) fn are_too_many(&self) -> bool {
        self.count > MAX_LOCKS
    }
}

/// Locks of these processes; stops when there are too many. A process that ends while we look is left out.
fn count(processes: &[i32]) -> io::Result<u64> {
    let mut locks = 0;
    for pid in processes {
        // A process whose first thread has ended is read through another of its threads.
        for task in tree::tasks(*pid) {
            if add_locks(&task, &mut locks)? == Descriptors::Some {
                break;
            }
        }
        if locks > MAX_LOCKS {
            break;
        }
    }
    Ok(locks)
}

/// Whether a thread has any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Descriptors {
    Some,
    None,
}

fn add_locks(task: &Path, locks: &mut u64) -> io::Result<Descriptors> {
    let Some(entries) = unless_ending(task, fs::read_dir(task.join("fdinfo")))? else {
        return Ok(Descriptors::None);
    };
    let mut files = HashSet::new();
    let mut found = Descriptors::None;
    for entry in entries {
        let Some(entry) = unless_ending(task, entry)? else {
            break;
        };
        found = Descriptors::Some;
        // The locks of a file are told with each of its descriptors. Where the file is not told they count each time.
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
