//! Tool names and the patterns over them.

use std::fmt;
use std::str::FromStr;

use crate::invisible::is_invisible;
use crate::segments::{Segments, at_least_one, parse_starred};
use crate::text::text_type;

/// The longest tool name or pattern, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// The server name under which saved programs are called. No other server may have it.
pub const SKILLS_SERVER: &str = "skills";

/// Why a tool name or pattern was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name has nothing between two dots, or nothing at all.
    #[error("`{0}` has an empty part, write a tool as `server.tool`")]
    EmptyPart(String),
    /// The name has more than 256 bytes.
    #[error("a tool name has at most 256 bytes, this one has {0}")]
    TooLong(usize),
    /// The name has whitespace, a control character, or a wildcard where none is allowed.
    #[error("`{}` is not allowed in a tool name", .0.escape_default())]
    Character(char),
    /// The pattern has `**` beside other characters in one part.
    #[error("`{0}`: `**` stands for whole parts and must be one by itself")]
    Wildcard(String),
}

/// The full name of a tool, `server.tool`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolName(String);

impl ToolName {
    /// The full name of the tool.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the tool is a saved program, which is called as a tool of the server [`SKILLS_SERVER`].
    pub fn is_skill(&self) -> bool {
        self.0
            .split_once('.')
            .is_some_and(|(server, _)| server == SKILLS_SERVER)
    }

    fn segments(&self) -> Segments {
        Segments::literal(self.0.split('.'))
    }
}

impl FromStr for ToolName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        check_name(text)?;
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
    /// The pattern as its author wrote it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the pattern matches this tool.
    pub fn matches(&self, name: &ToolName) -> bool {
        self.segments.covers(&name.segments())
    }

    /// Whether this pattern matches every name that `other` matches.
    pub fn contains(&self, other: &Self) -> bool {
        self.segments.covers(&other.segments)
    }
}

impl FromStr for ToolPattern {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        check_name(text)?;
        let parts = text
            .split('.')
            .map(|part| parse_starred(part).ok_or_else(|| NameError::Wildcard(text.to_owned())))
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

fn check_name(text: &str) -> Result<(), NameError> {
    if text.len() > MAX_NAME_BYTES {
        return Err(NameError::TooLong(text.len()));
    }
    if let Some(c) = text
        .chars()
        .find(|c| c.is_whitespace() || c.is_control() || is_invisible(*c))
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
