//! The languages in which a tool can be declared.

use serde::{Deserialize, Serialize};

/// The language of a tool's declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StubLanguage {
    /// A TypeScript declaration of the tool's function.
    #[default]
    #[serde(alias = "ts", alias = "javascript", alias = "js")]
    TypeScript,
    /// A Python stub of the tool's function.
    #[serde(alias = "py")]
    Python,
    /// The JSON Schemas of arguments and result.
    Json,
}

impl StubLanguage {
    /// The language with this name or its usual abbreviation; `None` if there is none.
    pub fn from_name(name: &str) -> Option<StubLanguage> {
        match name {
            "typescript" | "ts" | "javascript" | "js" => Some(StubLanguage::TypeScript),
            "python" | "py" => Some(StubLanguage::Python),
            "json" => Some(StubLanguage::Json),
            _ => None,
        }
    }

    /// The name as requests and answers write it.
    pub fn name(self) -> &'static str {
        match self {
            StubLanguage::TypeScript => "typescript",
            StubLanguage::Python => "python",
            StubLanguage::Json => "json",
        }
    }
}
