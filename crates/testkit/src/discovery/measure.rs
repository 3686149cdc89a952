//! How much of what a task needs is found, by plain BM25 and by ours, and how fast.
//!
//! Recall is counted twice: with every tool of ten slots, look-alikes included, and strictly, with the one tool that each slot names first,
//! which is ten tools at most.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::Result;
use ringfence_catalog::{CatalogView, DetailLevel, SearchIndex, SearchPage, ToolSearch};

use super::baseline::{PlainBm25, interleave};
use super::data::{DiscoveryQuestion, DiscoverySet};
use crate::timing::{milliseconds, time_median};

/// Slots in an answer.
const MAX_SLOTS: usize = 10;
/// Timed runs of a search: the median counts, which a busy machine affects less.
const TIMED_RUNS: usize = 9;

/// The tools that an answer shows.
#[derive(Debug, Clone, Default)]
pub struct ShownTools {
    /// The tools of all slots, look-alikes included.
    slots: HashSet<usize>,
    /// The first tool of each slot only.
    strict: HashSet<usize>,
}

/// Recall over the questions of a set.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecallScore {
    /// The mean share of each question's groups that was found.
    pub mean: f64,
    /// The share of the questions of which every group was found.
    pub all: f64,
}

/// Recall of groups by the language of their tools' descriptions.
#[derive(Debug, Clone, Copy, Default)]
pub struct LanguageRecall {
    /// The groups whose tools are all described in Chinese.
    pub chinese: GroupCount,
    /// The groups with a description in another language.
    pub others: GroupCount,
}

/// Counts of groups that were found, and of all groups.
#[derive(Debug, Clone, Copy, Default)]
pub struct GroupCount {
    found: usize,
    groups: usize,
}

impl GroupCount {
    fn add(&mut self, found: bool) {
        self.groups += 1;
        self.found += usize::from(found);
    }

    /// The share of groups that was found.
    pub fn part(&self) -> f64 {
        to_float(self.found) / to_float(self.groups).max(1.0)
    }
}

/// The scores over all questions of a set.
#[derive(Debug, Clone)]
pub struct DiscoveryScore {
    /// Recall with all tools of ten slots.
    pub slots: RecallScore,
    /// Recall with ten tools at most.
    pub strict: RecallScore,
    /// Recall with all tools of ten slots, for the even and for the odd questions.
    pub halves: [RecallScore; 2],
    /// Recall by language, with all tools of ten slots and with ten tools at most.
    pub languages: [LanguageRecall; 2],
    /// The mean number of tools shown.
    pub shown: f64,
    /// The time of each search, sorted.
    pub times: Vec<Duration>,
    /// The time to build the index.
    pub build: Duration,
}

impl DiscoveryScore {
    fn compute(set: &DiscoverySet, shown: &[ShownTools], mut times: Vec<Duration>, build: Duration) -> DiscoveryScore {
        let (mut slots, mut strict, mut languages) = (Vec::new(), Vec::new(), [LanguageRecall::default(); 2]);
        for (question, shown) in set.questions.iter().zip(shown) {
            let [by_slots, by_tools] = &mut languages;
            slots.push(question_recall(set, question, &shown.slots, by_slots));
            strict.push(question_recall(set, question, &shown.strict, by_tools));
        }
        let half = |rest: usize| slots.iter().skip(rest).step_by(2).copied().collect::<Vec<_>>();
        times.sort_unstable();
        let tools: usize = shown.iter().map(|shown| shown.slots.len()).sum();
        DiscoveryScore {
            slots: mean_recall(&slots),
            strict: mean_recall(&strict),
            halves: [mean_recall(&half(0)), mean_recall(&half(1))],
            languages,
            shown: to_float(tools) / to_float(shown.len()).max(1.0),
            times,
            build,
        }
    }

    /// The time that 95 % of the searches stay below.
    pub fn slow_time(&self) -> Duration {
        self.times.get(self.times.len() * 95 / 100).copied().unwrap_or_default()
    }

    /// A row of the table of results.
    pub fn row(&self, set: &DiscoverySet, ranking: &str, brief: bool) -> String {
        let middle = self.times.get(self.times.len() / 2).copied().unwrap_or_default();
        let (middle, worst) = if brief {
            ("–".to_owned(), "–".to_owned())
        } else {
            (milliseconds(middle), milliseconds(self.slow_time()))
        };
        format!(
            "| {} ({} tools, {} tasks) | {ranking} | {:.3} | {:.3} | {:.1} | {:.3} | {:.3} | {middle} | {worst} |",
            set.name,
            set.tools(),
            set.questions.len(),
            self.slots.mean,
            self.slots.all,
            self.shown,
            self.strict.mean,
            self.strict.all,
        )
    }
}

