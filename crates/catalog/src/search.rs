//! Search: several short intents at once, each answered, ten slots in all.

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

/// Slots of an answer unless asked for more or fewer.
pub const SLOTS: usize = 10;
/// The most slots of one answer.
const MOST_SLOTS: usize = 50;
/// The most intents of one question.
const INTENTS: usize = 20;
/// Bytes of an intent that the answer repeats.
const ECHO: usize = 200;
/// How far a search can be paged through.
const PAGES: usize = 1_000;

/// A question for tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// What is to be done, a short phrase for each step.
    #[serde(default)]
    pub intents: Vec<String>,
    /// What it is all for: context for every intent.
    #[serde(default)]
    pub task: Option<String>,
    /// How much of each tool to show.
    #[serde(default)]
    pub detail: Detail,
    /// In which language.
    #[serde(default)]
    pub language: Language,
    /// How many slots in all; ten when absent.
    #[serde(default)]
    pub limit: Option<usize>,
    /// Where an earlier answer went on.
    #[serde(default)]
    pub cursor: Option<String>,
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SearchError {
    /// There is nothing to look for.
    #[error("nothing to search for: give at least one intent, such as `send an email`")]
    Empty,
    /// There are too many intents.
    #[error("{given} intents are too many: at most {INTENTS} in one search")]
    TooMany {
        /// How many were given.
        given: usize,
    },
    /// The cursor is not good here.
    #[error(transparent)]
    Cursor(#[from] BadCursor),
}

/// The answer to a search.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Found {
    /// One answer for each intent, in their order.
    pub intents: Vec<Answer>,
    /// Servers of the tools found that have more, and how many more.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub more_from_server: BTreeMap<String, usize>,
    /// Where to go on, if there is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Tools that the policy hides, in the whole catalog.
    pub hidden_by_policy: usize,
    /// What this answer costs a model: its JSON without this field, in tokens of `o200k_base`.
    pub tokens: usize,
}

/// What was found for one intent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// The intent, as given.
    pub intent: String,
    /// The tools, best first.
    pub slots: Vec<Hit>,
    /// The best tool for it, where that stands under another intent already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub see: Option<String>,
}

/// A tool that was found, and its likes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Hit {
    /// The best of them.
    #[serde(flatten)]
    pub tool: Shown,
    /// Tools like it, by name: one of them will do as well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alike: Vec<String>,
    /// How well it answers, by which the slots of one answer compare; two decimals.
    pub score: f32,
}

impl View<'_> {
    /// The tools for these intents.
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
            // A blank intent stays unanswered, whatever the task.
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

    /// The servers of what was found, and how many of their tools were not.
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
