//! The archive reader: collects the files of an archive and checks each name, their number and their size.

use std::collections::BTreeSet;
use std::io::Read;

use ringfence_policy::RelPath;

use super::super::folder::SkillFiles;
use super::super::layout::portability_issue;
use super::super::quota::MAX_SKILL_BYTES;

/// The most names in an archive, including folders.
const MAX_NAMES: usize = 512;
/// Names that other programs create in folders by themselves.
const IGNORED_NAMES: [&str; 3] = [".git", ".DS_Store", "__MACOSX"];

/// Why an archive is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnfitArchive(pub(super) String);

/// Collects files within the limits of a skill.
#[derive(Debug, Default)]
pub(super) struct ArchiveReader {
    files: SkillFiles,
    names: usize,
    bytes: u64,
    /// Known paths in lower case, because some systems do not distinguish case.
    known: BTreeSet<String>,
    left_out: BTreeSet<String>,
}

impl ArchiveReader {
    /// Counts a name and parses it; `None` for the top folder and for ignored names.
    pub(super) fn accept_name(&mut self, raw: &[u8]) -> Result<Option<RelPath>, UnfitArchive> {
        self.names += 1;
        if self.names > MAX_NAMES {
            return Err(UnfitArchive(format!("it has more than {MAX_NAMES} files and folders")));
        }
        let text = std::str::from_utf8(raw).map_err(|_| {
            let shown = String::from_utf8_lossy(raw);
            UnfitArchive(format!("the name {} is no text in UTF-8", printable_name(&shown)))
        })?;
        let refuse = |why: &str| UnfitArchive(format!("the name {} {why}", printable_name(text)));
        let plain = text.strip_prefix("./").unwrap_or(text);
        let plain = plain.strip_suffix('/').unwrap_or(plain);
        if plain.is_empty() || plain == "." {
            return Ok(None);
        }
        if text.starts_with('/') {
            return Err(refuse("begins at the root"));
        }
        if let Some(why) = portability_issue(plain) {
            return Err(refuse(why));
        }
        let path: RelPath = plain
            .parse()
            .map_err(|error: ringfence_policy::PathError| refuse(&format!("is refused: {error}")))?;
        let litter = path.segments().find(|segment| IGNORED_NAMES.contains(segment));
        if let Some(litter) = litter {
            self.left_out.insert(litter.to_owned());
            return Ok(None);
        }
        Ok(Some(path))
    }

    /// Adds a file's content, up to the size limit.
    pub(super) fn add_file(&mut self, path: RelPath, content: impl Read) -> Result<(), UnfitArchive> {
        if !self.known.insert(path.as_str().to_lowercase()) {
            let text = printable_name(path.as_str());
            return Err(UnfitArchive(format!(
                "the name {text} is there twice, perhaps in other letters"
            )));
        }
        let room = MAX_SKILL_BYTES - self.bytes;
        let mut bytes = Vec::new();
        let read = content.take(room + 1).read_to_end(&mut bytes);
        read.map_err(|error| UnfitArchive(format!("{} cannot be unpacked: {error}", printable_name(path.as_str()))))?;
        if bytes.len() as u64 > room {
            return Err(UnfitArchive(format!(
                "it has more than {MAX_SKILL_BYTES} bytes when unpacked"
            )));
        }
        self.bytes += bytes.len() as u64;
        self.files.push((path, bytes));
        Ok(())
    }

    /// The collected files, and the names that were skipped.
    pub(super) fn into_files(self) -> (SkillFiles, Vec<String>) {
        (self.files, self.left_out.into_iter().collect())
    }
}

/// A hostile name for a message: shortened, and without control sequences.
pub(super) fn printable_name(name: &str) -> String {
    let short: String = name.chars().take(120).collect();
    format!("`{}`", short.escape_debug())
}
