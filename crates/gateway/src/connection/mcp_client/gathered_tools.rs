//! Collects the tools that a server lists, page by page, within limits.

use std::collections::HashSet;

use ringfence_catalog::{ServerHints, ToolDefinition};
use serde_json::Value;

use crate::error::ServerError;

const MAX_TOOLS: usize = 10_000;
const MAX_TOOL_BYTES: usize = 64 * 1024 * 1024;

/// The tools of a listing so far.
pub(crate) struct GatheredTools<'a> {
    server: &'a str,
    bytes: usize,
    names: HashSet<String>,
    pub(crate) tools: Vec<ToolDefinition>,
}

impl<'a> GatheredTools<'a> {
    pub(crate) fn new(server: &'a str) -> GatheredTools<'a> {
        GatheredTools {
            server,
            bytes: 0,
            names: HashSet::new(),
            tools: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, tool: &Value) -> Result<(), ServerError> {
        if let Some(tool) = definition(tool) {
            self.push(tool)
        } else {
            tracing::warn!(server = self.server, "a tool without a name or schema is left out");
            Ok(())
        }
    }

    /// Adds one tool; of two with the same name the first counts.
    pub(crate) fn push(&mut self, tool: ToolDefinition) -> Result<(), ServerError> {
        let too_much = |what, limit| ServerError::TooMuch {
            server: self.server.to_owned(),
            what,
            limit,
        };
        if self.tools.len() == MAX_TOOLS {
            return Err(too_much("tools", MAX_TOOLS));
        }
        self.bytes += weight(&tool);
        if self.bytes > MAX_TOOL_BYTES {
            return Err(too_much("bytes of tools", MAX_TOOL_BYTES));
        }
        if self.names.insert(tool.name.clone()) {
            self.tools.push(tool);
        }
        Ok(())
    }
}

/// Returns the bytes of a definition as JSON; what cannot be written as JSON is too much.
fn weight(tool: &ToolDefinition) -> usize {
    serde_json::to_vec(tool).map_or(MAX_TOOL_BYTES + 1, |json| json.len())
}

/// Parses a tool as the protocol writes it.
fn definition(tool: &Value) -> Option<ToolDefinition> {
    let text = |key: &str| tool.get(key).and_then(Value::as_str).map(str::to_owned);
    let name = text("name").filter(|name| !name.is_empty())?;
    let input = tool
        .get("inputSchema")
        .filter(|schema| schema.is_object() || schema.is_boolean())?;
    let output = tool
        .get("outputSchema")
        .filter(|schema| schema.is_object() || schema.is_boolean());
    let notes = tool.get("annotations");
    let hint = |key: &str| notes.and_then(|notes| notes.get(key)).and_then(Value::as_bool);
    let annotated = notes.and_then(|notes| notes.get("title")).and_then(Value::as_str);
    // Two different titles are both shown, and so both pinned: clients choose either.
    let title = match (text("title"), annotated) {
        (Some(title), Some(other)) if title != other => Some(format!("{title} / {other}")),
        (title, annotated) => title.or_else(|| annotated.map(str::to_owned)),
    };
    let meta = tool.get("_meta");
    let tags = meta
        .and_then(|meta| meta.get("tags").or_else(|| meta.pointer("/_fastmcp/tags")))
        .and_then(Value::as_array);
    let tags = tags.into_iter().flatten().filter_map(Value::as_str).take(32);
    Some(ToolDefinition {
        name,
        title,
        description: text("description").unwrap_or_default(),
        input: input.clone(),
        output: output.cloned(),
        hints: ServerHints {
            read_only: hint("readOnlyHint"),
            destructive: hint("destructiveHint"),
            idempotent: hint("idempotentHint"),
            open_world: hint("openWorldHint"),
        },
        tags: tags.map(str::to_owned).collect(),
    })
}
