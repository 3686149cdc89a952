//! A skill as a `.tar.gz`: plain files and folders only.

use std::io::{self, Read};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use tar::{Archive, Builder, EntryType, Header};

use super::super::folder::SkillFiles;
use super::reader::{ArchiveReader, UnfitArchive, printable_name};

/// The most bytes that are unpacked, including headers and skipped files.
const MAX_UNPACKED_BYTES: u64 = 8 << 20;

pub(super) fn read(bytes: &[u8]) -> Result<ArchiveReader, UnfitArchive> {
    let unread = |error: io::Error| UnfitArchive(format!("it cannot be unpacked: {error}"));
    let mut archive = Archive::new(LimitedReader {
        inner: MultiGzDecoder::new(bytes),
        left: MAX_UNPACKED_BYTES,
    });
    let mut sack = ArchiveReader::default();
    for entry in archive.entries().map_err(unread)? {
        let entry = entry.map_err(unread)?;
        let kind = entry.header().entry_type();
        // The global header that `git archive` writes.
        if kind == EntryType::XGlobalHeader {
            continue;
        }
        let raw = entry.path_bytes().into_owned();
        let name = sack.accept_name(&raw)?;
        if kind.is_file() || kind.is_contiguous() {
            if let Some(name) = name {
                sack.add_file(name, entry)?;
            }
        } else if !kind.is_dir() {
            let shown = printable_name(&String::from_utf8_lossy(&raw));
            return Err(UnfitArchive(format!("{shown} is {}", entry_type_name(kind))));
        }
    }
    // Reading to the end verifies the checksum, which follows the archive.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(unread)?;
    Ok(sack)
}

fn entry_type_name(kind: EntryType) -> &'static str {
    if kind.is_symlink() || kind.is_hard_link() {
        "a link"
    } else if kind.is_character_special() || kind.is_block_special() {
        "a device"
    } else if kind.is_fifo() {
        "a pipe"
    } else {
        "neither a plain file nor a folder"
    }
}

/// A reader that fails once its limit is exceeded.
struct LimitedReader<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for LimitedReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(into)?;
        match self.left.checked_sub(count as u64) {
            Some(left) => self.left = left,
            None => {
                return Err(io::Error::other(format!(
                    "there are more than {MAX_UNPACKED_BYTES} bytes in it"
                )));
            }
        }
        Ok(count)
    }
}

/// Packs a skill; the same skill always gives the same bytes.
pub(super) fn pack(name: &str, parts: &SkillFiles, seconds: i64) -> io::Result<Vec<u8>> {
    let mut archive = Builder::new(GzEncoder::new(Vec::new(), Compression::best()));
    for (path, content) in parts {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_mtime(u64::try_from(seconds).unwrap_or(0));
        header.set_size(content.len() as u64);
        archive.append_data(&mut header, format!("{name}/{path}"), content.as_slice())?;
    }
    archive.into_inner()?.finish()
}
