//! What one policy may see of a catalog. A tool that it denies is in no answer: not by name, nor as a neighbour, a suggestion or
//! a count of its server. Answers say only how many tools are hidden in all.

use ringfence_policy::Policy;
use serde::Serialize;
use serde_json::Value;

use crate::catalog::{Catalog, Entry};
use crate::index::Index;
use crate::question::Question;
use crate::rank::{Scores, Seen, score};
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

/// What one policy may see of a catalog, and of a small one beside it.
pub struct View<'a> {
    /// The catalog first; places of tools are counted through.
    pub(crate) parts: Vec<Part<'a>>,
    pub(crate) hidden: usize,
    notes: &'a dyn Fn(&Tool) -> Noted<'a>,
}

/// One catalog of a view.
pub(crate) struct Part<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) index: &'a Index,
    visible: Vec<bool>,
}

impl std::fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View")
            .field(
                "tools",
                &self.parts.iter().map(|part| part.visible.len()).sum::<usize>(),
            )
            .field("hidden", &self.hidden)
            .finish_non_exhaustive()
    }
}

impl<'a> Part<'a> {
    fn new(catalog: &'a Catalog, index: &'a Index, shows: impl Fn(&Tool) -> bool) -> Part<'a> {
        let visible = catalog.tools().iter().map(shows).collect();
        Part {
            catalog,
            index,
            visible,
        }
    }

    pub(crate) fn is_visible(&self, place: usize) -> bool {
        self.visible.get(place).copied().unwrap_or_default()
    }

    /// The tools of a server that may be seen.
    pub(crate) fn of_server(&self, entry: &Entry) -> impl Iterator<Item = &'a Tool> {
        let catalog = self.catalog;
        entry
            .tools
            .clone()
            .filter(|place| self.is_visible(*place))
            .filter_map(move |place| catalog.tools().get(place))
    }
}

impl<'a> View<'a> {
    /// What `policy` shows of `catalog`; `index` must be the catalog's own.
    pub fn new(catalog: &'a Catalog, index: &'a Index, policy: &Policy) -> View<'a> {
        let shows = |tool: &Tool| policy.shows(&tool.name, tool.hints());
        View::of(Part::new(catalog, index, shows))
    }

    /// All of it, for the operator.
    pub fn everything(catalog: &'a Catalog, index: &'a Index) -> View<'a> {
        View::of(Part::new(catalog, index, |_| true))
    }

    fn of(part: Part<'a>) -> View<'a> {
        let view = View {
            parts: Vec::with_capacity(2),
            hidden: 0,
            notes: &|_| Noted::default(),
        };
        view.and(part)
    }

    fn and(mut self, part: Part<'a>) -> View<'a> {
        self.hidden += part.visible.iter().filter(|visible| !**visible).count();
        self.parts.push(part);
        self
    }

    /// With what `policy` shows of another, small catalog; `index` must be that catalog's own, made beside this one's. The name of
    /// none of its servers is in this catalog.
    #[must_use]
    pub fn beside(self, catalog: &'a Catalog, index: &'a Index, policy: &Policy) -> View<'a> {
        let shows = |tool: &Tool| policy.shows(&tool.name, tool.hints());
        self.and(Part::new(catalog, index, shows))
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

    /// The part that a place is in, and which of its tools it is.
    pub(crate) fn part(&self, mut place: usize) -> Option<(usize, usize)> {
        for (number, part) in self.parts.iter().enumerate() {
            if place < part.visible.len() {
                return Some((number, place));
            }
            place -= part.visible.len();
        }
        None
    }

    /// The tool at this place.
    pub(crate) fn tool(&self, place: usize) -> Option<&'a Tool> {
        let (number, place) = self.part(place)?;
        self.parts.get(number)?.catalog.tools().get(place)
    }

    /// The names of all tools that may be seen.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'a str> {
        let tools = self.parts.iter().flat_map(|part| {
            let tools = part.catalog.tools().iter().zip(&part.visible);
            tools.filter(|(_, visible)| **visible).map(|(tool, _)| tool)
        });
        tools.map(|tool| tool.name.as_str())
    }

    /// Every server with its part, in the order of their names within each.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&Part<'a>, &'a Entry)> {
        self.parts
            .iter()
            .flat_map(|part| part.catalog.servers().iter().map(move |entry| (part, entry)))
    }

    /// How alike two tools are, from 0 to 1. Tools of two catalogs are never so alike that one would do for the other.
    pub(crate) fn likeness(&self, one: usize, other: usize) -> f32 {
        match (self.part(one), self.part(other)) {
            (Some((part, one)), Some((same, other))) if part == same => {
                self.parts.get(part).map_or(0.0, |part| part.index.likeness(one, other))
            }
            _ => 0.0,
        }
    }

    /// The score of every tool for a question.
    pub(crate) fn score(&self, question: &Question) -> Scores {
        let parts: Vec<Seen<'_>> = self
            .parts
            .iter()
            .map(|part| (part.index, part.visible.as_slice()))
            .collect();
        score(&parts, question)
    }

    /// What the cursors of this view are bound to: the tools, and which of them may be seen.
    pub(crate) fn fingerprint(&self) -> [u8; 8] {
        let mut hasher = blake3::Hasher::new();
        for part in &self.parts {
            hasher.update(&part.index.fingerprint);
            let seen: Vec<u8> = part.visible.iter().map(|visible| u8::from(*visible)).collect();
            hasher.update(&seen);
        }
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
