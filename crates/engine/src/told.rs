//! What readers are told of an output while it comes. Each part of it is cleaned once for all of them, behind what tells what it
//! is: the cost is that of what is new, however long the output has become and however many follow it.

use std::sync::Arc;

use ringfence_gateway::{ScreenError, Sight};
use ringfence_hygiene::{Keep, TextCap, carry};

use crate::engine::{Engine, lock};
use crate::printed::OutputCursor;
use crate::runs::{OutputFrom, Run, WaitError};
use crate::shown::{cleaned, limits};
use crate::words::Stream;

/// So many places are remembered between which parts lie. A reader at another is told the same, for more work.
const PLACES: usize = 4096;

/// What was cleaned of both outputs of a run.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// The digest of the policy that it was cleaned by.
    policy: String,
    stdout: Clean,
    stderr: Clean,
    /// What was told to those who ask for what is new.
    asked: OutputCursor,
}

/// What a reader is told, and from where to ask next.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) next: OutputCursor,
}

/// What was cleaned of an output.
#[derive(Debug, Default)]
pub(crate) struct Clean {
    /// How many bytes of it were.
    raw: usize,
    /// What tells what the next part is.
    carried: String,
    /// What may be seen of it.
    text: String,
    /// Where parts ended: bytes of the output, bytes of what may be seen.
    places: Vec<(usize, usize)>,
    /// How far something was held back.
    held: usize,
}

/// A part to be cleaned, behind what tells what it is.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) text: String,
    pub(crate) from: usize,
    raw: usize,
}

impl Clean {
    /// The next part.
    pub(crate) fn part(&self, bytes: &[u8]) -> Part {
        let mut text = self.carried.clone();
        text.push_str(&cleaned(&String::from_utf8_lossy(bytes)));
        Part {
            text,
            from: self.carried.len(),
            raw: bytes.len(),
        }
    }

    /// Takes what may be seen of it; none: it is held back.
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

    /// What may be seen after a place; none: no part ended there.
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
    /// What clients may see of what a run printed, in whole lines until it is over: half a line may be half of what must not be seen.
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
        // A reader goes on where it stopped, also where that was under other rules.
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

    /// Cleans what is new of an output, up to a place.
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
