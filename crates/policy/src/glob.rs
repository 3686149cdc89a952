//! File globs for `fs.deny`: `*` and `?` within one segment, `[…]` classes, `**` over many.
//! A glob that can never match, or that matches everything, is an error and not a no-op.

mod set;

use std::fmt;
use std::str::FromStr;

use crate::path::RelPath;
use crate::segments::{CharClass, PatternPart, PatternToken, Segments};
use crate::text::text_type;
use set::GlobPositions;

/// Why a glob was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    /// The glob is empty, or has nothing between two slashes.
    #[error("`{0}` has an empty segment")]
    EmptySegment(String),
    /// Longer than 1,024 bytes.
    #[error("a glob has at most 1024 bytes, this one has {0}")]
    TooLong(usize),
    /// The glob starts with a slash.
    #[error("`{0}` starts with `/`: globs are relative to each mount, write `**/…`")]
    Absolute(String),
    /// A segment is `.` or `..`.
    #[error("`{0}` has a `.` or `..` segment and could never match")]
    Dots(String),
    /// A segment has `**` beside other characters.
    #[error("`{0}`: `**` stands for whole segments and must be one by itself")]
    Wildcard(String),
    /// A class has no closing bracket, no characters, or a backwards range.
    #[error("`{0}` has a broken `[…]` class")]
    Class(String),
    /// The glob has a brace, which would stand for itself.
    #[error("`{0}`: braces list nothing here, write one entry for each alternative (`[{{]` is a brace in a name)")]
    Braces(String),
    /// The glob begins with a home folder, or a whole segment is a variable of a shell.
    #[error("`{0}` has `{1}`, which stands for no folder here: globs are relative to each mount, write `**/…`")]
    Home(String, String),
    /// The glob has a control character.
    #[error("`{}` is not allowed in a glob", .0.escape_default())]
    Character(char),
    /// The glob has only wildcards and would hide everything.
    #[error("`{0}` matches everything: name what is to be hidden")]
    Everything(String),
}

/// A file glob, relative to the root of a mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    text: String,
    segments: Segments,
}

impl Glob {
    /// The glob as its author wrote it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the glob matches exactly this path.
    pub fn matches(&self, path: &RelPath) -> bool {
        let mut at = GlobPositions::start(self.parts());
        path.segments().fold(false, |_, name| at.advance(self.parts(), name))
    }

    /// Whether the glob hides this path, because it matches the path itself or a folder above it. The cost is the number of names
    /// in the path times the parts of the glob.
    pub fn hides(&self, path: &RelPath) -> bool {
        let mut at = GlobPositions::start(self.parts());
        path.segments().any(|name| at.advance(self.parts(), name))
    }

    fn parts(&self) -> &[PatternPart] {
        self.segments.parts()
    }

    /// Whether the glob starts with `**` and so can match at any depth.
    fn starts_anywhere(&self) -> bool {
        self.parts().first() == Some(&PatternPart::Many)
    }
}

impl FromStr for Glob {
    type Err = GlobError;

    fn from_str(text: &str) -> Result<Self, GlobError> {
        if text.len() > 1_024 {
            return Err(GlobError::TooLong(text.len()));
        }
        if let Some(c) = text.chars().find(|c| c.is_control()) {
            return Err(GlobError::Character(c));
        }
        if text.starts_with('/') {
            return Err(GlobError::Absolute(text.to_owned()));
        }
        let is_home = |(index, part): &(usize, &str)| (*index == 0 && *part == "~") || is_variable(part);
        if let Some((_, part)) = text.split('/').enumerate().find(is_home) {
            return Err(GlobError::Home(text.to_owned(), part.to_owned()));
        }
        let parts = text
            .split('/')
            .map(|part| parse_segment(part, text))
            .collect::<Result<Vec<_>, _>>()?;
        let wild = |part: &PatternPart| match part {
            PatternPart::Many => true,
            PatternPart::One(pieces) => pieces.iter().all(|piece| *piece == PatternToken::Star),
        };
        if parts.iter().all(wild) {
            return Err(GlobError::Everything(text.to_owned()));
        }
        Ok(Self {
            text: text.to_owned(),
            segments: Segments::new(parts),
        })
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn parse_segment(part: &str, whole: &str) -> Result<PatternPart, GlobError> {
    match part {
        "" => Err(GlobError::EmptySegment(whole.to_owned())),
        "." | ".." => Err(GlobError::Dots(whole.to_owned())),
        "**" => Ok(PatternPart::Many),
        part if part.contains("**") => Err(GlobError::Wildcard(whole.to_owned())),
        part => {
            let mut pieces = Vec::new();
            let mut rest = part.chars();
            while let Some(c) = rest.next() {
                pieces.push(match c {
                    '*' => PatternToken::Star,
                    '?' => PatternToken::Question,
                    '[' => parse_class(&mut rest).ok_or_else(|| GlobError::Class(whole.to_owned()))?,
                    '{' => return Err(GlobError::Braces(whole.to_owned())),
                    ']' => return Err(GlobError::Class(whole.to_owned())),
                    c => PatternToken::Literal(c),
                });
            }
            Ok(PatternPart::One(pieces))
        }
    }
}

/// Whether a segment is a variable as shells write it, such as `$HOME` or `${HOME}`.
fn is_variable(segment: &str) -> bool {
    let Some(name) = segment.strip_prefix('$') else {
        return false;
    };
    let name = name
        .strip_prefix('{')
        .and_then(|name| name.strip_suffix('}'))
        .unwrap_or(name);
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Parses a class up to its closing bracket; a `]` right after the opening bracket is literal.
fn parse_class(rest: &mut std::str::Chars<'_>) -> Option<PatternToken> {
    let negated = rest.as_str().starts_with(['!', '^']);
    if negated {
        rest.next();
    }
    let mut ranges = Vec::new();
    loop {
        let from = match rest.next()? {
            ']' if !ranges.is_empty() => return Some(PatternToken::Class(Box::new(CharClass { negated, ranges }))),
            c => c,
        };
        let mut ahead = rest.as_str().chars();
        let to = match (ahead.next(), ahead.next()) {
            (Some('-'), Some(to)) if to != ']' => {
                rest.nth(1);
                to
            }
            _ => from,
        };
        if to < from {
            return None;
        }
        ranges.push(from..=to);
    }
}

pub use set::{GlobSet, GlobState};

text_type!(
    Glob,
    "A file glob relative to each mount: `*` and `?` within one segment, `[…]` classes, `**` any number of segments."
);

#[cfg(test)]
mod tests;
