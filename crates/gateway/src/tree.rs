//! JSON that was read is a tree, and a small text can become a large one: how large is told from the text before it is read, and
//! large ones share a bounded amount of memory.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The memory of one tree; whatever would take more is not read.
pub const MAX_TREE: usize = 256 << 20;
/// Levels of one message that are read: what reads JSON goes no deeper.
pub(crate) const MAX_DEPTH: usize = 127;
/// A text whose tree is never large.
const SMALL_TEXT: usize = 16 * 1024;
/// What the smallest object takes: a map that keeps the order of its keys, with room for three.
const OBJECT: usize = 288;
/// What the smallest list takes: room for four.
const LIST: usize = 288;
/// What one more member or element takes, and the room that is made ahead for it.
const PART: usize = 152;
/// What one more takes in a long row: the room made ahead is never touched there, so it is not there.
const PART_OF_MANY: usize = 80;
/// So many parts one after another are a long row.
const MANY: usize = 256;
/// What a member takes above an element: its key, its hash and its place in a table.
const KEY: usize = 80;
/// Memory is counted in so many bytes.
const UNIT: usize = 1024;

/// How much memory a text of JSON takes once it is read, about and rather more than less.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct TreeSize {
    quoted: bool,
    escaped: bool,
    bytes: usize,
    /// How many parts came since a list or an object last began or ended.
    parts: usize,
}

impl TreeSize {
    pub(crate) fn of(text: &[u8]) -> usize {
        let mut size = TreeSize::default();
        for byte in text {
            size.add(*byte);
        }
        size.bytes
    }

    pub(crate) fn add(&mut self, byte: u8) {
        self.bytes += 1;
        match byte {
            // No string goes over the end of a line, so nothing that came before on another one opens one.
            b'\n' | b'\r' => (self.quoted, self.escaped) = (false, false),
            _ if self.escaped => self.escaped = false,
            b'\\' if self.quoted => self.escaped = true,
            b'"' => self.quoted = !self.quoted,
            b'{' if !self.quoted => self.begin(OBJECT),
            b'[' if !self.quoted => self.begin(LIST),
            b'}' | b']' if !self.quoted => self.parts = 0,
            b':' if !self.quoted => self.bytes += KEY,
            b',' if !self.quoted => {
                self.bytes += if self.parts < MANY { PART } else { PART_OF_MANY };
                self.parts += 1;
            }
            _ => {}
        }
    }

    fn begin(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.parts = 0;
    }

    pub(crate) fn is_too_large(self) -> bool {
        self.bytes > MAX_TREE
    }
}

/// Whether a text of JSON is not read for the memory that it would take.
pub(crate) fn is_too_large(text: &[u8]) -> bool {
    text.len() > SMALL_TEXT && TreeSize::of(text) > MAX_TREE
}

/// Whether a text of JSON is nested deeper than is read.
pub(crate) fn is_too_deep(text: &[u8]) -> bool {
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => depth += 1,
            b'}' | b']' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return true;
        }
    }
    false
}

/// The memory that large trees share.
#[derive(Debug, Clone)]
pub struct TreeMemory {
    units: Arc<Semaphore>,
    most: usize,
}

/// A tree would take more memory than there is for any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it holds too many values: {wanted} MiB of memory once read, and {most} MiB are the most")]
pub struct TooLarge {
    wanted: usize,
    most: usize,
}

/// The memory of one tree, given back when it is dropped.
#[derive(Debug)]
pub struct TreePermit {
    _units: Option<OwnedSemaphorePermit>,
    is_large: bool,
}

impl TreePermit {
    /// Whether reading it takes so long that others should not wait for the thread.
    pub fn is_large(&self) -> bool {
        self.is_large
    }
}

impl TreeMemory {
    /// So many bytes for all of them, and for one at most.
    pub fn new(bytes: usize) -> TreeMemory {
        TreeMemory {
            units: Arc::new(Semaphore::new(bytes / UNIT)),
            most: bytes.min(MAX_TREE),
        }
    }

    /// Waits until there is memory for what a text of JSON becomes.
    pub async fn reserve(&self, text: &str) -> Result<TreePermit, TooLarge> {
        if text.len() <= SMALL_TEXT {
            return Ok(TreePermit {
                _units: None,
                is_large: false,
            });
        }
        let bytes = TreeSize::of(text.as_bytes());
        if bytes > self.most {
            let mebibytes = |bytes: usize| bytes >> 20;
            return Err(TooLarge {
                wanted: mebibytes(bytes),
                most: mebibytes(self.most),
            });
        }
        let units = u32::try_from(bytes / UNIT).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        let units = Arc::clone(&self.units).acquire_many_owned(units).await.ok();
        Ok(TreePermit {
            _units: units,
            is_large: true,
        })
    }
}

#[cfg(test)]
mod tests;
