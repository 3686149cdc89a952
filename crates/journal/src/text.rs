//! Clean text: text that may come from the sandbox, limited in length and unable to forge a log line.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// At most [`Text::LIMIT`] bytes, with every control and direction character escaped.
///
/// A value comes only from cleaning or from reading text that is clean already. A terminal, a log file or a syslog line that shows a `Text`
/// therefore shows one line of plain characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Text(String);

/// The text holds characters that must be escaped, or is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("text is not clean: control characters, or more than {limit} bytes", limit = Text::LIMIT)]
struct Unclean;

const CUT: &str = "…";

impl Text {
    /// The most bytes that a text holds, including escapes and the cut mark.
    pub const LIMIT: usize = 4096;

    /// Escapes what could forge a line, and cuts at the limit; `…` marks the cut.
    pub fn clean(raw: &str) -> Text {
        let mut clean = String::with_capacity(raw.len().min(Self::LIMIT));
        let mut room_for_cut = 0;
        for character in raw.chars() {
            push(&mut clean, character);
            if clean.len() <= Self::LIMIT - CUT.len() {
                room_for_cut = clean.len();
            } else if clean.len() > Self::LIMIT {
                clean.truncate(room_for_cut);
                clean.push_str(CUT);
                break;
            }
        }
        Text(clean)
    }

    /// As [`Text::clean`], for bytes that may not be UTF-8.
    pub fn clean_bytes(raw: &[u8]) -> Text {
        // One character more than fits, so that an overlong input still gets its cut mark.
        let head = &raw[..raw.len().min(Self::LIMIT + 4)];
        Text::clean(&String::from_utf8_lossy(head))
    }

    /// Cleans all of `raw` and splits it into texts that each stay under the limit.
    pub fn pieces(raw: &str) -> Vec<Text> {
        let mut pieces = Vec::new();
        let mut piece = String::new();
        for character in raw.chars() {
            let before = piece.len();
            push(&mut piece, character);
            if piece.len() > Self::LIMIT {
                let next = piece.split_off(before);
                pieces.push(Text(std::mem::replace(&mut piece, next)));
            }
        }
        if !piece.is_empty() {
            pieces.push(Text(piece));
        }
        pieces
    }

    /// The clean text as a string slice.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn push(clean: &mut String, character: char) {
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

impl From<&str> for Text {
    fn from(raw: &str) -> Text {
        Text::clean(raw)
    }
}

impl From<String> for Text {
    fn from(raw: String) -> Text {
        Text::clean(&raw)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.len() > Self::LIMIT || text.chars().any(must_escape) {
            return Err(de::Error::custom(Unclean));
        }
        Ok(Text(text))
    }
}

#[cfg(test)]
mod tests;
