//! The level of detail of a tool in an answer, and the tool at that level.

use serde::{Deserialize, Serialize};

use crate::language::StubLanguage;
use crate::sanitize;
use crate::stubs::{render_stub, signature};
use crate::tool::Tool;
use crate::view::ToolExtras;

/// The level of detail of each tool in an answer; each level costs more tokens than the one before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DetailLevel {
    /// Only the canonical name.
    Names,
    /// The name and the first sentence of the server's description.
    #[default]
    Summary,
    /// The summary and the parameters on one line.
    Signature,
    /// The types and the whole description of the server.
    Full,
}

impl DetailLevel {
    /// The level with this name; `None` if there is none.
    pub fn from_name(name: &str) -> Option<DetailLevel> {
        match name {
            "names" => Some(DetailLevel::Names),
            "summary" => Some(DetailLevel::Summary),
            "signature" => Some(DetailLevel::Signature),
            "full" => Some(DetailLevel::Full),
            _ => None,
        }
    }
}

/// A tool in an answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolEntry {
    /// The canonical name, `server.tool`.
    pub name: String,
    /// The server's description, truncated and cleaned: a quotation, never an instruction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_says: Option<String>,
    /// The parameters and the result on one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// The declaration in the requested language.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stub: Option<String>,
}

impl ToolEntry {
    pub(crate) fn new(tool: &Tool, detail: DetailLevel, language: StubLanguage, noted: &ToolExtras<'_>) -> ToolEntry {
        let description = &tool.definition.description;
        let server_says = match detail {
            DetailLevel::Names => None,
            DetailLevel::Summary | DetailLevel::Signature => Some(sanitize::summary(description)),
            // A declaration contains the description, unless that is long.
            DetailLevel::Full => {
                Some(sanitize::clean_text(description)).filter(|text| text.chars().count() > MAX_STUB_DESCRIPTION_CHARS)
            }
        };
        ToolEntry {
            name: tool.name.as_str().to_owned(),
            server_says: server_says.filter(|text| !text.is_empty()),
            signature: (detail == DetailLevel::Signature).then(|| signature(tool, language, noted.observed)),
            stub: (detail == DetailLevel::Full).then(|| render_stub(tool, language, &noted.notes, noted.observed)),
        }
    }
}

/// The most characters of a description that a declaration contains.
const MAX_STUB_DESCRIPTION_CHARS: usize = 600;
