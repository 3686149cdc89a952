//! What one policy may see of a catalog. A tool that it denies is in no answer: not by name, nor as a neighbour, a suggestion or
//! a count of its server. Answers say only how many tools are hidden in all.

use ringfence_policy::Policy;
use serde::Serialize;
use serde_json::Value;

use crate::catalog::{Catalog, Entry};
use crate::index::Index;
use crate::stubs::Notes;
use crate::tokens;
use crate::tool::Tool;

/// What is known of a tool besides its definition.
#[derive(Debug, Clone, Default)]
pub struct Noted<'a> {
    /// What the policy says of it.
    pub notes: Notes,
    /// The schema of its results as [`crate::observe`] learnt it.
    pub observed: Option<&'a Value>,
}

/// What one policy may see of a catalog.
pub struct View<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) index: &'a Index,
    pub(crate) visible: Vec<bool>,
    pub(crate) hidden: usize,
    notes: &'a dyn Fn(&Tool) -> Noted<'a>,
}

impl std::fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View")
            .field("tools", &self.visible.len())
            .field("hidden", &self.hidden)
            .finish_non_exhaustive()
    }
}

impl<'a> View<'a> {
    /// What `policy` shows of `catalog`; `index` must be the catalog's own.
    pub fn new(catalog: &'a Catalog, index: &'a Index, policy: &Policy) -> View<'a> {
        let visible = catalog.tools().iter().map(|tool| policy.shows(&tool.name)).collect();
        View::of(catalog, index, visible)
    }

    /// All of it, for the operator.
    pub fn everything(catalog: &'a Catalog, index: &'a Index) -> View<'a> {
        View::of(catalog, index, vec![true; catalog.tools().len()])
    }

    fn of(catalog: &'a Catalog, index: &'a Index, visible: Vec<bool>) -> View<'a> {
        View {
            catalog,
            index,
            hidden: visible.iter().filter(|visible| !**visible).count(),
            visible,
            notes: &|_| Noted::default(),
        }
    }

    /// With what is known of tools besides their definitions, for those shown in full.
    #[must_use]
    pub fn noting(mut self, notes: &'a dyn Fn(&Tool) -> Noted<'a>) -> View<'a> {
        self.notes = notes;
        self
    }

    pub(crate) fn noted(&self, tool: &Tool) -> Noted<'a> {
        (self.notes)(tool)
    }

    /// The tools of a server that may be seen.
    pub(crate) fn of_server(&self, entry: &Entry) -> impl Iterator<Item = &'a Tool> {
        let catalog = self.catalog;
        entry
            .tools
            .clone()
            .filter(|place| self.visible.get(*place).copied().unwrap_or_default())
            .filter_map(move |place| catalog.tools().get(place))
    }

    /// What the cursors of this view are bound to: the tools, and which of them may be seen.
    pub(crate) fn fingerprint(&self) -> [u8; 8] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.index.fingerprint);
        let seen: Vec<u8> = self.visible.iter().map(|visible| u8::from(*visible)).collect();
        hasher.update(&seen);
        let mut fingerprint = [0; 8];
        hasher.finalize_xof().fill(&mut fingerprint);
        fingerprint
    }
}

/// The tokens of an answer as JSON, its own count left out.
pub(crate) fn cost(answer: &impl Serialize) -> usize {
    serde_json::to_string(answer).map_or(0, |text| tokens::count(&text))
}

#[cfg(test)]
mod tests;
