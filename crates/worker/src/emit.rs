//! Files that a program emits with its result: which ones it has emitted, and their media types.

use ringfence_wire::{EmittedFile, MAX_EMITTED_FILES};

/// The media type of a file whose name does not tell it.
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// Media types by the lower-case ending of the name.
const MEDIA_TYPES: [(&str, &str); 28] = [
    ("csv", "text/csv"),
    ("tsv", "text/tab-separated-values"),
    ("txt", "text/plain"),
    ("log", "text/plain"),
    ("md", "text/markdown"),
    ("html", "text/html"),
    ("htm", "text/html"),
    ("css", "text/css"),
    ("js", "text/javascript"),
    ("py", "text/x-python"),
    ("json", "application/json"),
    ("jsonl", "application/x-ndjson"),
    ("ndjson", "application/x-ndjson"),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("pdf", "application/pdf"),
    ("zip", "application/zip"),
    ("gz", "application/gzip"),
    ("parquet", "application/vnd.apache.parquet"),
    (
        "xlsx",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ),
    (
        "docx",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("svg", "image/svg+xml"),
];

/// The media type of a file, from its name.
pub(crate) fn media_type(path: &str) -> &'static str {
    let name = path.rsplit('/').next().unwrap_or(path);
    let Some((_, ending)) = name.rsplit_once('.') else {
        return UNKNOWN_TYPE;
    };
    let known = MEDIA_TYPES.iter().find(|(known, _)| known.eq_ignore_ascii_case(ending));
    known.map_or(UNKNOWN_TYPE, |(_, media_type)| media_type)
}

/// The files that a program has emitted.
#[derive(Debug, Default)]
pub(crate) struct EmitLog(Vec<EmittedFile>);

impl EmitLog {
    /// Whether the file may be emitted. A repeated file is always accepted.
    pub(crate) fn accepts(&self, emit: &EmittedFile) -> bool {
        self.0.len() < MAX_EMITTED_FILES || self.0.contains(emit)
    }

    /// Adds the file. Returns whether it is new, so that the host must be told.
    pub(crate) fn add(&mut self, emit: &EmittedFile) -> bool {
        let is_new = !self.0.contains(emit);
        if is_new {
            self.0.push(emit.clone());
        }
        is_new
    }
}

#[cfg(test)]
mod tests;
