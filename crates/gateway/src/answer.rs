//! Results of tool calls: structured data or content blocks, with bounds on their size.

use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::{Value, json};

use crate::credential::Scrubber;
use crate::tree;

/// Most bytes of one result, as its server wrote it.
pub(crate) const MOST: usize = 16 * 1024 * 1024;
/// Most content blocks that one result may have.
const BLOCKS: usize = 10_000;
/// Replaces a result that is longer than [`MOST`].
pub(crate) const TOO_LONG: &str = "the answer is longer than 16 MiB";
/// Replaces a result that would take more memory than [`tree::MAX_TREE`].
pub(crate) const TOO_MANY_VALUES: &str = "the answer holds too many values";

/// Replaces a result that is nested deeper than [`tree::MAX_DEPTH`].
pub(crate) const TOO_DEEP: &str = "the answer is nested too deeply";
/// Replaces a result that is not a valid protocol message.
pub(crate) const UNREADABLE: &str = "an answer that cannot be read";

/// One content block of a tool result.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Content {
    /// A block of type `text`.
    Text(String),
    /// Any other block, as the protocol writes it: `{type: "image", mimeType, data}`.
    Other(Value),
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallResult {
    /// The result as structured data; `None` when the server sent none.
    pub structured: Option<Value>,
    /// The result as content blocks.
    pub content: Vec<Content>,
    /// Whether the tool reports a failure; the content holds the reason.
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

    /// Removes the secrets that the server was given, so that a server that echoes them reveals nothing.
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

    /// Returns the one value that a program gets: the structured data; otherwise a lone text, parsed as JSON when it
    /// is an object or a list; otherwise the list of blocks.
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

    /// Returns all text of the result, for messages.
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
    // A text that would make too large a tree stays a text: the program can parse it in its own memory.
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
