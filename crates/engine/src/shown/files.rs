//! Files that an execution left: redacted for a model, with values for their owner.

use std::path::Path;
use std::sync::{Arc, Weak};

use ringfence_gateway::{Screen, ScreenError};
use ringfence_journal::SessionId;
use ringfence_policy::{PiiMode, Policy, RelPath};
use serde_json::Value;

use super::{blocked, words};
use crate::engine::Engine;
use crate::error::RunError;
use crate::execution::ErrorReport;
use crate::rules::Rules;
use crate::session::Session;

/// Bytes of the largest file in which aliases are replaced by values.
const MOST_REVEALED: u64 = 64 << 20;
/// Bytes that are inspected to tell text from other content.
const LOOKED_AT: usize = 8192;

/// The context that clients read a run through.
#[derive(Debug, Clone)]
pub(crate) struct Through {
    pub(crate) screen: Arc<Screen>,
    /// The policy when the run began.
    pub(crate) policy: Arc<Policy>,
    /// The rules of the session, as long as it exists.
    pub(crate) rules: Weak<Rules>,
    pub(crate) draft: Option<Value>,
    pub(crate) session: SessionId,
}

impl Through {
    /// The current policy; after the end of the session, the one that it had.
    pub(crate) fn policy(&self) -> Arc<Policy> {
        match self.rules.upgrade() {
            Some(rules) => rules.policy_of(self.draft.as_ref()),
            None => Arc::clone(&self.policy),
        }
    }
}

/// Decodes bytes as text of any encoding; an error with the bytes where they are not text.
fn text_of(bytes: Vec<u8>) -> Result<String, Vec<u8>> {
    let bytes = match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => return Ok(text),
        // UTF-16 of plain letters is valid UTF-8 too, with a null after each letter.
        Ok(text) => text.into_bytes(),
        Err(error) => error.into_bytes(),
    };
    let wide = match bytes.as_slice() {
        [0xff, 0xfe, rest @ ..] => [wide(rest, u16::from_le_bytes), None],
        [0xfe, 0xff, rest @ ..] => [wide(rest, u16::from_be_bytes), None],
        // Without a byte order mark, only text of the commonest scripts counts: much else has pairs of bytes that could be characters.
        all => [wide(all, u16::from_le_bytes), wide(all, u16::from_be_bytes)]
            .map(|text| text.filter(|text| is_common(text))),
    };
    if let Some(text) = wide.into_iter().flatten().next() {
        return Ok(text);
    }
    let looked_at = bytes.get(..LOOKED_AT).unwrap_or(&bytes);
    let no_letters = looked_at.iter().filter(|byte| is_no_letter(char::from(**byte))).count();
    // A few stray control characters do not make a text binary.
    if !looked_at.contains(&0) || no_letters * 64 <= looked_at.len() {
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    String::from_utf8(bytes).map_err(std::string::FromUtf8Error::into_bytes)
}

/// Whether no text contains this character.
fn is_no_letter(letter: char) -> bool {
    letter < ' ' && !matches!(letter, '\t' | '\n' | '\r' | '\x0c' | '\x1b')
}

/// Whether nearly all characters are of the commonest scripts.
fn is_common(text: &str) -> bool {
    let strange = text.chars().filter(|letter| *letter >= '\u{800}').count();
    strange * 8 < text.chars().count()
}

/// Decodes UTF-16 of one byte order, if every pair of bytes is a character.
fn wide(bytes: &[u8], unit: impl Fn([u8; 2]) -> u16) -> Option<String> {
    let (pairs, rest) = bytes.as_chunks();
    let text: Result<String, _> = char::decode_utf16(pairs.iter().copied().map(unit)).collect();
    text.ok()
        .filter(|text| !text.is_empty() && rest.is_empty() && !text.contains(is_no_letter))
}

impl Engine {
    /// Renders a file that an execution left for a model.
    pub(crate) async fn shown_file(
        &self,
        seen: &Through,
        bytes: Vec<u8>,
    ) -> Result<Result<Vec<u8>, ErrorReport>, ScreenError> {
        let sight = seen.screen.sight(&seen.policy()).await?;
        let text = match text_of(bytes) {
            Ok(text) => text,
            Err(_) if sight.rules().pii == PiiMode::Block => {
                let what = "a file that is no text cannot be looked into, and is held back";
                return Ok(Err(blocked(what)));
            }
            Err(bytes) => return Ok(Ok(bytes)),
        };
        let shown = seen
            .screen
            .show_text((&self.store, seen.session), &sight, &text, 0)
            .await?;
        Ok(match shown.shown {
            Some(text) => Ok(text.into_bytes()),
            None => Err(blocked(&format!(
                "the file is held back: it has personal data ({})",
                words(&shown.found)
            ))),
        })
    }

    /// Replaces aliases by values in the files that went to their owner.
    pub(crate) async fn reveal_files(&self, session: &Session, files: &[RelPath], to: &Path) -> Result<(), RunError> {
        for file in files {
            let path = to.join(file.as_str());
            if std::fs::symlink_metadata(&path).is_ok_and(|found| found.len() > MOST_REVEALED) {
                continue;
            }
            let read = path.clone();
            let text = tokio::task::spawn_blocking(move || std::fs::read(read)).await;
            let text = text
                .map_err(std::io::Error::other)
                .and_then(|read| read)
                .map_err(RunError::Whole)?;
            let Ok(text) = String::from_utf8(text) else { continue };
            if !text.contains('‹') {
                continue;
            }
            let revealed = session.screen.reveal(&text).await;
            if revealed != text {
                let written = tokio::task::spawn_blocking(move || std::fs::write(path, revealed)).await;
                written
                    .map_err(std::io::Error::other)
                    .and_then(|written| written)
                    .map_err(RunError::Whole)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
