//! Generalizes URL paths to a few patterns: a folder with many requested paths becomes a pattern.

use std::collections::{BTreeMap, BTreeSet};

/// The most paths of one folder that a rule lists before the folder replaces them.
const FOLDER_THRESHOLD: usize = 5;
/// The numbers of patterns in one rule above which they are widened, and above which they are left out.
const WIDEN_THRESHOLD: usize = 20;
const MAX_PATTERNS: usize = 50;

/// The paths as patterns; `None` if there are too many to name.
pub(super) fn generalize_paths(paths: &BTreeSet<String>) -> Option<Vec<String>> {
    let all = |path: &str| path.to_owned();
    let mut patterns = fold_into_folders(paths, |path| path.rsplit_once('/').map(|(folder, _)| all(folder)), "*");
    if patterns.len() > WIDEN_THRESHOLD {
        let top = |path: &str| {
            let (first, rest) = path.strip_prefix('/')?.split_once('/')?;
            (!rest.is_empty()).then(|| format!("/{first}"))
        };
        patterns = fold_into_folders(&patterns, top, "**");
    }
    (patterns.len() <= MAX_PATTERNS).then(|| patterns.into_iter().collect())
}

/// Replaces the paths of each folder that has many by `folder/WILDCARD`.
fn fold_into_folders(
    paths: &BTreeSet<String>,
    folder: impl Fn(&str) -> Option<String>,
    wildcard: &str,
) -> BTreeSet<String> {
    let mut folders: BTreeMap<Option<String>, Vec<&String>> = BTreeMap::new();
    for path in paths {
        folders.entry(folder(path)).or_default().push(path);
    }
    let mut patterns = BTreeSet::new();
    for (folder, paths) in folders {
        match folder {
            Some(folder) if paths.len() > FOLDER_THRESHOLD => drop(patterns.insert(format!("{folder}/{wildcard}"))),
            _ => patterns.extend(paths.into_iter().cloned()),
        }
    }
    patterns
}
