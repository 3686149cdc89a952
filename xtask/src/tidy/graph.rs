//! The dependency graph, as `cargo metadata` reports it for this machine's platform.

use std::collections::{BTreeMap, BTreeSet};
use std::env::consts::ARCH;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::program;

/// Our packages are `ringfence-<word>`; `xtask` has no prefix.
const PREFIX: &str = "ringfence-";

/// The kind of a dependency: when it is linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DependencyKind {
    Normal,
    Build,
    Dev,
}

impl DependencyKind {
    fn parse(value: &Value) -> Self {
        match value.as_str() {
            Some("dev") => Self::Dev,
            Some("build") => Self::Build,
            _ => Self::Normal,
        }
    }
}

/// A dependency of one of our crates, as its manifest has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DependencyEdge {
    /// The word of one of our crates, or the name of a foreign package.
    pub(super) to: String,
    pub(super) kind: DependencyKind,
    /// The features that it asks for.
    pub(super) features: Vec<String>,
}

/// Our crates by their word with the dependencies in their manifests, and the resolved graph of all packages by name.
#[derive(Debug, Default)]
pub(super) struct DependencyGraph {
    members: BTreeMap<String, Vec<DependencyEdge>>,
    /// Package names to the packages that they link: normal dependencies only, all versions together.
    linked: BTreeMap<String, BTreeSet<String>>,
}

impl DependencyGraph {
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut cargo = program::cargo(root);
        let platform = format!("{ARCH}-unknown-linux-gnu");
        cargo.args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--filter-platform",
            &platform,
        ]);
        let text = program::read_stdout(&mut cargo)?;
        let metadata: Value = serde_json::from_str(&text).context("cannot read what `cargo metadata` says")?;
        Self::parse(&metadata).context("`cargo metadata` has another shape than expected")
    }

    pub(super) fn parse(metadata: &Value) -> Option<Self> {
        let mut graph = Self::default();
        let mut names = BTreeMap::new();
        let ours: BTreeSet<_> = string_items(metadata.get("workspace_members")?).collect();
        for package in metadata.get("packages")?.as_array()? {
            let (id, name) = (package.get("id")?.as_str()?, package.get("name")?.as_str()?);
            names.insert(id, name);
            if !ours.contains(id) {
                continue;
            }
            let mut edges = Vec::new();
            for dependency in package.get("dependencies")?.as_array()? {
                let to = crate_word(dependency.get("name")?.as_str()?).to_owned();
                edges.push(DependencyEdge {
                    to,
                    kind: DependencyKind::parse(dependency.get("kind")?),
                    features: string_items(&dependency["features"]).map(str::to_owned).collect(),
                });
            }
            graph.members.insert(crate_word(name).to_owned(), edges);
        }
        for node in metadata.get("resolve")?.get("nodes")?.as_array()? {
            let from = *names.get(node.get("id")?.as_str()?)?;
            for dependency in node.get("deps")?.as_array()? {
                let to = *names.get(dependency.get("pkg")?.as_str()?)?;
                let kinds = dependency.get("dep_kinds")?.as_array()?;
                let normal = kinds
                    .iter()
                    .any(|kind| DependencyKind::parse(&kind["kind"]) == DependencyKind::Normal);
                let linked = graph.linked.entry(crate_word(from).to_owned()).or_default();
                if normal {
                    linked.insert(crate_word(to).to_owned());
                }
                graph.linked.entry(crate_word(to).to_owned()).or_default();
            }
        }
        Some(graph)
    }

    /// Our crates, each with the dependencies in its manifest.
    pub(super) fn members(&self) -> impl Iterator<Item = (&str, &[DependencyEdge])> {
        self.members
            .iter()
            .map(|(name, edges)| (name.as_str(), edges.as_slice()))
    }

    pub(super) fn is_member(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// Every package that is linked or built with, directly or not.
    pub(super) fn packages(&self) -> impl Iterator<Item = &str> {
        self.linked.keys().map(String::as_str)
    }

    /// The path from one package to another along normal dependencies, both ends included.
    pub(super) fn dependency_path(&self, from: &str, to: &str) -> Option<Vec<String>> {
        let mut before: BTreeMap<&str, &str> = BTreeMap::new();
        let mut next = vec![from];
        while let Some(here) = next.pop() {
            if here == to {
                let mut way = vec![here];
                while let Some(&earlier) = way.last().and_then(|last| before.get(last)) {
                    way.push(earlier);
                }
                return Some(way.into_iter().rev().map(str::to_owned).collect());
            }
            for found in self.linked.get(here).into_iter().flatten() {
                if found != from && !before.contains_key(found.as_str()) {
                    before.insert(found, here);
                    next.push(found);
                }
            }
        }
        None
    }

    /// A graph of crates and what they link; names given as crates are members.
    #[cfg(test)]
    pub(super) fn from_edges(members: &[(&str, &[(&str, DependencyKind)])], linked: &[(&str, &[&str])]) -> Self {
        let mut graph = Self::default();
        for (from, edges) in members {
            let edges = edges.iter().map(|&(to, kind)| DependencyEdge {
                to: to.to_owned(),
                kind,
                features: Vec::new(),
            });
            graph.members.insert((*from).to_owned(), edges.collect());
        }
        for (from, to) in linked {
            let to = to.iter().map(|&name| name.to_owned());
            graph.linked.insert((*from).to_owned(), to.collect());
        }
        graph
    }
}

fn string_items(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn crate_word(package: &str) -> &str {
    package.strip_prefix(PREFIX).unwrap_or(package)
}

#[cfg(test)]
mod tests;
