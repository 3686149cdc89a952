//! A skill as a `.zip`: plain files and folders only, stored or deflated.

use std::io;

use flate2::Compression;
use flate2::bufread::DeflateDecoder;
use flate2::write::DeflateEncoder;
use rawzip::time::UtcDateTime;
use rawzip::{CompressionMethod, ZipArchive, ZipArchiveWriter, ZipFileHeaderRecord};

use super::super::folder::SkillFiles;
use super::reader::{ArchiveReader, UnfitArchive, printable_name};

/// The bits of a mode that hold the file type.
const MODE_TYPE_MASK: u32 = 0o170_000;
const MODE_FOLDER: u32 = 0o040_000;
const MODE_PLAIN: u32 = 0o100_000;

pub(super) fn read(bytes: &[u8]) -> Result<ArchiveReader, UnfitArchive> {
    let unread = |error: rawzip::Error| UnfitArchive(format!("it cannot be unpacked: {error}"));
    let archive = ZipArchive::from_slice(bytes).map_err(unread)?;
    let mut entries = archive.entries();
    let mut sack = ArchiveReader::default();
    let mut count = 0;
    while let Some(entry) = entries.next_entry().map_err(unread)? {
        count += 1;
        let name = sack.accept_name(entry.file_path().as_bytes())?;
        let shown = || printable_name(&String::from_utf8_lossy(entry.file_path().as_bytes()));
        if !is_plain(&entry) {
            return Err(UnfitArchive(format!(
                "{} is neither a plain file nor a folder",
                shown()
            )));
        }
        let (false, Some(name)) = (entry.is_dir(), name) else {
            continue;
        };
        if entry.flags().is_encrypted() || entry.flags().has_strong_encryption() {
            return Err(UnfitArchive(format!("{} is encrypted", shown())));
        }
        let content = archive.get_entry(entry.wayfinder()).map_err(unread)?;
        match entry.compression_method() {
            CompressionMethod::STORE => sack.add_file(name, content.verifying_reader(content.data()))?,
            CompressionMethod::DEFLATE => {
                sack.add_file(name, content.verifying_reader(DeflateDecoder::new(content.data())))?;
            }
            other => return Err(UnfitArchive(format!("{} is packed by {other}, not deflate", shown()))),
        }
    }
    // A truncated central directory reads like a complete one.
    if count != archive.entries_hint() {
        return Err(UnfitArchive("its list of files is not complete".to_owned()));
    }
    Ok(sack)
}

/// Whether an entry has the type that its name implies, whatever system wrote it.
fn is_plain(entry: &ZipFileHeaderRecord<'_>) -> bool {
    match (entry.external_attributes() >> 16) & MODE_TYPE_MASK {
        0 => true,
        MODE_PLAIN => !entry.is_dir(),
        MODE_FOLDER => entry.is_dir(),
        _ => false,
    }
}

/// Packs a skill; the same skill always gives the same bytes.
pub(super) fn pack(name: &str, parts: &SkillFiles, seconds: i64) -> io::Result<Vec<u8>> {
    let mut archive = ZipArchiveWriter::new(Vec::new());
    let odd = |error: rawzip::Error| io::Error::other(error.to_string());
    for (path, content) in parts {
        let path = format!("{name}/{path}");
        let (mut entry, config) = archive
            .new_file(&path)
            .compression_method(CompressionMethod::DEFLATE)
            .last_modified(UtcDateTime::from_unix(seconds))
            .unix_permissions(MODE_PLAIN | 0o644)
            .start()
            .map_err(odd)?;
        let mut writer = config.wrap(DeflateEncoder::new(&mut entry, Compression::best()));
        io::Write::write_all(&mut writer, content)?;
        let (encoder, descriptor) = writer.finish().map_err(odd)?;
        encoder.finish()?;
        entry.finish(descriptor).map_err(odd)?;
    }
    archive.finish().map_err(odd)
}
