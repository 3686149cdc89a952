//! `--file`: the files that are copied into the workspace.

use std::path::{Path, PathBuf};

use ringfence_engine::{Input, Source};
use ringfence_policy::{RelPath, check_input_files};

use crate::fault::{Fault, reason};

/// Parses `LOCAL` or `LOCAL:NAME`; a colon that is part of an existing file's name belongs to the name.
pub(crate) fn inputs(given: &[PathBuf]) -> Result<Vec<Input>, Fault> {
    let mut inputs: Vec<Input> = Vec::new();
    for word in given {
        let (from, name) = split(word);
        let shown = from.display();
        let failed = |why: String| Fault::ours("files.in", format!("cannot bring `{shown}` in: {why}"));
        let found = std::fs::metadata(&from)
            .map_err(|error| failed(reason(&error)).hint("write `--file LOCAL` or `--file LOCAL:NAME`"))?;
        if !found.is_file() {
            let what = if found.is_dir() {
                "it is a folder"
            } else {
                "it is not a plain file"
            };
            return Err(
                failed(what.to_owned()).hint("bring files in one by one, or show a folder with a mount: `fs.mounts`")
            );
        }
        let name = name
            .or_else(|| from.file_name().map(|name| name.to_string_lossy().into_owned()))
            .unwrap_or_default();
        let name: RelPath = name.parse().map_err(|error: ringfence_policy::PathError| {
            failed(error.to_string()).hint("choose a plain name: `--file LOCAL:NAME`")
        })?;
        if inputs.iter().any(|other| other.name == name) {
            let fault = failed(format!("there is another file called `{}`", name.as_str()));
            return Err(fault.hint("choose another name: `--file LOCAL:NAME`"));
        }
        inputs.push(Input {
            from: Source::Path(from),
            name,
        });
    }
    let names = inputs.iter().map(|input| input.name.as_str());
    check_input_files(names).map_err(|error| Fault::refused("files.in", error.to_string()).hint(error.hint))?;
    Ok(inputs)
}

fn split(word: &Path) -> (PathBuf, Option<String>) {
    match word.to_str().and_then(|text| text.rsplit_once(':')) {
        Some((local, name)) if !local.is_empty() && word.symlink_metadata().is_err() => {
            (local.into(), Some(name.to_owned()))
        }
        _ => (word.to_owned(), None),
    }
}
