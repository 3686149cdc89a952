//! Bounds the memory of parsed JSON: a small text can become a large tree. The size is estimated from the text before
//! it is parsed, and large trees share a bounded amount of memory.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Most memory of one tree in bytes; larger ones are not parsed.
pub const MAX_TREE: usize = 256 << 20;
/// Most levels of a message: the JSON parser goes no deeper.
pub(crate) const MAX_DEPTH: usize = 127;
/// The tree of a text up to this size is never large.
const MAX_SMALL_TEXT: usize = 16 * 1024;
/// Bytes of the smallest object: a map that keeps the order of its keys, with capacity for three.
const OBJECT_BYTES: usize = 288;
/// Bytes of the smallest list, which has capacity for four.
const LIST_BYTES: usize = 288;
/// Bytes of one more member or element, with the capacity that is allocated ahead for it.
const PART_BYTES: usize = 152;
/// Bytes of one more part in a long row, whose unused capacity is never touched and takes no memory.
const LONG_ROW_PART_BYTES: usize = 80;
/// A row of this many parts is long.
const MIN_LONG_ROW_PARTS: usize = 256;
/// Bytes that a member takes beyond an element: its key, its hash and its slot in a table.
const KEY_BYTES: usize = 80;
/// Memory is counted in units of this many bytes.
const UNIT_BYTES: usize = 1024;

/// An upper estimate of the memory that a JSON text takes once parsed.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct TreeSize {
    quoted: bool,
    escaped: bool,
    bytes: usize,
    /// The number of parts since a list or an object last began or ended.
    parts: usize,
}

impl TreeSize {
    pub(crate) fn measure(text: &[u8]) -> usize {
        let mut size = TreeSize::default();
        for byte in text {
            size.add(*byte);
        }
        size.bytes
    }

    pub(crate) fn add(&mut self, byte: u8) {
        self.bytes += 1;
        match byte {
            // No string spans lines, so an open quote cannot come from an earlier line.
            b'\n' | b'\r' => (self.quoted, self.escaped) = (false, false),
            _ if self.escaped => self.escaped = false,
            b'\\' if self.quoted => self.escaped = true,
            b'"' => self.quoted = !self.quoted,
            b'{' if !self.quoted => self.begin(OBJECT_BYTES),
            b'[' if !self.quoted => self.begin(LIST_BYTES),
            b'}' | b']' if !self.quoted => self.parts = 0,
            b':' if !self.quoted => self.bytes += KEY_BYTES,
            b',' if !self.quoted => {
                self.bytes += if self.parts < MIN_LONG_ROW_PARTS {
                    PART_BYTES
                } else {
                    LONG_ROW_PART_BYTES
                };
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

/// Whether a JSON text is not parsed because of the memory that it would take.
pub(crate) fn is_too_large(text: &[u8]) -> bool {
    text.len() > MAX_SMALL_TEXT && TreeSize::measure(text) > MAX_TREE
}

/// Whether a JSON text is nested deeper than the parser goes.
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

/// A tree would take more memory than any tree may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it holds too many values: {wanted} MiB of memory once read, and {most} MiB are the most")]
pub struct TreeTooLarge {
    wanted: usize,
    most: usize,
}

/// The memory of one tree; dropping it releases the memory.
#[derive(Debug)]
pub struct TreePermit {
    _units: Option<OwnedSemaphorePermit>,
    is_large: bool,
}

impl TreePermit {
    /// Whether parsing takes so long that it should not block the thread.
    pub fn is_large(&self) -> bool {
        self.is_large
    }
}

impl TreeMemory {
    /// Creates a budget of this many bytes, for all trees together and for each one.
    pub fn new(bytes: usize) -> TreeMemory {
        TreeMemory {
            units: Arc::new(Semaphore::new(bytes / UNIT_BYTES)),
            most: bytes.min(MAX_TREE),
        }
    }

    /// Waits until there is memory for the tree of a JSON text.
    pub async fn reserve(&self, text: &str) -> Result<TreePermit, TreeTooLarge> {
        if text.len() <= MAX_SMALL_TEXT {
            return Ok(TreePermit {
                _units: None,
                is_large: false,
            });
        }
        let bytes = TreeSize::measure(text.as_bytes());
        if bytes > self.most {
            let mebibytes = |bytes: usize| bytes >> 20;
            return Err(TreeTooLarge {
                wanted: mebibytes(bytes),
                most: mebibytes(self.most),
            });
        }
        let units = u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX);
        // The semaphore never closes.
        let units = Arc::clone(&self.units).acquire_many_owned(units).await.ok();
        Ok(TreePermit {
            _units: units,
            is_large: true,
        })
    }
}

#[cfg(test)]
mod tests;