/// Measures plain BM25, with one query per step and merged rankings.
pub fn measure_plain(set: &DiscoverySet) -> DiscoveryScore {
    let started = Instant::now();
    let plain = PlainBm25::new(&set.catalog);
    let build = started.elapsed();
    let mut times = Vec::new();
    let shown: Vec<ShownTools> = set
        .questions
        .iter()
        .map(|question| {
            let started = Instant::now();
            let rankings: Vec<Vec<usize>> = question.intents().iter().map(|intent| plain.rank(intent)).collect();
            let tools = interleave(&rankings, MAX_SLOTS);
            times.push(started.elapsed());
            let tools: HashSet<usize> = tools.into_iter().collect();
            ShownTools {
                slots: tools.clone(),
                strict: tools,
            }
        })
        .collect();
    DiscoveryScore::compute(set, &shown, times, build)
}

/// Measures our search: all steps in one search, the task as context, names only. The time is that of the whole search with its answer; a
/// brief run takes none.
pub fn measure_ours(set: &DiscoverySet, brief: bool) -> Result<DiscoveryScore> {
    measure_search(set, brief, |question| ToolSearch {
        intents: question.intents().into_iter().take(20).collect(),
        task: Some(question.task.clone()),
        detail: DetailLevel::Names,
        ..ToolSearch::default()
    })
}

/// Measures our search with the whole request as the only intent, as a client sends it that names no steps. Nothing is timed.
pub fn measure_ours_unsplit(set: &DiscoverySet) -> Result<DiscoveryScore> {
    measure_search(set, true, |question| ToolSearch {
        intents: vec![question.task.clone()],
        detail: DetailLevel::Names,
        ..ToolSearch::default()
    })
}

fn measure_search(
    set: &DiscoverySet,
    brief: bool,
    asked: impl Fn(&DiscoveryQuestion) -> ToolSearch,
) -> Result<DiscoveryScore> {
    let started = Instant::now();
    let index = SearchIndex::new(&set.catalog);
    let build = started.elapsed();
    let view = CatalogView::everything(&set.catalog, &index);
    let mut times = Vec::new();
    let mut shown = Vec::new();
    // The vocabulary for token counts is built at the first answer, once per process.
    view.search(&ToolSearch {
        intents: vec!["warm".to_owned()],
        ..ToolSearch::default()
    })?;
    for question in &set.questions {
        let search = asked(question);
        if !brief {
            times.push(time_median(TIMED_RUNS, || {
                view.search(&search).map(drop).map_err(Into::into)
            })?);
        }
        shown.push(shown_tools(set, &view.search(&search)?));
    }
    Ok(DiscoveryScore::compute(set, &shown, times, build))
}

/// The tools that an answer shows.
fn shown_tools(set: &DiscoverySet, found: &SearchPage) -> ShownTools {
    let place = |name: &String| {
        let (server, tool) = name.split_once('.')?;
        set.catalog.position(server, tool)
    };
    let mut shown = ShownTools::default();
    // Intents take turns, in the order in which their slots were filled.
    let turns = found.intents.iter().map(|answer| answer.slots.len()).max();
    for turn in 0..turns.unwrap_or_default() {
        for slot in found.intents.iter().filter_map(|answer| answer.slots.get(turn)) {
            for tool in std::iter::once(&slot.tool.name).chain(&slot.alike).filter_map(place) {
                if shown.strict.len() < MAX_SLOTS {
                    shown.strict.insert(tool);
                }
                shown.slots.insert(tool);
            }
        }
    }
    shown
}

/// The share of one question's groups that was found, and whether all were.
fn question_recall(
    set: &DiscoverySet,
    question: &DiscoveryQuestion,
    shown: &HashSet<usize>,
    languages: &mut LanguageRecall,
) -> RecallScore {
    let mut found = 0;
    for group in &question.groups {
        let places: Vec<usize> = group.iter().filter_map(|id| set.places.get(id)).copied().collect();
        let is_found = places.iter().any(|place| shown.contains(place));
        found += usize::from(is_found);
        if !places.is_empty() && places.iter().all(|place| is_chinese(set, *place)) {
            languages.chinese.add(is_found);
        } else {
            languages.others.add(is_found);
        }
    }
    RecallScore {
        mean: to_float(found) / to_float(question.groups.len()).max(1.0),
        all: f64::from(u8::from(found == question.groups.len())),
    }
}

fn is_chinese(set: &DiscoverySet, place: usize) -> bool {
    let tool = set.catalog.tools().get(place);
    let is_han = |c: char| ('\u{3400}'..='\u{9fff}').contains(&c);
    tool.is_some_and(|tool| tool.definition.description.chars().any(is_han))
}

fn mean_recall(marks: &[RecallScore]) -> RecallScore {
    let count = to_float(marks.len()).max(1.0);
    RecallScore {
        mean: marks.iter().map(|mark| mark.mean).sum::<f64>() / count,
        all: marks.iter().map(|mark| mark.all).sum::<f64>() / count,
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of tools and tasks are small")]
fn to_float(count: usize) -> f64 {
    count as f64
}
