//! A tool: what its server says of it, and what we call it.

use std::fmt;

use ringfence_policy::{SKILLS, ToolName};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A tool as its server describes it: the server's words, to be shown as such.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    /// The name the server answers to.
    pub name: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does.
    #[serde(default)]
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input: Value,
    /// The JSON Schema of its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// What the server says of its effects.
    #[serde(default)]
    pub hints: Hints,
    /// The server's own tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// A server's word on what its tool does; never a reason to trust it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hints {
    /// It changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// It may destroy something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// Twice is as once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// It touches a world beyond its server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

impl From<Hints> for ringfence_policy::Hints {
    fn from(hints: Hints) -> ringfence_policy::Hints {
        ringfence_policy::Hints {
            read_only: hints.read_only,
            destructive: hints.destructive,
            open_world: hints.open_world,
        }
    }
}

/// What one server offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Listing {
    /// What the operator calls the server.
    pub server: String,
    /// What the server says of itself.
    #[serde(default)]
    pub description: String,
    /// Its tools.
    pub tools: Vec<Definition>,
}

/// The digest of a definition: a tool is pinned by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(blake3::Hash);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.to_hex())
    }
}

impl Definition {
    /// The digest of everything the server says of it, whatever the order of keys.
    pub fn digest(&self) -> Digest {
        // Numbers that canonical JSON cannot hold are told apart by their own text.
        let text = serde_json_canonicalizer::to_string(self)
            .or_else(|_| sorted(self))
            .unwrap_or_default();
        Digest(blake3::hash(text.as_bytes()))
    }
}

/// Its JSON with keys in order.
fn sorted(definition: &Definition) -> Result<String, serde_json::Error> {
    let mut value = serde_json::to_value(definition)?;
    value.sort_all_objects();
    serde_json::to_string(&value)
}

/// A tool under its canonical name.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// `server.tool`, as policies and programs name it.
    pub name: ToolName,
    /// The server's name as an identifier of TypeScript and Python.
    pub server_ident: String,
    /// The tool's name as an identifier of TypeScript and Python, unlike any other of its server.
    pub ident: String,
    /// What its server says.
    pub definition: Definition,
    /// The definition's digest.
    pub digest: Digest,
}

impl Tool {
    /// The operator's name of its server.
    pub fn server(&self) -> &str {
        self.name.as_str().split_once('.').map_or("", |(server, _)| server)
    }

    /// Where programs find its server: `tools.github`, or `skills`.
    pub fn path(&self) -> String {
        if self.name.is_skill() {
            return SKILLS.to_owned();
        }
        format!("tools.{}", self.server_ident)
    }

    /// What its server says of its effects, as policies judge it.
    pub fn hints(&self) -> ringfence_policy::Hints {
        self.definition.hints.into()
    }

    /// Its name within its server.
    pub fn short(&self) -> &str {
        self.name.as_str().split_once('.').map_or("", |(_, tool)| tool)
    }
}
