//! A tool: its server's definition, and its names in the catalog.

use std::fmt;

use ringfence_policy::{SKILLS_SERVER, ToolName};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The definition of a tool as its server sends it. All text is a quotation from the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// The name under which the server accepts calls.
    pub name: String,
    /// A display name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the tool does, in the server's own text.
    #[serde(default)]
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input: Value,
    /// The JSON Schema of its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// The effects that the server declares.
    #[serde(default)]
    pub hints: ServerHints,
    /// The server's own tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// The effects that a server declares for its tool; they are never a reason to trust it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerHints {
    /// Whether the tool changes nothing; `None` if undeclared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// Whether it may destroy something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// Whether a repeated call changes nothing more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// Whether it reaches beyond its server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

impl From<ServerHints> for ringfence_policy::ToolHints {
    fn from(hints: ServerHints) -> ringfence_policy::ToolHints {
        ringfence_policy::ToolHints {
            read_only: hints.read_only,
            destructive: hints.destructive,
            open_world: hints.open_world,
        }
    }
}

/// The tools of one server, before they are in a catalog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerListing {
    /// The operator's name of the server.
    pub server: String,
    /// The server's description of itself.
    #[serde(default)]
    pub description: String,
    /// The definitions of its tools, in the order of the server.
    pub tools: Vec<ToolDefinition>,
}

/// The digest of a definition, by which a tool is pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DefinitionDigest(blake3::Hash);

impl fmt::Display for DefinitionDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.to_hex())
    }
}

impl ToolDefinition {
    /// The digest of the whole definition, independent of the order of keys.
    pub fn digest(&self) -> DefinitionDigest {
        // Numbers that canonical JSON cannot represent are distinguished by their original text.
        let text = serde_json_canonicalizer::to_string(self)
            .or_else(|_| sorted_json(self))
            .unwrap_or_default();
        DefinitionDigest(blake3::hash(text.as_bytes()))
    }
}

/// The definition as JSON with sorted keys.
fn sorted_json(definition: &ToolDefinition) -> Result<String, serde_json::Error> {
    let mut value = serde_json::to_value(definition)?;
    value.sort_all_objects();
    serde_json::to_string(&value)
}

/// A tool with its canonical name.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// `server.tool`, as policies and programs name it.
    pub name: ToolName,
    /// The server's name as an identifier of TypeScript and Python.
    pub server_ident: String,
    /// The tool's name as an identifier of TypeScript and Python, unique within its server.
    pub ident: String,
    /// The definition as the server sends it.
    pub definition: ToolDefinition,
    /// The digest of the definition, which changes with any part of it.
    pub digest: DefinitionDigest,
}

impl Tool {
    /// The operator's name of its server.
    pub fn server(&self) -> &str {
        self.name.as_str().split_once('.').map_or("", |(server, _)| server)
    }

    /// The path of its server in a program: `tools.github`, or `skills`.
    pub fn program_path(&self) -> String {
        if self.name.is_skill() {
            return SKILLS_SERVER.to_owned();
        }
        format!("tools.{}", self.server_ident)
    }

    /// The declared effects in the type that policies use.
    pub fn hints(&self) -> ringfence_policy::ToolHints {
        self.definition.hints.into()
    }

    /// The name within its server.
    pub fn short_name(&self) -> &str {
        self.name.as_str().split_once('.').map_or("", |(_, tool)| tool)
    }
}
