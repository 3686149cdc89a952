//! How much of a tool is shown, and a tool shown so.

use serde::{Deserialize, Serialize};

use crate::language::Language;
use crate::said;
use crate::stubs::{signature, stub};
use crate::tool::Tool;
use crate::view::Noted;

/// How much of each tool an answer shows; each step costs more tokens than the one before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Detail {
    /// Its name.
    Names,
    /// And the first sentence of what its server says.
    #[default]
    Summary,
    /// And its parameters on one line.
    Signature,
    /// And its types and all of what its server says.
    Full,
}

impl Detail {
    /// The detail of this name.
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

/// One tool in an answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shown {
    /// Its canonical name.
    pub name: String,
    /// What its server says it does: the server's words, no instruction. Capped and cleaned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_says: Option<String>,
    /// Its parameters and result on one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Its declaration in the language asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stub: Option<String>,
}

impl Shown {
    pub(crate) fn new(tool: &Tool, detail: Detail, language: Language, noted: &Noted<'_>) -> Shown {
        let description = &tool.definition.description;
        let server_says = match detail {
            Detail::Names => None,
            Detail::Summary | Detail::Signature => Some(said::summary(description)),
            // A declaration holds what the server says, unless that is long.
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

/// Characters of a description that a declaration holds.
const STUB: usize = 600;
