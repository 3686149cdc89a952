//! Clean text: text that may come from the sandbox, limited in length and unable to forge a log line.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// At most [`CleanText::MAX_BYTES`] bytes, with every control and direction character escaped.
///
/// A value comes only from cleaning or from reading text that is clean already. A terminal, a log file or a syslog line that shows a `Text`
/// therefore shows one line of plain characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CleanText(String);

/// The text holds characters that must be escaped, or is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("text is not clean: control characters, or more than {limit} bytes", limit = CleanText::MAX_BYTES)]
struct UncleanText;

const CUT_MARK: &str = "…";

impl CleanText {
    /// The most bytes that a text holds, including escapes and the cut mark.
    pub const MAX_BYTES: usize = 4096;

    /// Escapes what could forge a line, and cuts at the limit; `…` marks the cut.
    pub fn clean(raw: &str) -> CleanText {
        let mut clean = String::with_capacity(raw.len().min(Self::MAX_BYTES));
        let mut room_for_cut = 0;
        for character in raw.chars() {
            push_escaped(&mut clean, character);
            if clean.len() <= Self::MAX_BYTES - CUT_MARK.len() {
                room_for_cut = clean.len();
            } else if clean.len() > Self::MAX_BYTES {
                clean.truncate(room_for_cut);
                clean.push_str(CUT_MARK);
                break;
            }
        }
        CleanText(clean)
    }

    /// As [`CleanText::clean`], for bytes that may not be UTF-8.
    pub fn clean_bytes(raw: &[u8]) -> CleanText {
        // One character more than fits, so that an overlong input still gets its cut mark.
        let head = &raw[..raw.len().min(Self::MAX_BYTES + 4)];
        CleanText::clean(&String::from_utf8_lossy(head))
    }

    /// Cleans all of `raw` and splits it into texts that each stay under the limit.
    pub fn pieces(raw: &str) -> Vec<CleanText> {
        let mut pieces = Vec::new();
        let mut piece = String::new();
        for character in raw.chars() {
            let before = piece.len();
            push_escaped(&mut piece, character);
            if piece.len() > Self::MAX_BYTES {
                let next = piece.split_off(before);
                pieces.push(CleanText(std::mem::replace(&mut piece, next)));
            }
        }
        if !piece.is_empty() {
            pieces.push(CleanText(piece));
        }
        pieces
    }

    /// The clean text as a string slice.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn push_escaped(clean: &mut String, character: char) {
    match character {
        '\n' => clean.push_str("\\n"),
        '\r' => clean.push_str("\\r"),
        '\t' => clean.push_str("\\t"),
        // Writing to a `String` cannot fail.
        forbidden if must_escape(forbidden) => {
            let _ = write!(clean, "\\u{{{:x}}}", u32::from(forbidden));
        }
        plain => clean.push(plain),
    }
}

/// Control characters, line separators, and invisible characters that reorder or hide text.
fn must_escape(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

impl From<&str> for CleanText {
    fn from(raw: &str) -> CleanText {
        CleanText::clean(raw)
    }
}

impl From<String> for CleanText {
    fn from(raw: String) -> CleanText {
        CleanText::clean(&raw)
    }
}

impl fmt::Display for CleanText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for CleanText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Serialize for CleanText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for CleanText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.len() > Self::MAX_BYTES || text.chars().any(must_escape) {
            return Err(de::Error::custom(UncleanText));
        }
        Ok(CleanText(text))
    }
}

#[cfg(test)]
mod tests;
