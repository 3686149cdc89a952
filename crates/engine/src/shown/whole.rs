//! The full output of truncated results: where it is, and how it is saved.

use std::path::Path;

use ringfence_journal::ExecutionId;

use crate::engine::Engine;
use crate::error::RunError;
use crate::request::Reader;

/// The prefix of the addresses of results at the front doors.
const LINKS: &str = "ringfence://executions/";

/// The full output of what was cut, redacted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Whole {
    /// The value as JSON; none where it was not cut.
    pub value: Option<String>,
    /// Standard output; none where it was not cut.
    pub stdout: Option<String>,
    /// Standard error; none where it was not cut.
    pub stderr: Option<String>,
}

impl Whole {
    /// The bytes of all parts together.
    pub(crate) fn weight(&self) -> usize {
        [&self.value, &self.stdout, &self.stderr]
            .into_iter()
            .flatten()
            .map(String::len)
            .sum()
    }
}

impl Engine {
    /// The location of the full output of a part, as the notice of the cut names it.
    pub(super) fn whole_at(&self, reader: Reader, id: ExecutionId, part: &str) -> String {
        match reader {
            Reader::Owner | Reader::Program | Reader::Client => format!("{LINKS}{id}/{part}"),
            Reader::Printed => self.results(id).join(file_of(part)).display().to_string(),
        }
    }

    /// Saves the full output to files, for readers who have only what a command printed.
    pub(super) async fn keep_whole(&self, id: ExecutionId, whole: &Whole) -> Result<(), RunError> {
        let folder = self.results(id);
        let parts = [
            ("value", whole.value.clone()),
            ("stdout", whole.stdout.clone()),
            ("stderr", whole.stderr.clone()),
        ];
        let written = tokio::task::spawn_blocking(move || {
            make_private(&folder)?;
            for (part, text) in parts {
                if let Some(text) = text {
                    std::fs::write(folder.join(file_of(part)), text)?;
                }
            }
            Ok(())
        });
        written
            .await
            .unwrap_or_else(|error| Err(std::io::Error::other(error)))
            .map_err(RunError::Whole)
    }
}

fn file_of(part: &str) -> &str {
    match part {
        "value" => "value.json",
        "stdout" => "stdout.txt",
        _ => "stderr.txt",
    }
}

fn make_private(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
