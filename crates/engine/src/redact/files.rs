//! Files that an execution left: redacted for a model, with values for their owner.

use std::path::Path;
use std::sync::{Arc, Weak};

use ringfence_gateway::{RedactionError, Redactor};
use ringfence_journal::SessionId;
use ringfence_policy::{PiiMode, Policy, RelPath};
use serde_json::Value;

use super::{ResultRenderer, blocked_error, describe_findings};
use crate::error::OperationError;
use crate::report::ErrorReport;
use crate::sessions::context::ExecutionContext;
use crate::sessions::rules::SessionRules;

/// Bytes of the largest file in which aliases are replaced by values.
const MAX_REVEALED_BYTES: u64 = 64 << 20;
/// Bytes that are inspected to tell text from other content.
const SNIFF_BYTES: usize = 8192;

/// The context that clients read a run through.
#[derive(Debug, Clone)]
pub(crate) struct ReadContext {
    pub(crate) redactor: Arc<Redactor>,
    /// The policy when the run began.
    pub(crate) policy: Arc<Policy>,
    /// The rules of the session, as long as it exists.
    pub(crate) rules: Weak<SessionRules>,
    pub(crate) draft: Option<Value>,
    pub(crate) session: SessionId,
}

impl ReadContext {
    /// The approximate memory in bytes of what only this run keeps.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.policy.memory_bytes() + self.draft.as_ref().map_or(0, value_memory_bytes)
    }

    /// The current policy; after the end of the session, the one that it had.
    pub(crate) fn current_policy(&self) -> Arc<Policy> {
        match self.rules.upgrade() {
            Some(rules) => rules.policy_with_draft(self.draft.as_ref()),
            None => Arc::clone(&self.policy),
        }
    }
}

/// The approximate memory in bytes of a parsed JSON value, with the free room of its tables.
fn value_memory_bytes(value: &Value) -> usize {
    const VALUE_BYTES: usize = 48;
    const ENTRY_BYTES: usize = 160;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => VALUE_BYTES,
        Value::String(text) => VALUE_BYTES + text.len(),
        Value::Array(items) => VALUE_BYTES + items.iter().map(value_memory_bytes).sum::<usize>(),
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(key, value)| ENTRY_BYTES + key.len() + value_memory_bytes(value));
            VALUE_BYTES + fields.sum::<usize>()
        }
    }
}

/// Decodes bytes as text of any encoding; an error with the bytes where they are not text.
fn decode_text(bytes: Vec<u8>) -> Result<String, Vec<u8>> {
    let bytes = match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => return Ok(text),
        // UTF-16 of plain letters is valid UTF-8 too, with a null after each letter.
        Ok(text) => text.into_bytes(),
        Err(error) => error.into_bytes(),
    };
    let wide = match bytes.as_slice() {
        [0xff, 0xfe, rest @ ..] => [decode_utf16(rest, u16::from_le_bytes), None],
        [0xfe, 0xff, rest @ ..] => [decode_utf16(rest, u16::from_be_bytes), None],
        // Without a byte order mark, only text of the commonest scripts counts: much else has pairs of bytes that could be characters.
        all => [
            decode_utf16(all, u16::from_le_bytes),
            decode_utf16(all, u16::from_be_bytes),
        ]
        .map(|text| text.filter(|text| is_mostly_common_script(text))),
    };
    if let Some(text) = wide.into_iter().flatten().next() {
        return Ok(text);
    }
    let looked_at = bytes.get(..SNIFF_BYTES).unwrap_or(&bytes);
    let no_letters = looked_at
        .iter()
        .filter(|byte| is_non_text_char(char::from(**byte)))
        .count();
    // A few stray control characters do not make a text binary.
    if !looked_at.contains(&0) || no_letters * 64 <= looked_at.len() {
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    String::from_utf8(bytes).map_err(std::string::FromUtf8Error::into_bytes)
}

/// Whether no text contains this character.
fn is_non_text_char(letter: char) -> bool {
    letter < ' ' && !matches!(letter, '\t' | '\n' | '\r' | '\x0c' | '\x1b')
}

/// Whether nearly all characters are of the commonest scripts.
fn is_mostly_common_script(text: &str) -> bool {
    let strange = text.chars().filter(|letter| *letter >= '\u{800}').count();
    strange * 8 < text.chars().count()
}

/// Decodes UTF-16 of one byte order, if every pair of bytes is a character.
fn decode_utf16(bytes: &[u8], unit: impl Fn([u8; 2]) -> u16) -> Option<String> {
    let (pairs, rest) = bytes.as_chunks();
    let text: Result<String, _> = char::decode_utf16(pairs.iter().copied().map(unit)).collect();
    text.ok()
        .filter(|text| !text.is_empty() && rest.is_empty() && !text.contains(is_non_text_char))
}

impl ResultRenderer {
    /// Renders a file that an execution left for a model.
    pub(crate) async fn render_file(
        &self,
        seen: &ReadContext,
        bytes: Vec<u8>,
    ) -> Result<Result<Vec<u8>, ErrorReport>, RedactionError> {
        let sight = seen.redactor.rules_for(&seen.current_policy()).await?;
        let text = match decode_text(bytes) {
            Ok(text) => text,
            Err(_) if sight.rules().pii == PiiMode::Block => {
                let what = "a file that is no text cannot be looked into, and is held back";
                return Ok(Err(blocked_error(what)));
            }
            Err(bytes) => return Ok(Ok(bytes)),
        };
        let shown = seen
            .redactor
            .redact_text((&self.records.store, seen.session), &sight, &text, 0)
            .await?;
        Ok(match shown.shown {
            Some(text) => Ok(text.into_bytes()),
            None => Err(blocked_error(&format!(
                "the file is held back: it has personal data ({})",
                describe_findings(&shown.found)
            ))),
        })
    }

    /// Replaces aliases by values in the files that went to their owner.
    pub(crate) async fn reveal_files(
        &self,
        session: &ExecutionContext,
        files: &[RelPath],
        to: &Path,
    ) -> Result<(), OperationError> {
        for file in files {
            let path = to.join(file.as_str());
            if std::fs::symlink_metadata(&path).is_ok_and(|found| found.len() > MAX_REVEALED_BYTES) {
                continue;
            }
            let read = path.clone();
            let text = tokio::task::spawn_blocking(move || std::fs::read(read)).await;
            let text = text
                .map_err(std::io::Error::other)
                .and_then(|read| read)
                .map_err(OperationError::FullOutput)?;
            let Ok(text) = String::from_utf8(text) else { continue };
            if !text.contains('‹') {
                continue;
            }
            let revealed = session.redactor.reveal(&text).await;
            if revealed != text {
                let written = tokio::task::spawn_blocking(move || std::fs::write(path, revealed)).await;
                written
                    .map_err(std::io::Error::other)
                    .and_then(|written| written)
                    .map_err(OperationError::FullOutput)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
