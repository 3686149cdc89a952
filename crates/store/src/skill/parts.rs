//! The file layout of a skill folder: converts a skill to its files and back.

use std::collections::BTreeSet;
use std::path::Path;

use ringfence_policy::RelPath;

use super::folder::{self, Fault, List, Parts};
use super::{SkillBody, SkillError, SkillLanguage, SkillMeta, format};

/// The folder prefix of a skill's own files.
pub(super) const FILES: &str = "files/";
/// The most bytes of a file's path.
const MOST_PATH: usize = 512;

/// A function that opens a version, completely or in part.
pub(super) type Open<T> = fn(&Path) -> Result<(List, SkillMeta, T), Fault>;

/// Opens the metadata of a version.
pub(super) fn head(folder: &Path) -> Result<(List, SkillMeta, ()), Fault> {
    let list = folder::list(folder)?;
    let text = folder::file(folder, &list, format::FILE)?;
    let meta = meta_of(&list, &text)?;
    Ok((list, meta, ()))
}

/// Opens a complete version.
pub(super) fn whole(folder: &Path) -> Result<(List, SkillMeta, SkillBody), Fault> {
    let list = folder::list(folder)?;
    let parts = folder::everything(folder, &list)?;
    let of = |path: &str| parts.iter().find(|(known, _)| known.as_str() == path);
    let text = of(format::FILE)
        .map(|(_, content)| content.as_slice())
        .unwrap_or_default();
    let meta = meta_of(&list, text)?;
    let program = of(meta.language.program()).map(|(_, content)| content.clone());
    let source = String::from_utf8(program.unwrap_or_default());
    let source = source.map_err(|_| Fault("its program is no text".to_owned()))?;
    let inside = |(path, content): (RelPath, Vec<u8>)| {
        let path = path.as_str().strip_prefix(FILES)?.parse().ok()?;
        Some((path, content))
    };
    let files = parts.into_iter().filter_map(inside).collect();
    Ok((list, meta, SkillBody { source, files }))
}

fn meta_of(list: &List, text: &[u8]) -> Result<SkillMeta, Fault> {
    let is_there = |language: &SkillLanguage| list.paths().any(|path| path.as_str() == language.program());
    let language = SkillLanguage::ALL.into_iter().find(is_there);
    let language = language.ok_or_else(|| Fault("it has no program".to_owned()))?;
    let text = std::str::from_utf8(text).map_err(|_| Fault("its SKILL.md is no text".to_owned()))?;
    format::read(text, language).map_err(|error| Fault(error.to_string()))
}

/// Converts a skill to the files of its folder.
pub(super) fn of(meta: &SkillMeta, body: SkillBody) -> Result<Parts, SkillError> {
    let named = |path: String| {
        let odd = |error: ringfence_policy::PathError| SkillError::format(format!("`{path}`"), error.to_string());
        path.parse::<RelPath>().map_err(odd)
    };
    let mut parts = vec![
        (named(format::FILE.to_owned())?, format::write(meta)?.into_bytes()),
        (named(meta.language.program().to_owned())?, body.source.into_bytes()),
    ];
    for (path, content) in body.files {
        if path.as_str().len() > MOST_PATH {
            let why = format!("a path has at most {MOST_PATH} bytes");
            return Err(SkillError::format(format!("`{path}`"), why));
        }
        if let Some(why) = ambiguous(path.as_str()) {
            return Err(SkillError::format(format!("`{path}`"), format!("the name {why}")));
        }
        parts.push((named(format!("{FILES}{path}"))?, content));
    }
    apart(&parts)?;
    Ok(parts)
}

/// Why a path has another meaning on other systems, if it has.
pub(super) fn ambiguous(path: &str) -> Option<&'static str> {
    if path.contains('\\') {
        Some("has a backslash, which is a folder on some systems")
    } else if path.as_bytes().get(1) == Some(&b':') {
        Some("begins with a drive")
    } else {
        None
    }
}

/// Refuses paths that are the same file on some systems, or a file and a folder at once.
fn apart(parts: &Parts) -> Result<(), SkillError> {
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
