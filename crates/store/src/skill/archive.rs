//! Import and export of skills: as a folder, a `.tar.gz` or a `.zip`.
//!
//! Input is hostile: every name is checked before use, only plain files are accepted, and nothing is unpacked beyond the limits of a skill.
//! It is held in memory; nothing is written to disk until it is saved as a skill.

mod directory;
mod reader;
mod tarball;
mod zip;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use ringfence_policy::RelPath;

use self::reader::{ArchiveReader, UnfitArchive};
use super::folder::{MANIFEST, SkillFiles, io_failure};
use super::layout::FILES_PREFIX;
use super::{SkillBody, SkillError, SkillLanguage, SkillMeta, format, layout};

/// The most bytes of an archive before unpacking.
const MAX_PACKED_BYTES: u64 = 4 << 20;

/// A skill that is imported or exported.
#[derive(Debug, Clone, PartialEq)]
pub struct SkillArchive {
    /// The metadata from its `SKILL.md`.
    pub meta: SkillMeta,
    /// Its program and files.
    pub body: SkillBody,
    /// Names that were skipped: files that other programs create by themselves.
    pub left_out: Vec<String>,
}

/// The archive format of a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ArchiveFormat {
    Folder,
    TarGz,
    Zip,
}

impl ArchiveFormat {
    fn from_path(path: &Path) -> ArchiveFormat {
        let end = |path: &Path| path.extension().unwrap_or_default().to_ascii_lowercase();
        match end(path).to_str() {
            Some("tgz") => ArchiveFormat::TarGz,
            Some("zip") => ArchiveFormat::Zip,
            Some("gz") if path.file_stem().is_some_and(|stem| end(Path::new(stem)) == "tar") => ArchiveFormat::TarGz,
            _ => ArchiveFormat::Folder,
        }
    }
}

impl SkillArchive {
    /// Reads a folder or archive. `program` names the program file, if none is called `program`.
    pub fn open(path: &Path, program: Option<&str>) -> Result<SkillArchive, SkillError> {
        let sack = read_archive(path).map_err(|UnfitArchive(why)| SkillError::Archive {
            path: path.to_owned(),
            why,
        })?;
        let (files, left_out) = sack.into_files();
        let (meta, body) = parse_files(files, program)?;
        Ok(SkillArchive { meta, body, left_out })
    }

    /// Writes the skill to a path that does not exist yet: as an archive according to its extension, else as a folder. If the path is an
    /// existing folder, the skill becomes a folder in it. Returns the path.
    pub fn write(self, to: &Path, saved: Timestamp) -> Result<PathBuf, SkillError> {
        let name = self.meta.name.as_str().to_owned();
        let parts = layout::to_files(&self.meta, self.body)?;
        let packing = ArchiveFormat::from_path(to);
        let place = if packing == ArchiveFormat::Folder && to.is_dir() {
            to.join(&name)
        } else {
            to.to_owned()
        };
        let seconds = saved.as_second();
        let written = match packing {
            ArchiveFormat::Folder => directory::write(&place, &parts),
            ArchiveFormat::TarGz => {
                tarball::pack(&name, &parts, seconds).and_then(|bytes| ringfence_disk::create_file(&place, &bytes))
            }
            ArchiveFormat::Zip => {
                zip::pack(&name, &parts, seconds).and_then(|bytes| ringfence_disk::create_file(&place, &bytes))
            }
        };
        written.map_err(io_failure("write", &place))?;
        Ok(place)
    }
}

/// Reads all files of a folder or archive.
fn read_archive(path: &Path) -> Result<ArchiveReader, UnfitArchive> {
    let unread = |error: io::Error| UnfitArchive(format!("it cannot be read: {error}"));
    let data = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(UnfitArchive("there is no such file or folder".to_owned()));
        }
        data => data.map_err(unread)?,
    };
    if data.is_dir() {
        return directory::read(path);
    }
    if !data.is_file() {
        return Err(UnfitArchive("it is neither a folder nor a file".to_owned()));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unread)?;
    file.take(MAX_PACKED_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(unread)?;
    if bytes.len() as u64 > MAX_PACKED_BYTES {
        return Err(UnfitArchive(format!("it has more than {MAX_PACKED_BYTES} bytes")));
    }
    match bytes.as_slice() {
        [0x1f, 0x8b, ..] => tarball::read(&bytes),
        [b'P', b'K', ..] => zip::read(&bytes),
        _ => Err(UnfitArchive("it is neither a `.tar.gz` nor a `.zip`".to_owned())),
    }
}

