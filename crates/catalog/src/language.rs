//! The languages in which a tool can be shown.

use serde::{Deserialize, Serialize};

/// How a tool is written down for whoever is to call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// A declaration of TypeScript.
    #[default]
    #[serde(alias = "ts", alias = "javascript", alias = "js")]
    TypeScript,
    /// A stub of Python.
    #[serde(alias = "py")]
    Python,
    /// The schema itself.
    Json,
}

impl Language {
    /// The language of this name, also by its usual short one.
    pub fn named(name: &str) -> Option<Language> {
        match name {
            "typescript" | "ts" | "javascript" | "js" => Some(Language::TypeScript),
            "python" | "py" => Some(Language::Python),
            "json" => Some(Language::Json),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Language::TypeScript => "typescript",
            Language::Python => "python",
            Language::Json => "json",
        }
    }
}
