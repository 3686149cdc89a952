//! Search with several short intents at once, which share the slots of the answer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::cursor::{BadCursor, CursorScope};
use crate::detail::{DetailLevel, ToolEntry};
use crate::fields::truncate_bytes;
use crate::language::StubLanguage;
use crate::query::SearchQuery;
use crate::ranking_weights::TASK_WEIGHT;
use crate::slots::{ResultSlot, SlotFiller, rank_best};
use crate::view::{CatalogView, token_cost};

/// The number of slots of an answer if the request does not set it.
pub const DEFAULT_SLOTS: usize = 10;
/// The most slots of one answer.
const MAX_SLOTS: usize = 50;
/// The most intents of one search.
const MAX_INTENTS: usize = 20;
/// The most bytes of an intent that the answer repeats.
const MAX_ECHO_BYTES: usize = 200;
/// The last page that a cursor may request: each page is computed from the first one on.
const MAX_PAGED_SLOTS: usize = 1_000;

/// A search for tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSearch {
    /// The intents, a short phrase for each step.
    #[serde(default)]
    pub intents: Vec<String>,
    /// The goal of all steps, which adds context to every intent.
    #[serde(default)]
    pub task: Option<String>,
    /// The level of detail of each tool.
    #[serde(default)]
    pub detail: DetailLevel,
    /// The language of signatures and declarations.
    #[serde(default)]
    pub language: StubLanguage,
    /// The number of slots in total; ten if absent.
    #[serde(default)]
    pub limit: Option<usize>,
    /// The cursor of an earlier answer; `None` for the first page.
    #[serde(default)]
    pub cursor: Option<String>,
}

/// The reason why a search failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SearchError {
    /// The search has no intent and no task.
    #[error("nothing to search for: give at least one intent, such as `send an email`")]
    Empty,
    /// The search has too many intents.
    #[error("{given} intents are too many: at most {MAX_INTENTS} in one search")]
    TooMany {
        /// The number of intents that were given.
        given: usize,
    },
    /// The cursor is not valid for this search.
    #[error(transparent)]
    Cursor(#[from] BadCursor),
}

/// A page of search results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SearchPage {
    /// The results of each intent, in the order of the search.
    pub intents: Vec<IntentHits>,
    /// The number of further tools of each server in the results.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub more_from_server: BTreeMap<String, usize>,
    /// The cursor of the next page; `None` on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// The number of tools in the whole catalog that the policy hides.
    pub hidden_by_policy: usize,
    /// The cost of this answer for a model: its JSON without this field, in tokens of `o200k_base`.
    pub tokens: usize,
}

/// The results of one intent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IntentHits {
    /// The intent as it was given.
    pub intent: String,
    /// The tools, best first.
    pub slots: Vec<SearchHit>,
    /// The name of the best tool for this intent, if another intent already lists it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub see: Option<String>,
}

/// A tool in the results, with similar tools.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SearchHit {
    /// The best of the similar tools.
    #[serde(flatten)]
    pub tool: ToolEntry,
    /// The names of similar tools, any of which can replace it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alike: Vec<String>,
    /// The score, rounded to two decimals; scores of one answer are comparable.
    pub score: f32,
}

