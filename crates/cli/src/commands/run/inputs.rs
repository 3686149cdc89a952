//! `--file`: the files that are copied into the workspace.

use std::path::{Path, PathBuf};

use ringfence_engine::{InputFile, InputSource};
use ringfence_policy::{RelPath, check_input_files};

use crate::fault::{CliFault, io_error_text};

/// Parses `LOCAL` or `LOCAL:NAME`; a colon that is part of an existing file's name belongs to the name.
pub(crate) fn parse_inputs(given: &[PathBuf]) -> Result<Vec<InputFile>, CliFault> {
    let mut inputs: Vec<InputFile> = Vec::new();
    for word in given {
        let (from, name) = split_name(word);
        let shown = from.display();
        let failed = |why: String| CliFault::internal("files.in", format!("cannot bring `{shown}` in: {why}"));
        let found = std::fs::metadata(&from)
            .map_err(|error| failed(io_error_text(&error)).with_hint("write `--file LOCAL` or `--file LOCAL:NAME`"))?;
        if !found.is_file() {
            let what = if found.is_dir() {
                "it is a folder"
            } else {
                "it is not a plain file"
            };
            return Err(failed(what.to_owned())
                .with_hint("bring files in one by one, or show a folder with a mount: `fs.mounts`"));
        }
        let name = name
            .or_else(|| from.file_name().map(|name| name.to_string_lossy().into_owned()))
            .unwrap_or_default();
        let name: RelPath = name.parse().map_err(|error: ringfence_policy::PathError| {
            failed(error.to_string()).with_hint("choose a plain name: `--file LOCAL:NAME`")
        })?;
        if inputs.iter().any(|other| other.name == name) {
            let fault = failed(format!("there is another file called `{}`", name.as_str()));
            return Err(fault.with_hint("choose another name: `--file LOCAL:NAME`"));
        }
        inputs.push(InputFile {
            from: InputSource::Path(from),
            name,
        });
    }
    let names = inputs.iter().map(|input| input.name.as_str());
    check_input_files(names).map_err(|error| CliFault::refused("files.in", error.to_string()).with_hint(error.hint))?;
    Ok(inputs)
}

fn split_name(word: &Path) -> (PathBuf, Option<String>) {
    match word.to_str().and_then(|text| text.rsplit_once(':')) {
        Some((local, name)) if !local.is_empty() && word.symlink_metadata().is_err() => {
            (local.into(), Some(name.to_owned()))
        }
        _ => (word.to_owned(), None),
    }
}
