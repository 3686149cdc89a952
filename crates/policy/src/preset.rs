//! Policies and network rule sets that come with the program, embedded as the files people read.

use std::fmt;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::draft::Draft;
use crate::net::HostRule;

/// Name and text of every preset; the first is the built-in default.
const PRESETS: [(&str, &str); 6] = [
    ("default", include_str!("../../../policies/default.yaml")),
    ("demo", include_str!("../../../policies/demo.yaml")),
    ("level-1", include_str!("../../../policies/level-1.yaml")),
    ("level-2", include_str!("../../../policies/level-2.yaml")),
    ("level-3", include_str!("../../../policies/level-3.yaml")),
    ("level-4", include_str!("../../../policies/level-4.yaml")),
];

/// The built-in default, parsed when it is first asked for: it lies under every policy.
static BUILTIN: LazyLock<Draft> = LazyLock::new(|| parsed(PRESETS[0]));

fn parsed((name, text): (&str, &str)) -> Draft {
    match Draft::parse(text, name) {
        Ok(draft) => draft,
        Err(error) => unreachable!("a preset is part of the program and tested: {error}"),
    }
}

/// The names of the presets that [`Draft::preset`] knows.
pub fn presets() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|(name, _)| *name)
}

/// The text of a preset's file, with its comments.
pub fn preset_text(name: &str) -> Option<&'static str> {
    PRESETS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

impl Draft {
    /// The built-in default, which lies under every draft.
    pub fn builtin() -> Self {
        BUILTIN.clone()
    }

    /// A preset by name.
    pub fn preset(name: &str) -> Option<Self> {
        PRESETS.into_iter().find(|(known, _)| *known == name).map(parsed)
    }
}

/// A reviewed rule set for `net.presets`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NetPreset {
    /// Reading from the Python package index.
    PythonPackages,
    /// Reading from the npm registry.
    Npm,
    /// Reading and cloning from GitHub; no push, no write by its API.
    GithubRead,
}

static NET: LazyLock<[Vec<HostRule>; 3]> = LazyLock::new(|| {
    [
        include_str!("../../../policies/net/python-packages.yaml"),
        include_str!("../../../policies/net/npm.yaml"),
        include_str!("../../../policies/net/github-read.yaml"),
    ]
    .map(|text| match Draft::parse(text, "net preset") {
        Ok(draft) => draft.net.map(|net| net.allowlist).unwrap_or_default(),
        Err(error) => unreachable!("a net preset is part of the program and tested: {error}"),
    })
});

impl NetPreset {
    /// The rules that the name stands for.
    pub fn rules(self) -> &'static [HostRule] {
        match self {
            Self::PythonPackages => &NET[0],
            Self::Npm => &NET[1],
            Self::GithubRead => &NET[2],
        }
    }
}

impl fmt::Display for NetPreset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PythonPackages => "python-packages",
            Self::Npm => "npm",
            Self::GithubRead => "github-read",
        })
    }
}

#[cfg(test)]
mod tests;
