//! Clients read an output while it grows. Each part is redacted once for all of them, with the text before it as context: the cost depends
//! on what is new, not on the length of the output or the number of readers.

use std::sync::Arc;

use ringfence_gateway::{RedactionError, RedactionRules};
use ringfence_hygiene::{KeptPart, TextCap, carry};

use super::ResultRenderer;
use crate::engine::lock;
use crate::output::ProgramStream;
use crate::redact::{clean_text, text_limits};
use crate::runs::output_buffer::OutputCursor;
use crate::runs::registry::{OutputFrom, TrackedRun, WaitError};

/// Positions between parts that are remembered. A reader at another position gets the same text, with more work.
const MAX_BOUNDARIES: usize = 4096;

/// The redacted text of both outputs of a run.
#[derive(Debug, Default)]
pub(crate) struct RedactedOutputs {
    /// The digest of the policy that it was redacted under.
    policy: String,
    stdout: RedactedStream,
    stderr: RedactedStream,
    /// The cursor of readers that ask for new output only.
    asked: OutputCursor,
}

/// The output that a reader gets, and the cursor for its next read.
#[derive(Debug)]
pub(crate) struct OutputChunk {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) next: OutputCursor,
}

/// The redacted text of one output.
#[derive(Debug, Default)]
pub(crate) struct RedactedStream {
    /// The bytes of the output that are redacted.
    raw: usize,
    /// The end of the text, as context for the next part.
    carried: String,
    /// The redacted text so far.
    text: String,
    /// The ends of parts: bytes of the output, bytes of the redacted text.
    places: Vec<(usize, usize)>,
    /// The end of the last withheld part, in bytes of the output.
    held: usize,
}

/// A part to redact, with the context before it.
#[derive(Debug)]
pub(crate) struct PendingPart {
    pub(crate) text: String,
    pub(crate) from: usize,
    raw: usize,
}

impl RedactedStream {
    /// Makes the next part from new bytes of the output.
    pub(crate) fn next_part(&self, bytes: &[u8]) -> PendingPart {
        let mut text = self.carried.clone();
        text.push_str(&clean_text(&String::from_utf8_lossy(bytes)));
        PendingPart {
            text,
            from: self.carried.len(),
            raw: bytes.len(),
        }
    }

    /// Appends the redacted text of a part; none: the part is withheld.
    pub(crate) fn append(&mut self, part: &PendingPart, shown: Option<&str>) {
        self.raw += part.raw;
        match shown {
            Some(shown) => self.text.push_str(shown),
            None => self.held = self.raw,
        }
        self.carried = carry(&part.text);
        self.places.push((self.raw, self.text.len()));
        if self.places.len() > MAX_BOUNDARIES {
            let mut number = 0_usize;
            self.places.retain(|_| {
                number += 1;
                number.is_multiple_of(2)
            });
        }
    }

    /// The redacted text after a position; none: no part ended there.
    pub(crate) fn after(&self, from: usize) -> Option<&str> {
        if from >= self.raw || from < self.held {
            return Some("");
        }
        if from == 0 {
            return Some(&self.text);
        }
        let at = self.places.binary_search_by_key(&from, |(raw, _)| *raw).ok()?;
        self.text.get(self.places.get(at)?.1..)
    }
}

impl RedactedOutputs {
    fn stream_mut(&mut self, stream: ProgramStream) -> &mut RedactedStream {
        match stream {
            ProgramStream::Stdout => &mut self.stdout,
            ProgramStream::Stderr => &mut self.stderr,
        }
    }
}

impl ResultRenderer {
    /// The output of a run as clients see it, in whole lines until the run ends: half a line may be half of a value that must not be shown.
    pub(crate) async fn redacted_output(&self, run: &TrackedRun, from: OutputFrom) -> Result<OutputChunk, WaitError> {
        let through = run.read_context();
        let policy = through.current_policy();
        let sight = through
            .redactor
            .rules_for(&policy)
            .await
            .map_err(|error| redaction_failed(&error))?;
        let told = lock(&run.output).redacted();
        let mut told = told.lock().await;
        if told.policy != policy.digest() {
            let asked = told.asked;
            *told = RedactedOutputs {
                policy: policy.digest().to_owned(),
                asked,
                ..RedactedOutputs::default()
            };
        }
        let cursor = match from {
            OutputFrom::Beginning => OutputCursor::default(),
            OutputFrom::LastRead => told.asked,
            OutputFrom::After(cursor) => cursor,
        };
        let mut next = cursor;
        let stdout = self
            .redacted_stream((run, ProgramStream::Stdout), &sight, &mut told, &mut next)
            .await?;
        let stderr = self
            .redacted_stream((run, ProgramStream::Stderr), &sight, &mut told, &mut next)
            .await?;
        if from == OutputFrom::LastRead {
            told.asked = next;
        }
        Ok(OutputChunk { stdout, stderr, next })
    }

    async fn redacted_stream(
        &self,
        (run, stream): (&TrackedRun, ProgramStream),
        sight: &Arc<RedactionRules>,
        told: &mut RedactedOutputs,
        cursor: &mut OutputCursor,
    ) -> Result<String, WaitError> {
        let clean = told.stream_mut(stream);
        let from = cursor.offset_of(stream);
        // A reader continues at its cursor, even if it read up to there under other rules.
        for end in [from, usize::MAX] {
            self.redact_until((run, stream), sight, clean, end).await?;
        }
        let most = sight.rules().bytes.and_then(|bytes| usize::try_from(bytes.get()).ok());
        let limits = text_limits(sight, most.unwrap_or(usize::MAX));
        let shown = |text: &str| TextCap::cap_clean(text, limits, KeptPart::Ends, None).shown;
        let text = if let Some(text) = clean.after(from) {
            shown(text)
        } else {
            let mut anew = RedactedStream::default();
            for end in [from, clean.raw] {
                self.redact_until((run, stream), sight, &mut anew, end).await?;
            }
            shown(anew.after(from).unwrap_or_default())
        };
        cursor.advance(stream, clean.raw);
        Ok(text)
    }

    /// Redacts new output up to a position.
    async fn redact_until(
        &self,
        (run, stream): (&TrackedRun, ProgramStream),
        sight: &Arc<RedactionRules>,
        clean: &mut RedactedStream,
        end: usize,
    ) -> Result<(), WaitError> {
        let bytes = lock(&run.output).between(stream, clean.raw, end);
        if bytes.is_empty() {
            return Ok(());
        }
        let part = clean.next_part(&bytes);
        let through = run.read_context();
        let (screen, keep) = (&through.redactor, (&self.records.store, through.session));
        let seen = screen.redact_text(keep, sight, &part.text, part.from).await;
        clean.append(&part, seen.map_err(|error| redaction_failed(&error))?.shown.as_deref());
        Ok(())
    }
}

fn redaction_failed(error: &RedactionError) -> WaitError {
    WaitError::Journal(error.to_string())
}

#[cfg(test)]
mod tests;
