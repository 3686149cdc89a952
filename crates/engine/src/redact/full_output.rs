//! The full output of truncated results: where it is, and how it is saved.

use std::path::Path;

use ringfence_journal::ExecutionId;

use super::ResultRenderer;
use crate::error::OperationError;
use crate::request::ResultAudience;

/// The prefix of the addresses of results at the front doors.
const RESOURCE_PREFIX: &str = "ringfence://executions/";

/// The full output of what was cut, redacted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FullOutput {
    /// The value as JSON; none where it was not cut.
    pub value: Option<String>,
    /// Standard output; none where it was not cut.
    pub stdout: Option<String>,
    /// Standard error; none where it was not cut.
    pub stderr: Option<String>,
}

impl FullOutput {
    /// The bytes of all parts together.
    pub(crate) fn byte_size(&self) -> usize {
        [&self.value, &self.stdout, &self.stderr]
            .into_iter()
            .flatten()
            .map(String::len)
            .sum()
    }
}

impl ResultRenderer {
    /// The location of the full output of a part, as the notice of the cut names it.
    pub(crate) fn full_output_location(&self, reader: ResultAudience, id: ExecutionId, part: &str) -> String {
        match reader {
            ResultAudience::Owner | ResultAudience::Program | ResultAudience::Client => {
                format!("{RESOURCE_PREFIX}{id}/{part}")
            }
            ResultAudience::CommandModel => self
                .records
                .data
                .results(id)
                .join(part_file_name(part))
                .display()
                .to_string(),
        }
    }

    /// Saves the full output to files, for readers who have only what a command printed.
    pub(crate) async fn save_full_output(&self, id: ExecutionId, whole: &FullOutput) -> Result<(), OperationError> {
        let folder = self.records.data.results(id);
        let parts = [
            ("value", whole.value.clone()),
            ("stdout", whole.stdout.clone()),
            ("stderr", whole.stderr.clone()),
        ];
        let written = tokio::task::spawn_blocking(move || {
            make_private(&folder)?;
            for (part, text) in parts {
                if let Some(text) = text {
                    std::fs::write(folder.join(part_file_name(part)), text)?;
                }
            }
            Ok(())
        });
        written
            .await
            .unwrap_or_else(|error| Err(std::io::Error::other(error)))
            .map_err(OperationError::FullOutput)
    }
}

fn part_file_name(part: &str) -> &str {
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