/// Interprets the files of a skill folder.
fn parse_files(files: SkillFiles, program: Option<&str>) -> Result<(SkillMeta, SkillBody), SkillError> {
    let mut files = strip_top_folder(files);
    files.retain(|(path, _)| path.as_str() != MANIFEST);
    let front = take_file(&mut files, format::SKILL_FILE).or_else(|| take_file(&mut files, "skill.md"));
    let front = front.ok_or_else(|| SkillError::format("`SKILL.md`", "it is not at the top of the folder"))?;
    let (language, path) = choose_program(&files, program)?;
    let source = take_file(&mut files, &path).unwrap_or_default();
    let text = |what: &str, bytes| {
        String::from_utf8(bytes).map_err(|_| SkillError::format(format!("`{what}`"), "it is no text in UTF-8"))
    };
    let meta = format::read_skill_md(&text(format::SKILL_FILE, front)?, language)?;
    let body = SkillBody {
        source: text(&path, source)?,
        files: files
            .into_iter()
            .map(|(path, content)| (without_files_prefix(path), content))
            .collect(),
    };
    Ok((meta, body))
}

/// Removes the single top folder that archives often have.
fn strip_top_folder(files: SkillFiles) -> SkillFiles {
    let first = |path: &RelPath| path.segments().next().map(str::to_owned);
    let around = files.first().and_then(|(path, _)| first(path));
    let is_around = |(path, _): &(RelPath, Vec<u8>)| path.as_str().contains('/') && first(path) == around;
    if !files.iter().all(is_around) {
        return files;
    }
    let without = |(path, content): (RelPath, Vec<u8>)| {
        let rest = path.as_str().split_once('/').and_then(|(_, rest)| rest.parse().ok());
        (rest.unwrap_or(path), content)
    };
    files.into_iter().map(without).collect()
}

fn take_file(files: &mut SkillFiles, path: &str) -> Option<Vec<u8>> {
    let at = files.iter().position(|(known, _)| known.as_str() == path)?;
    Some(files.swap_remove(at).1)
}

/// Determines which file is the program.
fn choose_program(files: &SkillFiles, program: Option<&str>) -> Result<(SkillLanguage, String), SkillError> {
    let is_there = |path: &str| files.iter().any(|(known, _)| known.as_str() == path);
    if let Some(path) = program {
        if !is_there(path) {
            return Err(SkillError::format(
                format!("`{path}`"),
                "there is no such file in the skill",
            ));
        }
        let language = SkillLanguage::from_file(Path::new(path))
            .ok_or_else(|| SkillError::format(format!("`{path}`"), "a program ends in .ts, .js, .py or .sh"))?;
        return Ok((language, path.to_owned()));
    }
    let mut found = SkillLanguage::ALL
        .into_iter()
        .filter(|language| is_there(language.program_file()));
    match (found.next(), found.next()) {
        (Some(language), None) => Ok((language, language.program_file().to_owned())),
        (Some(one), Some(other)) => {
            let why = format!("there is `{}` too; a skill has one program", other.program_file());
            Err(SkillError::format(format!("`{}`", one.program_file()), why))
        }
        (None, _) => {
            let why = "`program.ts`, `.js`, `.py` or `.sh` is missing; `--program PATH` takes another file of it";
            Err(SkillError::format("the program", why))
        }
    }
}

/// The path of a file as the program sees it, without the prefix of the skill folder.
fn without_files_prefix(path: RelPath) -> RelPath {
    let rest = path
        .as_str()
        .strip_prefix(FILES_PREFIX)
        .and_then(|rest| rest.parse().ok());
    rest.unwrap_or(path)
}

#[cfg(test)]
mod tests;
