//! Parses text into a [`Draft`] and explains errors.

use std::borrow::Cow;
use std::fmt;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_saphyr::{DuplicateKeyPolicy, MergeKeyPolicy, MessageFormatter, Options, UserMessageFormatter};

use crate::draft::Draft;
use crate::node::{DocumentNode, NodeError, NodeValue, SourcePosition};

/// The largest policy document: 1 MiB.
pub const MAX_DOCUMENT_BYTES: usize = 1 << 20;
/// The most entries of `fs.mounts` in one document: each costs a pass over a host folder.
const MAX_MOUNTS: usize = 64;
/// The most globs of `fs.deny` in one document.
const MAX_DENY_GLOBS: usize = 1_000;
/// The most rules of one list about hosts or tools in one document.
const MAX_RULES: usize = 4_096;

/// The most errors that are reported for one document.
const MAX_ERRORS: usize = 50;

/// The reason why a policy document was refused, with its position and, if known, a remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ParseError {
    /// The name under which the caller passed the document.
    pub file: String,
    /// The line, counted from one; zero if the error concerns the whole document.
    pub line: u64,
    /// The column, counted from one; zero if the error concerns the whole document.
    pub column: u64,
    /// The error in words, which names the key.
    pub message: String,
    /// A remedy; `None` if there is no obvious one.
    pub hint: Option<String>,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        write!(f, ": {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, ", {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ParseError {}

impl ParseError {
    pub(crate) fn for_document(file: &str, message: String) -> Self {
        Self {
            file: file.to_owned(),
            line: 0,
            column: 0,
            message,
            hint: None,
        }
    }

    pub(crate) fn with_hint(mut self, hint: &str) -> Self {
        self.hint = Some(hint.to_owned());
        self
    }

    fn at_node(file: &str, error: &NodeError) -> Self {
        let key = error.key();
        let message = match (&error.unknown, key.as_str()) {
            (Some(_), key) => format!("unknown key `{key}`"),
            (None, "") => error.message.clone(),
            (None, key) => format!("`{key}`: {}", error.message),
        };
        let at = error.at.unwrap_or(SourcePosition { line: 0, column: 0 });
        Self {
            file: file.to_owned(),
            line: at.line,
            column: at.column,
            message,
            hint: error.hint.clone(),
        }
    }
}

/// A draft that could not be serialized as YAML.
#[derive(Debug, thiserror::Error)]
#[error("cannot write policy `{name}` as YAML")]
pub struct WriteError {
    /// The name of the draft.
    name: String,
    source: serde_saphyr::ser::Error,
}

impl Draft {
    /// Reads a draft from YAML or JSON; errors and the policy use `name`.
    pub fn parse(text: &str, name: &str) -> Result<Self, ParseError> {
        let node = read_node(text, name)?;
        decode_draft(node, name).map(|draft| draft.with_name(name))
    }

    /// Like [`Draft::parse`], but reports every error. It removes each invalid part and parses the rest again. For an entry of a
    /// list, it reports only the first error.
    pub fn parse_all(text: &str, name: &str) -> Result<Self, Vec<ParseError>> {
        let mut node = read_node(text, name).map_err(|error| vec![error])?;
        let mut errors = Vec::new();
        loop {
            let error = match decode_draft(node.clone(), name) {
                Ok(draft) if errors.is_empty() => return Ok(draft.with_name(name)),
                Ok(_) => return Err(errors),
                Err(error) => error,
            };
            let at = SourcePosition {
                line: error.line,
                column: error.column,
            };
            errors.push(error);
            if at.line == 0 || errors.len() >= MAX_ERRORS || !node.remove_at(at) {
                return Err(errors);
            }
        }
    }

    /// Writes this draft as a YAML file that parses to the same draft.
    pub fn to_yaml(&self) -> Result<String, WriteError> {
        serde_saphyr::to_string(self).map_err(|source| WriteError {
            name: self.name.clone(),
            source,
        })
    }

    /// Returns this draft with one dotted key changed; `value` is YAML. Lists and maps are layered.
    pub fn set(&self, key: &str, value: &str) -> Result<Self, ParseError> {
        let name = format!("--set {key}");
        if key.is_empty() || key.split('.').any(str::is_empty) {
            let message = format!("`{key}` is not a key, write it like `proc.mem_limit=1GiB`");
            return Err(ParseError::for_document(&name, message));
        }
        let mut node = read_node(value, &name)?;
        // Keys of `env` may not contain a dot, so each dot separates two levels.
        for part in key.rsplit('.') {
            let at = SourcePosition { line: 0, column: 0 };
            node = DocumentNode {
                at,
                value: NodeValue::Map(vec![(part.to_owned(), at, node)]),
            };
        }
        Ok(self.layer(&decode_draft(node, &name)?))
    }
}

/// Parses a document of another type with the same limits and errors.
pub(crate) fn parse_document<T: serde::de::DeserializeOwned>(text: &str, name: &str) -> Result<T, ParseError> {
    T::deserialize(read_node(text, name)?).map_err(|error| ParseError::at_node(name, &error))
}

fn decode_draft(node: DocumentNode, name: &str) -> Result<Draft, ParseError> {
    if matches!(node.value, NodeValue::Null) {
        return Ok(Draft::empty());
    }
    let draft = Draft::deserialize(node).map_err(|error| ParseError::at_node(name, &error))?;
    match overlong_list(&draft) {
        None => Ok(draft),
        Some((key, count, most)) => {
            let message = format!("`{key}` has {count} entries, the most is {most}");
            Err(ParseError::for_document(name, message).with_hint("write fewer, with wildcards"))
        }
    }
}

/// A list with more entries than one document may have. Each entry is compared with every name, host or call, so the number of
/// entries is a cost for the host.
fn overlong_list(draft: &Draft) -> Option<(&'static str, usize, usize)> {
    let fs = draft.fs.as_ref();
    let net = draft.net.as_ref();
    let lists = [
        ("fs.mounts", fs.map(|fs| fs.mounts.len()), MAX_MOUNTS),
        ("fs.deny", fs.map(|fs| fs.deny.len()), MAX_DENY_GLOBS),
        ("net.allowlist", net.map(|net| net.allowlist.len()), MAX_RULES),
        ("net.denylist", net.map(|net| net.denylist.len()), MAX_RULES),
        (
            "tools.rules",
            draft.tools.as_ref().map(|tools| tools.rules.len()),
            MAX_RULES,
        ),
    ];
    let counted = lists
        .into_iter()
        .map(|(key, count, most)| (key, count.unwrap_or(0), most));
    counted.into_iter().find(|(_, count, most)| count > most)
}

fn read_node(text: &str, name: &str) -> Result<DocumentNode, ParseError> {
    if text.len() > MAX_DOCUMENT_BYTES {
        let message = format!(
            "the document has {} bytes, the most is {MAX_DOCUMENT_BYTES}",
            text.len()
        );
        return Err(ParseError::for_document(name, message));
    }
    serde_saphyr::from_str_with_options(&escape_in_json(text), yaml_options()).map_err(|error| {
        let at = error
            .location()
            .map_or(SourcePosition { line: 0, column: 0 }, SourcePosition::from);
        let message = UserMessageFormatter.format_message(&error).into_owned();
        ParseError {
            line: at.line,
            column: at.column,
            ..ParseError::for_document(name, message)
        }
    })
}

/// Escapes the characters of a JSON document that YAML requires to be escaped; in valid JSON they occur only in strings.
fn escape_in_json(text: &str) -> Cow<'_, str> {
    let json = text.trim_start().starts_with('{')
        && text.contains(needs_escape)
        && serde_json::from_str::<IgnoredAny>(text).is_ok();
    if json {
        Cow::Owned(escape_for_yaml(text))
    } else {
        Cow::Borrowed(text)
    }
}

fn needs_escape(c: char) -> bool {
    matches!(c, '\u{7f}'..='\u{9f}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Escapes every character of a JSON text that YAML does not accept unescaped.
pub(crate) fn escape_for_yaml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 64);
    for c in text.chars() {
        if needs_escape(c) {
            escaped.push_str("\\u");
            let digits = [12, 8, 4, 0].map(|shift| (u32::from(c) >> shift) & 15);
            escaped.extend(digits.iter().filter_map(|digit| char::from_digit(*digit, 16)));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

fn yaml_options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 200_000,
            max_nodes: 100_000,
            max_depth: 64,
            flow_nesting_limit: 64,
            max_aliases: 1_000,
            max_anchors: 1_000,
            max_documents: 1,
            max_total_scalar_bytes: 4 * MAX_DOCUMENT_BYTES,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        strict_booleans: true,
        legacy_octal_numbers: false,
        with_snippet: false,
    }
}

#[cfg(test)]
mod tests;
