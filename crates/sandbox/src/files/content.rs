//! Reads the content of a file in order and keeps holes as holes: it does not read bytes that were never written.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::time::Instant;

use rustix::fs::{SeekFrom as FileSeek, seek};
use sha2::{Digest, Sha256};

const CHUNK_BYTES: usize = 128 * 1024;
const ZEROS: [u8; 4096] = [0; 4096];
/// Bytes in one block of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

/// The length of a file, and how much of it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileExtent {
    pub(super) length: u64,
    pub(super) stored: u64,
}

impl FileExtent {
    /// The extent of a plain file; anything else is an error.
    pub(super) fn from_file(file: &File) -> io::Result<FileExtent> {
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(FileExtent {
            length: found.len(),
            stored: found.blocks().saturating_mul(BLOCK_BYTES).min(found.len()),
        })
    }

    /// Bytes that read as zero and are not stored.
    pub(super) fn holes(self) -> u64 {
        self.length - self.stored
    }
}

/// A piece of a file: a hole or stored bytes.
enum FileSegment<'a> {
    Bytes(&'a [u8]),
    Hole(u64),
}

/// Reads files one after another until its deadline.
#[derive(Debug)]
pub(super) struct FileReader {
    buffer: Vec<u8>,
    deadline: Instant,
}

impl FileReader {
    pub(super) fn with_deadline(deadline: Instant) -> FileReader {
        FileReader {
            buffer: Vec::new(),
            deadline,
        }
    }

    /// Fails with `TimedOut` when the deadline has passed.
    pub(super) fn check_time(&self) -> io::Result<()> {
        if Instant::now() < self.deadline {
            Ok(())
        } else {
            Err(io::ErrorKind::TimedOut.into())
        }
    }

    /// The digest of a file's content, with holes as zeroes.
    pub(super) fn digest(&mut self, file: &File, extent: FileExtent) -> io::Result<String> {
        let mut digest = Sha256::new();
        let deadline = self.deadline;
        self.for_each_segment(file, extent, |part| {
            match part {
                FileSegment::Bytes(bytes) => digest.update(bytes),
                FileSegment::Hole(length) => {
                    /// The deadline is checked once in this many chunks.
                    const ROUNDS: u64 = 32;
                    let (mut left, mut round) = (length, 0u64);
                    while left > 0 {
                        let count = left.min(ZEROS.len() as u64);
                        digest.update(ZEROS.get(..usize::try_from(count).unwrap_or(0)).unwrap_or_default());
                        left -= count;
                        round += 1;
                        if round.is_multiple_of(ROUNDS) && Instant::now() >= deadline {
                            return Err(io::ErrorKind::TimedOut.into());
                        }
                    }
                }
            }
            Ok(())
        })?;
        Ok(hex(&digest.finalize()))
    }

    /// Copies a file and keeps its holes.
    pub(super) fn copy(&mut self, from: &File, extent: FileExtent, to: &mut File) -> io::Result<()> {
        self.for_each_segment(from, extent, |part| match part {
            FileSegment::Bytes(bytes) => to.write_all(bytes),
            FileSegment::Hole(length) => {
                let length = i64::try_from(length).map_err(|_| io::ErrorKind::InvalidInput)?;
                to.seek(SeekFrom::Current(length)).map(drop)
            }
        })?;
        to.set_len(extent.length)
    }

    /// Calls `each` with the parts of a file in order. A file that became shorter ends early.
    fn for_each_segment(
        &mut self,
        file: &File,
        extent: FileExtent,
        mut each: impl FnMut(FileSegment<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut at = 0;
        while at < extent.length {
            let (data, end) = if extent.holes() == 0 {
                (at, extent.length)
            } else {
                next_data(file, at, extent.length)?
            };
            if data > at {
                self.check_time()?;
                each(FileSegment::Hole(data - at))?;
                at = data;
            }
            while at < end {
                self.check_time()?;
                let wanted = usize::try_from(end - at).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
                if self.buffer.len() < wanted {
                    self.buffer.resize(wanted, 0);
                }
                let room = self.buffer.get_mut(..wanted).unwrap_or_default();
                let count = file.read_at(room, at)?;
                if count == 0 {
                    return Ok(());
                }
                each(FileSegment::Bytes(room.get(..count).unwrap_or_default()))?;
                at += count as u64;
            }
        }
        Ok(())
    }
}

/// Where the next stored bytes at or after `at` begin and end; on a file system without holes, all bytes are stored.
fn next_data(file: &File, at: u64, length: u64) -> io::Result<(u64, u64)> {
    use rustix::io::Errno;
    let data = match seek(file, FileSeek::Data(at)) {
        Ok(data) => data,
        Err(Errno::NXIO) => return Ok((length, length)),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok((at, length)),
        Err(error) => return Err(error.into()),
    };
    let end = match seek(file, FileSeek::Hole(data)) {
        Ok(end) => end,
        Err(Errno::NXIO) => length,
        Err(error) => return Err(error.into()),
    };
    Ok((data.min(length), end.min(length)))
}

/// Copies all of `from` and returns the digest.
pub(super) fn copy_and_digest(from: &mut impl Read, to: &mut File) -> io::Result<String> {
    let mut digest = Sha256::new();
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let count = from.read(&mut buffer)?;
        let part = buffer.get(..count).unwrap_or_default();
        if part.is_empty() {
            return Ok(hex(&digest.finalize()));
        }
        digest.update(part);
        to.write_all(part)?;
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}
