//! The part of a catalog that one policy shows. A denied tool affects no answer: not by name, as a neighbour, as a suggestion or
//! in a count of its server. Answers contain only the number of all hidden tools.

use ringfence_policy::Policy;
use serde::Serialize;
use serde_json::Value;

use crate::catalog::{Catalog, CatalogServer};
use crate::index::SearchIndex;
use crate::query::SearchQuery;
use crate::rank::{ScoredPart, ToolScores, score};
use crate::stubs::StubNotes;
use crate::tokens;
use crate::tool::Tool;

/// Extra information on a tool, besides its definition.
#[derive(Debug, Clone, Default)]
pub struct ToolExtras<'a> {
    /// The remarks of the policy.
    pub notes: StubNotes,
    /// The result schema that [`crate::observe`] derived; `None` if no result was observed.
    pub observed: Option<&'a Value>,
}

/// The part of a catalog that one policy shows, with further small catalogs beside it.
pub struct CatalogView<'a> {
    /// The main catalog first; indexes of tools count through all parts.
    pub(crate) parts: Vec<ViewPart<'a>>,
    pub(crate) hidden: usize,
    notes: &'a dyn Fn(&Tool) -> ToolExtras<'a>,
}

/// One catalog of a view, with the visibility of each tool.
pub(crate) struct ViewPart<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) index: &'a SearchIndex,
    visible: Vec<bool>,
}

impl std::fmt::Debug for CatalogView<'_> {
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

impl<'a> ViewPart<'a> {
    fn new(catalog: &'a Catalog, index: &'a SearchIndex, shows: impl Fn(&Tool) -> bool) -> ViewPart<'a> {
        let visible = catalog.tools().iter().map(shows).collect();
        ViewPart {
            catalog,
            index,
            visible,
        }
    }

    pub(crate) fn is_visible(&self, place: usize) -> bool {
        self.visible.get(place).copied().unwrap_or_default()
    }

    /// The visible tools of a server.
    pub(crate) fn tools_of_server(&self, entry: &CatalogServer) -> impl Iterator<Item = &'a Tool> {
        let catalog = self.catalog;
        entry
            .tools
            .clone()
            .filter(|place| self.is_visible(*place))
            .filter_map(move |place| catalog.tools().get(place))
    }
}

impl<'a> CatalogView<'a> {
    /// The tools of `catalog` that `policy` shows; `index` must be that of the catalog.
    pub fn new(catalog: &'a Catalog, index: &'a SearchIndex, policy: &Policy) -> CatalogView<'a> {
        let shows = |tool: &Tool| policy.shows_tool(&tool.name, tool.hints());
        CatalogView::from_part(ViewPart::new(catalog, index, shows))
    }

    /// All tools of a catalog, for the operator.
    pub fn everything(catalog: &'a Catalog, index: &'a SearchIndex) -> CatalogView<'a> {
        CatalogView::from_part(ViewPart::new(catalog, index, |_| true))
    }

    fn from_part(part: ViewPart<'a>) -> CatalogView<'a> {
        let view = CatalogView {
            parts: Vec::with_capacity(2),
            hidden: 0,
            notes: &|_| ToolExtras::default(),
        };
        view.with_part(part)
    }

    fn with_part(mut self, part: ViewPart<'a>) -> CatalogView<'a> {
        self.hidden += part.visible.iter().filter(|visible| !**visible).count();
        self.parts.push(part);
        self
    }

    /// Adds the tools of a small catalog that `policy` shows. `index` must be that of the small catalog, built beside the main
    /// one; no server may be in both catalogs.
    #[must_use]
    pub fn with_catalog(self, catalog: &'a Catalog, index: &'a SearchIndex, policy: &Policy) -> CatalogView<'a> {
        let shows = |tool: &Tool| policy.shows_tool(&tool.name, tool.hints());
        self.with_part(ViewPart::new(catalog, index, shows))
    }

    /// Adds extra information on tools, which full details show.
    #[must_use]
    pub fn with_extras(mut self, notes: &'a dyn Fn(&Tool) -> ToolExtras<'a>) -> CatalogView<'a> {
        self.notes = notes;
        self
    }

    pub(crate) fn extras(&self, tool: &Tool) -> ToolExtras<'a> {
        (self.notes)(tool)
    }

    /// The part that contains a tool, and the tool's index within it.
    pub(crate) fn locate(&self, mut place: usize) -> Option<(usize, usize)> {
        for (number, part) in self.parts.iter().enumerate() {
            if place < part.visible.len() {
                return Some((number, place));
            }
            place -= part.visible.len();
        }
        None
    }

    /// The tool with this index.
    pub(crate) fn tool(&self, place: usize) -> Option<&'a Tool> {
        let (number, place) = self.locate(place)?;
        self.parts.get(number)?.catalog.tools().get(place)
    }

    /// The names of all visible tools.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'a str> {
        let tools = self.parts.iter().flat_map(|part| {
            let tools = part.catalog.tools().iter().zip(&part.visible);
            tools.filter(|(_, visible)| **visible).map(|(tool, _)| tool)
        });
        tools.map(|tool| tool.name.as_str())
    }

    /// Every server with its part, in the order of names within each part.
    pub(crate) fn servers_with_parts(&self) -> impl Iterator<Item = (&ViewPart<'a>, &'a CatalogServer)> {
        self.parts
            .iter()
            .flat_map(|part| part.catalog.servers().iter().map(move |entry| (part, entry)))
    }

    /// The likeness of two tools, from 0 to 1. It is zero for tools of different catalogs.
    pub(crate) fn likeness(&self, one: usize, other: usize) -> f32 {
        match (self.locate(one), self.locate(other)) {
            (Some((part, one)), Some((same, other))) if part == same => {
                self.parts.get(part).map_or(0.0, |part| part.index.likeness(one, other))
            }
            _ => 0.0,
        }
    }

    /// Scores every tool for a query.
    pub(crate) fn score(&self, question: &SearchQuery) -> ToolScores {
        let parts: Vec<ScoredPart<'_>> = self
            .parts
            .iter()
            .map(|part| (part.index, part.visible.as_slice()))
            .collect();
        score(&parts, question)
    }

    /// The fingerprint to which cursors are bound: the tools, and which of them are visible.
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

/// The tokens of an answer as JSON, without its own count.
pub(crate) fn token_cost(answer: &impl Serialize) -> usize {
    serde_json::to_string(answer).map_or(0, |text| tokens::count_tokens(&text))
}

#[cfg(test)]
mod tests;
