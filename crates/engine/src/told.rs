//! Clients read an output while it grows. Each part is redacted once for all of them, with the text before it as context: the cost depends
//! on what is new, not on the length of the output or the number of readers.

use std::sync::Arc;

use ringfence_gateway::{ScreenError, Sight};
use ringfence_hygiene::{Keep, TextCap, carry};

use crate::engine::{Engine, lock};
use crate::printed::OutputCursor;
use crate::runs::{OutputFrom, Run, WaitError};
use crate::shown::{cleaned, limits};
use crate::words::Stream;

/// Positions between parts that are remembered. A reader at another position gets the same text, with more work.
const PLACES: usize = 4096;

/// The redacted text of both outputs of a run.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// The digest of the policy that it was redacted under.
    policy: String,
    stdout: Clean,
    stderr: Clean,
    /// The cursor of readers that ask for new output only.
    asked: OutputCursor,
}

/// The output that a reader gets, and the cursor for its next read.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) next: OutputCursor,
}

/// The redacted text of one output.
#[derive(Debug, Default)]
pub(crate) struct Clean {
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
pub(crate) struct Part {
    pub(crate) text: String,
    pub(crate) from: usize,
    raw: usize,
}

impl Clean {
    /// Makes the next part from new bytes of the output.
    pub(crate) fn part(&self, bytes: &[u8]) -> Part {
        let mut text = self.carried.clone();
        text.push_str(&cleaned(&String::from_utf8_lossy(bytes)));
        Part {
            text,
            from: self.carried.len(),
            raw: bytes.len(),
        }
    }

    /// Appends the redacted text of a part; none: the part is withheld.
    pub(crate) fn take(&mut self, part: &Part, shown: Option<&str>) {
        self.raw += part.raw;
        match shown {
            Some(shown) => self.text.push_str(shown),
            None => self.held = self.raw,
        }
        self.carried = carry(&part.text);
        self.places.push((self.raw, self.text.len()));
        if self.places.len() > PLACES {
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

impl Told {
    fn of(&mut self, stream: Stream) -> &mut Clean {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }
}

impl Engine {
    /// The output of a run as clients see it, in whole lines until the run ends: half a line may be half of a value that must not be shown.
    pub(crate) async fn told(&self, run: &Run, from: OutputFrom) -> Result<Piece, WaitError> {
        let policy = run.through.policy();
        let sight = run
            .through
            .screen
            .sight(&policy)
            .await
            .map_err(|error| unread(&error))?;
        let told = lock(&run.printed).told();
        let mut told = told.lock().await;
        if told.policy != policy.digest() {
            let asked = told.asked;
            *told = Told {
                policy: policy.digest().to_owned(),
                asked,
                ..Told::default()
            };
        }
        let cursor = match from {
            OutputFrom::Beginning => OutputCursor::default(),
            OutputFrom::LastAsked => told.asked,
            OutputFrom::After(cursor) => cursor,
        };
        let mut next = cursor;
        let stdout = self
            .told_of((run, Stream::Stdout), &sight, &mut told, &mut next)
            .await?;
        let stderr = self
            .told_of((run, Stream::Stderr), &sight, &mut told, &mut next)
            .await?;
        if from == OutputFrom::LastAsked {
            told.asked = next;
        }
        Ok(Piece { stdout, stderr, next })
    }

    async fn told_of(
        &self,
        (run, stream): (&Run, Stream),
        sight: &Arc<Sight>,
        told: &mut Told,
        cursor: &mut OutputCursor,
    ) -> Result<String, WaitError> {
        let clean = told.of(stream);
        let from = cursor.of(stream);
        // A reader continues at its cursor, even if it read up to there under other rules.
        for end in [from, usize::MAX] {
            self.clean_more((run, stream), sight, clean, end).await?;
        }
        let most = sight.rules().bytes.and_then(|bytes| usize::try_from(bytes.get()).ok());
        let limits = limits(sight, most.unwrap_or(usize::MAX));
        let shown = |text: &str| TextCap::clean(text, limits, Keep::Ends, None).shown;
        let text = if let Some(text) = clean.after(from) {
            shown(text)
        } else {
            let mut anew = Clean::default();
            for end in [from, clean.raw] {
                self.clean_more((run, stream), sight, &mut anew, end).await?;
            }
            shown(anew.after(from).unwrap_or_default())
        };
        cursor.advance(stream, clean.raw);
        Ok(text)
    }

    /// Redacts new output up to a position.
    async fn clean_more(
        &self,
        (run, stream): (&Run, Stream),
        sight: &Arc<Sight>,
        clean: &mut Clean,
        end: usize,
    ) -> Result<(), WaitError> {
        let bytes = lock(&run.printed).between(stream, clean.raw, end);
        if bytes.is_empty() {
            return Ok(());
        }
        let part = clean.part(&bytes);
        let (screen, keep) = (&run.through.screen, (&self.store, run.through.session));
        let seen = screen.show_text(keep, sight, &part.text, part.from).await;
        clean.take(&part, seen.map_err(|error| unread(&error))?.shown.as_deref());
        Ok(())
    }
}

fn unread(error: &ScreenError) -> WaitError {
    WaitError::Unread(error.to_string())
}

#[cfg(test)]
mod tests;
