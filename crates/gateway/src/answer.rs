//! What a tool answered: structured, or as blocks of content; bounded.

use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::{Value, json};

use crate::credential::Scrubber;
use crate::tree;

/// Bytes of one result as its server wrote it.
pub(crate) const MOST: usize = 16 * 1024 * 1024;
/// Blocks of content in one result.
const BLOCKS: usize = 10_000;
/// What a result is replaced with that is longer than [`MOST`].
pub(crate) const TOO_LONG: &str = "the answer is longer than 16 MiB";
/// What a result is replaced with that would take more than [`tree::MAX_TREE`].
pub(crate) const TOO_MANY_VALUES: &str = "the answer holds too many values";

/// What a result is replaced with that is nested deeper than [`tree::MAX_DEPTH`].
pub(crate) const TOO_DEEP: &str = "the answer is nested too deeply";
/// What a result is replaced with that is no message of the protocol.
pub(crate) const UNREADABLE: &str = "an answer that cannot be read";

/// A block of content.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Content {
    /// Text.
    Text(String),
    /// Anything else, as the protocol writes it: `{type: "image", mimeType, data}`.
    Other(Value),
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallResult {
    /// The result as data, when the server gave it so.
    pub structured: Option<Value>,
    /// The result as blocks.
    pub content: Vec<Content>,
    /// Whether the tool says that it failed; the content says why.
    pub is_error: bool,
}

impl CallResult {
    pub(crate) fn structured(value: Value) -> CallResult {
        CallResult {
            structured: Some(value),
            content: Vec::new(),
            is_error: false,
        }
    }

    /// Without the secrets that the server was given: one that echoes them gives nothing away.
    pub(crate) fn scrubbed(mut self, scrubber: &Scrubber) -> CallResult {
        if scrubber.is_idle() {
            return self;
        }
        if let Some(structured) = &mut self.structured {
            scrubber.hide_in(structured);
        }
        for block in &mut self.content {
            match block {
                Content::Text(text) => scrubber.hide(text),
                Content::Other(other) => scrubber.hide_in(other),
            }
        }
        self
    }

    /// The one value that a program gets: structured data; else a lone text, read as JSON when it is an object or a list;
    /// else the list of blocks.
    pub fn into_value(self) -> Value {
        if let Some(structured) = self.structured {
            return structured;
        }
        let mut blocks = self.content;
        if blocks.len() == 1
            && let Some(Content::Text(text)) = blocks.pop_if(|block| matches!(block, Content::Text(_)))
        {
            return reading(text);
        }
        blocks
            .into_iter()
            .map(|block| match block {
                Content::Text(text) => json!({"type": "text", "text": text}),
                Content::Other(other) => other,
            })
            .collect::<Vec<Value>>()
            .into()
    }

    /// All text in it, for messages.
    pub fn text(&self) -> String {
        let text = |block: &Content| match block {
            Content::Text(text) => Some(text.clone()),
            Content::Other(_) => None,
        };
        let texts: Vec<String> = self.content.iter().filter_map(text).collect();
        texts.join("\n")
    }
}

fn reading(text: String) -> Value {
    // A text that would be too large a tree stays a text: the program can read it in memory of its own.
    if text.trim_start().starts_with(['{', '['])
        && !tree::is_too_large(text.as_bytes())
        && let Ok(value) = serde_json::from_str(&text)
    {
        return value;
    }
    Value::String(text)
}

impl From<CallToolResult> for CallResult {
    fn from(result: CallToolResult) -> CallResult {
        let block = |block: ContentBlock| {
            if let ContentBlock::Text(text) = block {
                Content::Text(text.text)
            } else {
                Content::Other(serde_json::to_value(block).unwrap_or(Value::Null))
            }
        };
        CallResult {
            structured: result.structured_content,
            content: result.content.into_iter().take(BLOCKS).map(block).collect(),
            is_error: result.is_error.unwrap_or(false),
        }
    }
}

#[cfg(test)]
mod tests;
