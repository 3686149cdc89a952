//! The file layout of a skill folder: converts a skill to its files and back.

use std::collections::BTreeSet;
use std::path::Path;

use ringfence_policy::RelPath;

use super::folder::{self, SkillDamage, SkillFiles, SkillManifest};
use super::{SkillBody, SkillError, SkillLanguage, SkillMeta, format};

/// The folder prefix of a skill's own files.
pub(super) const FILES_PREFIX: &str = "files/";
/// The most bytes of a file's path.
const MAX_PATH_BYTES: usize = 512;

/// A function that opens a version, completely or in part.
pub(super) type VersionOpener<T> = fn(&Path) -> Result<(SkillManifest, SkillMeta, T), SkillDamage>;

/// Opens the metadata of a version.
pub(super) fn open_meta(folder: &Path) -> Result<(SkillManifest, SkillMeta, ()), SkillDamage> {
    let list = folder::read_manifest(folder)?;
    let text = folder::read_file(folder, &list, format::SKILL_FILE)?;
    let meta = parse_meta(&list, &text)?;
    Ok((list, meta, ()))
}

/// Opens the metadata of a version, with every file checked.
pub(super) fn open_checked(folder: &Path) -> Result<(SkillManifest, SkillMeta, ()), SkillDamage> {
    open_complete(folder).map(|(list, meta, _)| (list, meta, ()))
}

/// Opens a complete version.
pub(super) fn open_complete(folder: &Path) -> Result<(SkillManifest, SkillMeta, SkillBody), SkillDamage> {
    let list = folder::read_manifest(folder)?;
    let parts = folder::read_all(folder, &list)?;
    let of = |path: &str| parts.iter().find(|(known, _)| known.as_str() == path);
    let text = of(format::SKILL_FILE)
        .map(|(_, content)| content.as_slice())
        .unwrap_or_default();
    let meta = parse_meta(&list, text)?;
    let program = of(meta.language.program_file()).map(|(_, content)| content.clone());
    let source = String::from_utf8(program.unwrap_or_default());
    let source = source.map_err(|_| SkillDamage("its program is no text".to_owned()))?;
    let inside = |(path, content): (RelPath, Vec<u8>)| {
        let path = path.as_str().strip_prefix(FILES_PREFIX)?.parse().ok()?;
        Some((path, content))
    };
    let files = parts.into_iter().filter_map(inside).collect();
    Ok((list, meta, SkillBody { source, files }))
}

fn parse_meta(list: &SkillManifest, text: &[u8]) -> Result<SkillMeta, SkillDamage> {
    let is_there = |language: &SkillLanguage| list.paths().any(|path| path.as_str() == language.program_file());
    let language = SkillLanguage::ALL.into_iter().find(is_there);
    let language = language.ok_or_else(|| SkillDamage("it has no program".to_owned()))?;
    let text = std::str::from_utf8(text).map_err(|_| SkillDamage("its SKILL.md is no text".to_owned()))?;
    format::read_skill_md(text, language).map_err(|error| SkillDamage(error.to_string()))
}

/// Converts a skill to the files of its folder.
pub(super) fn to_files(meta: &SkillMeta, body: SkillBody) -> Result<SkillFiles, SkillError> {
    let named = |path: String| {
        let odd = |error: ringfence_policy::PathError| SkillError::format(format!("`{path}`"), error.to_string());
        path.parse::<RelPath>().map_err(odd)
    };
    let mut parts = vec![
        (
            named(format::SKILL_FILE.to_owned())?,
            format::write_skill_md(meta)?.into_bytes(),
        ),
        (
            named(meta.language.program_file().to_owned())?,
            body.source.into_bytes(),
        ),
    ];
    for (path, content) in body.files {
        if path.as_str().len() > MAX_PATH_BYTES {
            let why = format!("a path has at most {MAX_PATH_BYTES} bytes");
            return Err(SkillError::format(format!("`{path}`"), why));
        }
        if let Some(why) = portability_issue(path.as_str()) {
            return Err(SkillError::format(format!("`{path}`"), format!("the name {why}")));
        }
        parts.push((named(format!("{FILES_PREFIX}{path}"))?, content));
    }
    check_distinct_paths(&parts)?;
    Ok(parts)
}

/// Why a path has another meaning on other systems, if it has.
pub(super) fn portability_issue(path: &str) -> Option<&'static str> {
    if path.contains('\\') {
        Some("has a backslash, which is a folder on some systems")
    } else if path.as_bytes().get(1) == Some(&b':') {
        Some("begins with a drive")
    } else {
        None
    }
}

/// Refuses paths that are the same file on some systems, or a file and a folder at once.
fn check_distinct_paths(parts: &SkillFiles) -> Result<(), SkillError> {
    let mut files = BTreeSet::new();
    let mut folders = BTreeSet::new();
    for (path, _) in parts {
        let path = path.as_str().to_lowercase();
        let above = path.match_indices('/').map(|(at, _)| path[..at].to_owned());
        folders.extend(above);
        if !files.insert(path.clone()) {
            return Err(SkillError::format(
                format!("`{path}`"),
                "two files have this name, but for large and small letters",
            ));
        }
    }
    match files.intersection(&folders).next() {
        Some(path) => Err(SkillError::format(
            format!("`{path}`"),
            "it is both a file and a folder",
        )),
        None => Ok(()),
    }
}
