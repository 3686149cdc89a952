//! Search with several short intents at once, which share the slots of the answer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::cursor::{BadCursor, Place};
use crate::detail::{Detail, Shown};
use crate::fields::cut;
use crate::language::Language;
use crate::parameters::TASK;
use crate::question::Question;
use crate::slots::{Filler, Slot, best};
use crate::view::{View, cost};

/// The number of slots of an answer if the request does not set it.
pub const SLOTS: usize = 10;
/// The most slots of one answer.
const MOST_SLOTS: usize = 50;
/// The most intents of one search.
const INTENTS: usize = 20;
/// The most bytes of an intent that the answer repeats.
const ECHO: usize = 200;
/// The last page that a cursor may request: each page is computed from the first one on.
const PAGES: usize = 1_000;

/// A search for tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// The intents, a short phrase for each step.
    #[serde(default)]
    pub intents: Vec<String>,
    /// The goal of all steps, which adds context to every intent.
    #[serde(default)]
    pub task: Option<String>,
    /// The level of detail of each tool.
    #[serde(default)]
    pub detail: Detail,
    /// The language of signatures and declarations.
    #[serde(default)]
    pub language: Language,
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
    #[error("{given} intents are too many: at most {INTENTS} in one search")]
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
pub struct Found {
    /// The results of each intent, in the order of the search.
    pub intents: Vec<Answer>,
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
pub struct Answer {
    /// The intent as it was given.
    pub intent: String,
    /// The tools, best first.
    pub slots: Vec<Hit>,
    /// The name of the best tool for this intent, if another intent already lists it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub see: Option<String>,
}

/// A tool in the results, with similar tools.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Hit {
    /// The best of the similar tools.
    #[serde(flatten)]
    pub tool: Shown,
    /// The names of similar tools, any of which can replace it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alike: Vec<String>,
    /// The score, rounded to two decimals; scores of one answer are comparable.
    pub score: f32,
}

impl View<'_> {
    /// Searches tools for these intents.
    pub fn search(&self, search: &Search) -> Result<Found, SearchError> {
        if search.intents.len() > INTENTS {
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
        let limit = search.limit.unwrap_or(SLOTS).clamp(1, MOST_SLOTS);
        let place = intents
            .iter()
            .fold(Place::new("search", self.fingerprint()), |place, intent| {
                place.and(intent)
            })
            .and(task)
            .and(&limit.to_string());
        let page = place.read(search.cursor.as_deref())?;
        if page > PAGES {
            return Err(BadCursor.into());
        }
        let rankings = self.rankings(&intents, task);
        let likeness = |one, other| self.likeness(one, other);
        let mut filler = Filler::new(&likeness, &rankings);
        for _ in 0..page {
            filler.page(limit);
        }
        let slots = filler.page(limit);
        let cursor = filler.has_more().then(|| place.write(page + 1));
        Ok(self.found(search, &intents, &rankings, &slots, cursor))
    }

    fn rankings(&self, intents: &[&str], task: &str) -> Vec<Vec<(usize, f32)>> {
        let context = (!task.is_empty() && intents != [task]).then(|| self.score(&Question::read(task)));
        let ranking = |intent: &&str| {
            let mut scores = self.score(&Question::read(intent));
            // A blank intent has no results, whatever the task.
            if let Some(context) = &context
                && scores.iter().any(|score| *score > 0.0)
            {
                for (score, more) in scores.iter_mut().zip(context) {
                    *score += TASK * more;
                }
            }
            best(&scores)
        };
        intents.iter().map(ranking).collect()
    }

    fn found(
        &self,
        search: &Search,
        intents: &[&str],
        rankings: &[Vec<(usize, f32)>],
        slots: &[Slot],
        cursor: Option<String>,
    ) -> Found {
        let answer = |(question, intent): (usize, &&str)| {
            let slots: Vec<Hit> = slots
                .iter()
                .filter(|slot| slot.question == question)
                .filter_map(|slot| self.hit(slot, search))
                .collect();
            let best = rankings.get(question).and_then(|ranking| ranking.first());
            let see = best
                .filter(|_| slots.is_empty() && search.cursor.is_none())
                .and_then(|(tool, _)| self.tool(*tool));
            Answer {
                intent: crate::said::full(cut(intent, ECHO)),
                slots,
                see: see.map(|tool| tool.name.as_str().to_owned()),
            }
        };
        let mut found = Found {
            intents: intents.iter().enumerate().map(answer).collect(),
            more_from_server: self.more(slots),
            cursor,
            hidden_by_policy: self.hidden,
            tokens: 0,
        };
        found.tokens = cost(&found);
        found
    }

    fn hit(&self, slot: &Slot, search: &Search) -> Option<Hit> {
        let mut tools = slot.tools.iter().filter_map(|place| self.tool(*place));
        let first = tools.next()?;
        Some(Hit {
            tool: Shown::new(first, search.detail, search.language, &self.noted(first)),
            alike: tools.map(|tool| tool.name.as_str().to_owned()).collect(),
            score: (slot.score * 100.0).round() / 100.0,
        })
    }

    /// Counts the tools of each server in the results that the results do not list.
    fn more(&self, slots: &[Slot]) -> BTreeMap<String, usize> {
        let mut shown: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for place in slots.iter().flat_map(|slot| &slot.tools) {
            let found = self.part(*place).and_then(|(number, place)| {
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
            let more = part.of_server(entry).count().saturating_sub(shown);
            (more > 0).then(|| (entry.server.clone(), more))
        };
        shown.into_iter().filter_map(more).collect()
    }
}

#[cfg(test)]
mod tests;
