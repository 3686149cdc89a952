//! The whole of what was cut: where it is, and how it gets there.

use std::path::Path;

use ringfence_journal::ExecutionId;

use crate::engine::Engine;
use crate::error::RunError;
use crate::request::Reader;

/// Addresses of what an execution left, at the front doors.
const LINKS: &str = "ringfence://executions/";

/// What was cut, whole and clean.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Whole {
    /// The value, as JSON.
    pub value: Option<String>,
    /// What was printed.
    pub stdout: Option<String>,
    /// What was printed as errors.
    pub stderr: Option<String>,
}

impl Whole {
    /// How many bytes it has.
    pub(crate) fn weight(&self) -> usize {
        [&self.value, &self.stdout, &self.stderr]
            .into_iter()
            .flatten()
            .map(String::len)
            .sum()
    }
}

impl Engine {
    /// Where the whole of something is that was cut.
    pub(super) fn whole_at(&self, reader: Reader, id: ExecutionId, part: &str) -> String {
        match reader {
            Reader::Owner | Reader::Program | Reader::Client => format!("{LINKS}{id}/{part}"),
            Reader::Printed => self.results(id).join(file_of(part)).display().to_string(),
        }
    }

    /// Writes what was cut to files, for who has only what a command printed.
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