impl CatalogView<'_> {
    /// Searches tools for these intents.
    pub fn search(&self, search: &ToolSearch) -> Result<SearchPage, SearchError> {
        if search.intents.len() > MAX_INTENTS {
            return Err(SearchError::TooMany {
                given: search.intents.len(),
            });
        }
        let task = search.task.as_deref().unwrap_or_default();
        let is_blank = |text: &str| !text.chars().any(char::is_alphanumeric);
        let mut intents: Vec<&str> = search.intents.iter().map(String::as_str).collect();
        if intents.iter().all(|intent| is_blank(intent)) {
            if is_blank(task) {
                return Err(SearchError::Empty);
            }
            intents = vec![task];
        }
        let limit = search.limit.unwrap_or(DEFAULT_SLOTS).clamp(1, MAX_SLOTS);
        let place = intents
            .iter()
            .fold(CursorScope::new("search", self.fingerprint()), |place, intent| {
                place.with_part(intent)
            })
            .with_part(task)
            .with_part(&limit.to_string());
        let page = place.decode(search.cursor.as_deref())?;
        if page > MAX_PAGED_SLOTS {
            return Err(BadCursor.into());
        }
        let rankings = self.rank_intents(&intents, task);
        let likeness = |one, other| self.likeness(one, other);
        let mut filler = SlotFiller::new(&likeness, &rankings);
        for _ in 0..page {
            filler.next_page(limit);
        }
        let slots = filler.next_page(limit);
        let cursor = filler.has_more().then(|| place.encode(page + 1));
        Ok(self.build_page(search, &intents, &rankings, &slots, cursor))
    }

    fn rank_intents(&self, intents: &[&str], task: &str) -> Vec<Vec<(usize, f32)>> {
        let context = (!task.is_empty() && intents != [task]).then(|| self.score(&SearchQuery::parse(task)));
        let ranking = |intent: &&str| {
            let mut scores = self.score(&SearchQuery::parse(intent));
            // A blank intent has no results, whatever the task.
            if let Some(context) = &context
                && scores.iter().any(|score| *score > 0.0)
            {
                for (score, more) in scores.iter_mut().zip(context) {
                    *score += TASK_WEIGHT * more;
                }
            }
            rank_best(&scores)
        };
        intents.iter().map(ranking).collect()
    }

    fn build_page(
        &self,
        search: &ToolSearch,
        intents: &[&str],
        rankings: &[Vec<(usize, f32)>],
        slots: &[ResultSlot],
        cursor: Option<String>,
    ) -> SearchPage {
        let answer = |(question, intent): (usize, &&str)| {
            let slots: Vec<SearchHit> = slots
                .iter()
                .filter(|slot| slot.question == question)
                .filter_map(|slot| self.build_hit(slot, search))
                .collect();
            let best = rankings.get(question).and_then(|ranking| ranking.first());
            let see = best
                .filter(|_| slots.is_empty() && search.cursor.is_none())
                .and_then(|(tool, _)| self.tool(*tool));
            IntentHits {
                intent: crate::sanitize::clean_text(truncate_bytes(intent, MAX_ECHO_BYTES)),
                slots,
                see: see.map(|tool| tool.name.as_str().to_owned()),
            }
        };
        let mut found = SearchPage {
            intents: intents.iter().enumerate().map(answer).collect(),
            more_from_server: self.unseen_by_server(slots),
            cursor,
            hidden_by_policy: self.hidden,
            tokens: 0,
        };
        found.tokens = token_cost(&found);
        found
    }

    fn build_hit(&self, slot: &ResultSlot, search: &ToolSearch) -> Option<SearchHit> {
        let mut tools = slot.tools.iter().filter_map(|place| self.tool(*place));
        let first = tools.next()?;
        Some(SearchHit {
            tool: ToolEntry::new(first, search.detail, search.language, &self.extras(first)),
            alike: tools.map(|tool| tool.name.as_str().to_owned()).collect(),
            score: (slot.score * 100.0).round() / 100.0,
        })
    }

    /// Counts the tools of each server in the results that the results do not list.
    fn unseen_by_server(&self, slots: &[ResultSlot]) -> BTreeMap<String, usize> {
        let mut shown: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for place in slots.iter().flat_map(|slot| &slot.tools) {
            let found = self.locate(*place).and_then(|(number, place)| {
                let server = self.parts.get(number)?.index.servers.get(place)?;
                Some((number, *server as usize))
            });
            if let Some(server) = found {
                *shown.entry(server).or_default() += 1;
            }
        }
        let more = |((number, server), shown): ((usize, usize), usize)| {
            let part = self.parts.get(number)?;
            let entry = part.catalog.servers().get(server)?;
            let more = part.tools_of_server(entry).count().saturating_sub(shown);
            (more > 0).then(|| (entry.server.clone(), more))
        };
        shown.into_iter().filter_map(more).collect()
    }
}

#[cfg(test)]
mod tests;
