//! Results of tool calls: structured data or content blocks, with bounds on their size.

use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::{Value, json};

use crate::credential::Scrubber;
use crate::json_tree;

/// Most bytes of one result, as its server wrote it.
pub(crate) const MAX_RESULT_BYTES: usize = 16 * 1024 * 1024;
/// Most content blocks that one result may have.
const MAX_CONTENT_BLOCKS: usize = 10_000;
/// Replaces a result that is longer than [`MAX_RESULT_BYTES`].
pub(crate) const TOO_LONG: &str = "the answer is longer than 16 MiB";
/// Replaces a result that would take more memory than [`json_tree::MAX_TREE`].
pub(crate) const TOO_MANY_VALUES: &str = "the answer holds too many values";

/// Replaces a result that is nested deeper than [`json_tree::MAX_DEPTH`].
pub(crate) const TOO_DEEP: &str = "the answer is nested too deeply";
/// Replaces a result that is not a valid protocol message.
pub(crate) const UNREADABLE: &str = "an answer that cannot be read";

/// One content block of a tool result.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ResultContent {
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
    pub content: Vec<ResultContent>,
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
            scrubber.scrub_json(structured);
        }
        for block in &mut self.content {
            match block {
                ResultContent::Text(text) => scrubber.scrub(text),
                ResultContent::Other(other) => scrubber.scrub_json(other),
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
            && let Some(ResultContent::Text(text)) = blocks.pop_if(|block| matches!(block, ResultContent::Text(_)))
        {
            return parse_lone_text(text);
        }
        blocks
            .into_iter()
            .map(|block| match block {
                ResultContent::Text(text) => json!({"type": "text", "text": text}),
                ResultContent::Other(other) => other,
            })
            .collect::<Vec<Value>>()
            .into()
    }

    /// Returns all text of the result, for messages.
    pub fn text(&self) -> String {
        let text = |block: &ResultContent| match block {
            ResultContent::Text(text) => Some(text.clone()),
            ResultContent::Other(_) => None,
        };
        let texts: Vec<String> = self.content.iter().filter_map(text).collect();
        texts.join("\n")
    }
}

fn parse_lone_text(text: String) -> Value {
    // A text that would make too large a tree stays a text: the program can parse it in its own memory.
    if text.trim_start().starts_with(['{', '['])
        && !json_tree::is_too_large(text.as_bytes())
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
                ResultContent::Text(text.text)
            } else {
                ResultContent::Other(serde_json::to_value(block).unwrap_or(Value::Null))
            }
        };
        CallResult {
            structured: result.structured_content,
            content: result.content.into_iter().take(MAX_CONTENT_BLOCKS).map(block).collect(),
            is_error: result.is_error.unwrap_or(false),
        }
    }
}

#[cfg(test)]
mod tests;
