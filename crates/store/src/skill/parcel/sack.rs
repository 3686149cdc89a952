//! The archive reader: collects the files of an archive and checks each name, their number and their size.

use std::collections::BTreeSet;
use std::io::Read;

use ringfence_policy::RelPath;

use super::super::folder::Parts;
use super::super::parts::ambiguous;
use super::super::quota::SKILL_BYTES;

/// The most names in an archive, including folders.
const MOST_NAMES: usize = 512;
/// Names that other programs create in folders by themselves.
const LITTER: [&str; 3] = [".git", ".DS_Store", "__MACOSX"];

/// Why an archive is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unfit(pub(super) String);

/// Collects files within the limits of a skill.
#[derive(Debug, Default)]
pub(super) struct Sack {
    files: Parts,
    names: usize,
    bytes: u64,
    /// Known paths in lower case, because some systems do not distinguish case.
    known: BTreeSet<String>,
    left_out: BTreeSet<String>,
}

impl Sack {
    /// Counts a name and parses it; `None` for the top folder and for ignored names.
    pub(super) fn name(&mut self, raw: &[u8]) -> Result<Option<RelPath>, Unfit> {
        self.names += 1;
        if self.names > MOST_NAMES {
            return Err(Unfit(format!("it has more than {MOST_NAMES} files and folders")));
        }
        let text = std::str::from_utf8(raw).map_err(|_| {
            let shown = String::from_utf8_lossy(raw);
            Unfit(format!("the name {} is no text in UTF-8", shown_as(&shown)))
        })?;
        let refuse = |why: &str| Unfit(format!("the name {} {why}", shown_as(text)));
        let plain = text.strip_prefix("./").unwrap_or(text);
        let plain = plain.strip_suffix('/').unwrap_or(plain);
        if plain.is_empty() || plain == "." {
            return Ok(None);
        }
        if text.starts_with('/') {
            return Err(refuse("begins at the root"));
        }
        if let Some(why) = ambiguous(plain) {
            return Err(refuse(why));
        }
        let path: RelPath = plain
            .parse()
            .map_err(|error: ringfence_policy::PathError| refuse(&format!("is refused: {error}")))?;
        let litter = path.segments().find(|segment| LITTER.contains(segment));
        if let Some(litter) = litter {
            self.left_out.insert(litter.to_owned());
            return Ok(None);
        }
        Ok(Some(path))
    }

    /// Adds a file's content, up to the size limit.
    pub(super) fn put(&mut self, path: RelPath, content: impl Read) -> Result<(), Unfit> {
        if !self.known.insert(path.as_str().to_lowercase()) {
            let text = shown_as(path.as_str());
            return Err(Unfit(format!(
                "the name {text} is there twice, perhaps in other letters"
            )));
        }
        let room = SKILL_BYTES - self.bytes;
        let mut bytes = Vec::new();
        let read = content.take(room + 1).read_to_end(&mut bytes);
        read.map_err(|error| Unfit(format!("{} cannot be unpacked: {error}", shown_as(path.as_str()))))?;
        if bytes.len() as u64 > room {
            return Err(Unfit(format!("it has more than {SKILL_BYTES} bytes when unpacked")));
        }
        self.bytes += bytes.len() as u64;
        self.files.push((path, bytes));
        Ok(())
    }

    /// The collected files, and the names that were skipped.
    pub(super) fn emptied(self) -> (Parts, Vec<String>) {
        (self.files, self.left_out.into_iter().collect())
    }
}

/// A hostile name for a message: shortened, and without control sequences.
pub(super) fn shown_as(name: &str) -> String {
    let short: String = name.chars().take(120).collect();
    format!("`{}`", short.escape_debug())
}
