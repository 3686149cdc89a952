//! Names of skills: the public format, and the identifiers in programs.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::SkillError;

const MAX_NAME_LENGTH: usize = 64;

/// The name of a skill: lower-case letters, digits and single hyphens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SkillName(String);

impl SkillName {
    /// Parses a name in the public format.
    pub fn parse(text: &str) -> Result<SkillName, SkillError> {
        let refuse = |why| {
            Err(SkillError::Name {
                name: truncated(text),
                why,
            })
        };
        if text.is_empty() {
            return refuse("it is empty");
        }
        if text.len() > MAX_NAME_LENGTH {
            return refuse("it is longer than 64 characters");
        }
        let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if !text.bytes().all(known) {
            return refuse("it has other characters than lower-case letters, digits and hyphens");
        }
        if text.starts_with('-') || text.ends_with('-') || text.contains("--") {
            return refuse("a hyphen stands between letters or digits, alone");
        }
        Ok(SkillName(text.to_owned()))
    }

    /// Parses a name as people write it, or as programs do, with underscores for hyphens.
    pub(super) fn parse_lenient(text: &str) -> Option<SkillName> {
        if text.len() > MAX_NAME_LENGTH * 2 {
            return None;
        }
        if let Ok(name) = SkillName::parse(text) {
            return Some(name);
        }
        let name = SkillName::parse(&text.trim_matches('_').replace('_', "-")).ok()?;
        // An identifier that is a reserved word of the language has an underscore appended.
        let said = name.identifier();
        (text
            .strip_prefix(&said)
            .is_some_and(|rest| rest.is_empty() || rest == "_"))
        .then_some(name)
    }

    /// The name in the public format.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The identifier in programs: `monthly-report` is `skills.monthly_report`.
    pub fn identifier(&self) -> String {
        let name = self.0.replace('-', "_");
        if name.starts_with(|first: char| first.is_ascii_digit()) {
            format!("_{name}")
        } else {
            name
        }
    }
}

/// A short form of a text for messages.
fn truncated(text: &str) -> String {
    let mut short: String = text
        .chars()
        .take(MAX_NAME_LENGTH + 1)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    if short.chars().count() > MAX_NAME_LENGTH {
        short.push('…');
    }
    short
}

impl fmt::Display for SkillName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SkillName {
    type Err = SkillError;
    fn from_str(text: &str) -> Result<SkillName, SkillError> {
        SkillName::parse(text)
    }
}

impl Serialize for SkillName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

#[cfg(test)]
mod tests;
