//! The level of detail of a tool in an answer, and the tool at that level.

use serde::{Deserialize, Serialize};

use crate::language::Language;
use crate::said;
use crate::stubs::{signature, stub};
use crate::tool::Tool;
use crate::view::Noted;

/// The level of detail of each tool in an answer; each level costs more tokens than the one before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Detail {
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

impl Detail {
    /// The level with this name; `None` if there is none.
    pub fn named(name: &str) -> Option<Detail> {
        match name {
            "names" => Some(Detail::Names),
            "summary" => Some(Detail::Summary),
            "signature" => Some(Detail::Signature),
            "full" => Some(Detail::Full),
            _ => None,
        }
    }
}

/// A tool in an answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shown {
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

impl Shown {
    pub(crate) fn new(tool: &Tool, detail: Detail, language: Language, noted: &Noted<'_>) -> Shown {
        let description = &tool.definition.description;
        let server_says = match detail {
            Detail::Names => None,
            Detail::Summary | Detail::Signature => Some(said::summary(description)),
            // A declaration contains the description, unless that is long.
            Detail::Full => Some(said::full(description)).filter(|text| text.chars().count() > STUB),
        };
        Shown {
            name: tool.name.as_str().to_owned(),
            server_says: server_says.filter(|text| !text.is_empty()),
            signature: (detail == Detail::Signature).then(|| signature(tool, language, noted.observed)),
            stub: (detail == Detail::Full).then(|| stub(tool, language, &noted.notes, noted.observed)),
        }
    }
}

/// The most characters of a description that a declaration contains.
const STUB: usize = 600;
