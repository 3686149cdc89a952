//! Policies and network rule sets that are part of the program, embedded as the files that people read.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::draft::Draft;
use crate::host::Host;
use crate::net::{DenyEntry, HostRule};

/// The name and text of every preset; the first is the built-in default.
const PRESETS: [(&str, &str); 6] = [
    ("default", include_str!("../../../policies/default.yaml")),
    ("demo", include_str!("../../../policies/demo.yaml")),
    ("level-1", include_str!("../../../policies/level-1.yaml")),
    ("level-2", include_str!("../../../policies/level-2.yaml")),
    ("level-3", include_str!("../../../policies/level-3.yaml")),
    ("level-4", include_str!("../../../policies/level-4.yaml")),
];

/// The built-in default, parsed on first use.
static BUILTIN_DRAFT: LazyLock<Draft> = LazyLock::new(|| parse_preset(PRESETS[0].0, PRESETS[0].1));

fn parse_preset(name: &str, text: &str) -> Draft {
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
        BUILTIN_DRAFT.clone()
    }

    /// The preset with this name; `None` if there is none.
    pub fn preset(name: &str) -> Option<Self> {
        PRESETS
            .into_iter()
            .find(|(known, _)| *known == name)
            .map(|(name, text)| parse_preset(name, text))
    }
}

/// A reviewed rule set for `net.presets`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NetPreset {
    /// Read access to the Python package index.
    PythonPackages,
    /// Read access to the npm registry.
    Npm,
    /// Read and clone access to GitHub, without pushes and without writes through its API.
    GithubRead,
}

static NET_PRESET_RULES: LazyLock<[Vec<HostRule>; 3]> = LazyLock::new(|| {
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
    /// The rules of the preset.
    pub fn rules(self) -> &'static [HostRule] {
        match self {
            Self::PythonPackages => &NET_PRESET_RULES[0],
            Self::Npm => &NET_PRESET_RULES[1],
            Self::GithubRead => &NET_PRESET_RULES[2],
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

/// A reviewed set of denied hosts, for `net.denylist`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DenyPreset {
    /// Hosts of the vendors of language models.
    ModelVendors,
}

/// An index of hosts that are denied together: exact names are looked up, and only the few patterns are tried one by one.
struct DenyPresetIndex {
    rules: &'static [HostRule],
    names: HashMap<&'static str, usize>,
    patterns: Vec<usize>,
}

static MODEL_VENDORS: LazyLock<Vec<HostRule>> = LazyLock::new(|| {
    let text = include_str!("../../../policies/net/model-vendors.yaml");
    let draft = match Draft::parse(text, "model-vendors") {
        Ok(draft) => draft,
        Err(error) => unreachable!("a deny preset is part of the program and tested: {error}"),
    };
    let entries = draft.net.map(|net| net.denylist).unwrap_or_default();
    entries.into_iter().filter_map(DenyEntry::into_rule).collect()
});

static DENY_PRESET_INDEX: LazyLock<DenyPresetIndex> = LazyLock::new(|| {
    let rules: &'static [HostRule] = &MODEL_VENDORS;
    let is_pattern = |rule: &HostRule| rule.host.as_str().contains('*');
    let places = || rules.iter().enumerate();
    DenyPresetIndex {
        names: places()
            .filter(|(_, rule)| !is_pattern(rule))
            .map(|(place, rule)| (rule.host.as_str(), place))
            .collect(),
        patterns: places()
            .filter(|(_, rule)| is_pattern(rule))
            .map(|(place, _)| place)
            .collect(),
        rules,
    }
});

impl DenyPreset {
    /// Every deny preset, in the order of declaration.
    pub const ALL: [Self; 1] = [Self::ModelVendors];

    /// The name that follows `preset:` in a denylist.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ModelVendors => "model-vendors",
        }
    }

    /// The rules of the preset. They name only hosts, so they match every request.
    pub fn rules(self) -> &'static [HostRule] {
        match self {
            Self::ModelVendors => DENY_PRESET_INDEX.rules,
        }
    }

    /// The index of the rule that matches this host.
    pub(crate) fn matching_rule(self, host: &Host) -> Option<usize> {
        let Host::Name(name) = host else { return None };
        let DenyPresetIndex { rules, names, patterns } = match self {
            Self::ModelVendors => &*DENY_PRESET_INDEX,
        };
        let exact = names.get(name.as_str()).copied();
        exact.or_else(|| {
            patterns
                .iter()
                .copied()
                .find(|place| rules.get(*place).is_some_and(|rule| rule.host.matches(host)))
        })
    }
}

#[cfg(test)]
mod tests;
