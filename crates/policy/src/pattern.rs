//! Tool names and the patterns over them.

use std::fmt;
use std::str::FromStr;

use crate::segments::{Segments, at_least_one, starred};
use crate::text::text_type;
use crate::unseen::is_unseen;

/// The longest tool name or pattern, in bytes.
const MAX_NAME: usize = 256;

/// The server whose tools are saved programs. No other server is called so.
pub const SKILLS: &str = "skills";

/// Why a tool name or pattern was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing between two dots, or nothing at all.
    #[error("`{0}` has an empty part, write a tool as `server.tool`")]
    EmptyPart(String),
    /// Longer than a name may be.
    #[error("a tool name has at most 256 bytes, this one has {0}")]
    TooLong(usize),
    /// Whitespace, a control character, or a wildcard where none may be.
    #[error("`{}` is not allowed in a tool name", .0.escape_default())]
    Character(char),
    /// `**` beside other characters.
    #[error("`{0}`: `**` stands for whole parts and must be one by itself")]
    Wildcard(String),
}

/// A tool's full name, `server.tool`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolName(String);

impl ToolName {
    /// The name as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is a saved program, called like a tool of the server [`SKILLS`].
    pub fn is_skill(&self) -> bool {
        self.0.split_once('.').is_some_and(|(server, _)| server == SKILLS)
    }

    fn segments(&self) -> Segments {
        Segments::literal(self.0.split('.'))
    }
}

impl FromStr for ToolName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        check(text)?;
        if text.contains('*') {
            Err(NameError::Character('*'))
        } else {
            Ok(Self(text.to_owned()))
        }
    }
}

/// A pattern over tool names: `*` within one part of the name, `**` one or more parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPattern {
    text: String,
    segments: Segments,
}

impl ToolPattern {
    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the pattern is about this tool.
    pub fn matches(&self, name: &ToolName) -> bool {
        self.segments.covers(&name.segments())
    }

    /// Whether every name that `other` matches is matched by this one.
    pub fn contains(&self, other: &Self) -> bool {
        self.segments.covers(&other.segments)
    }
}

impl FromStr for ToolPattern {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        check(text)?;
        let parts = text
            .split('.')
            .map(|part| starred(part).ok_or_else(|| NameError::Wildcard(text.to_owned())))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            text: text.to_owned(),
            segments: Segments::new(at_least_one(parts)),
        })
    }
}

impl fmt::Display for ToolPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn check(text: &str) -> Result<(), NameError> {
    if text.len() > MAX_NAME {
        return Err(NameError::TooLong(text.len()));
    }
    if let Some(c) = text
        .chars()
        .find(|c| c.is_whitespace() || c.is_control() || is_unseen(*c))
    {
        return Err(NameError::Character(c));
    }
    if text.split('.').any(str::is_empty) {
        Err(NameError::EmptyPart(text.to_owned()))
    } else {
        Ok(())
    }
}

text_type!(
    ToolPattern,
    "A pattern over tool names: `*` within one part, `**` one or more parts, for example `github.list_*`."
);

#[cfg(test)]
mod tests;
