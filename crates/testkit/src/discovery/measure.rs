//! How much of what a task needs is found, by plain BM25 and by ours, and how fast.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::Result;
use ringfence_catalog::{Detail, Found, Index, Search, View};

use super::baseline::{Plain, interleave};
use super::data::{Question, Set};
use crate::timing::{median, milliseconds};

/// Slots of an answer.
const SLOTS: usize = 10;
/// How often a search is timed: the median counts, so that a busy machine does not.
const REPEAT: usize = 9;

/// What was found, over all questions of a set.
#[derive(Debug, Clone)]
pub struct Score {
    /// Of each question's groups, the part that was found: the mean.
    pub recall: f64,
    /// Questions of which every group was found.
    pub all: f64,
    /// The same two for the even and for the odd questions.
    pub halves: [(f64, f64); 2],
    /// Tools shown, on average.
    pub shown: f64,
    /// How long each search took, sorted.
    pub times: Vec<Duration>,
    /// How long the index took to build.
    pub build: Duration,
}

impl Score {
    fn of(set: &Set, shown: &[HashSet<usize>], mut times: Vec<Duration>, build: Duration) -> Score {
        let marks: Vec<(f64, f64)> = set
            .questions
            .iter()
            .zip(shown)
            .map(|(question, shown)| mark(set, question, shown))
            .collect();
        let half = |rest: usize| marks.iter().skip(rest).step_by(2).copied().collect::<Vec<_>>();
        let (recall, all) = mean(&marks);
        times.sort_unstable();
        let sizes: Vec<(f64, f64)> = shown.iter().map(|shown| (number(shown.len()), 0.0)).collect();
        Score {
            recall,
            all,
            halves: [mean(&half(0)), mean(&half(1))],
            shown: mean(&sizes).0,
            times,
            build,
        }
    }

    /// Nineteen of twenty searches take less.
    pub fn worst(&self) -> Duration {
        self.times.get(self.times.len() * 95 / 100).copied().unwrap_or_default()
    }

    /// A row of the table.
    pub fn row(&self, set: &Set, ranking: &str, brief: bool) -> String {
        let middle = self.times.get(self.times.len() / 2).copied().unwrap_or_default();
        let (middle, worst) = if brief {
            ("–".to_owned(), "–".to_owned())
        } else {
            (milliseconds(middle), milliseconds(self.worst()))
        };
        format!(
            "| {} ({} tools, {} tasks) | {ranking} | {:.3} | {:.3} | {:.1} | {middle} | {worst} |",
            set.name,
            set.tools(),
            set.questions.len(),
            self.recall,
            self.all,
            self.shown
        )
    }
}

/// Plain BM25, one query a step, its answers taking turns.
pub fn plain(set: &Set) -> Score {
    let started = Instant::now();
    let plain = Plain::new(&set.catalog);
    let build = started.elapsed();
    let mut times = Vec::new();
    let shown: Vec<HashSet<usize>> = set
        .questions
        .iter()
        .map(|question| {
            let started = Instant::now();
            let rankings: Vec<Vec<usize>> = question.intents().iter().map(|intent| plain.rank(intent)).collect();
            let tools = interleave(&rankings, SLOTS);
            times.push(started.elapsed());
            tools.into_iter().collect()
        })
        .collect();
    Score::of(set, &shown, times, build)
}

/// Ours: all steps in one search, the task as context, names only. The time is that of the whole search with its answer; a brief
/// run takes none.
pub fn ours(set: &Set, brief: bool) -> Result<Score> {
    let started = Instant::now();
    let index = Index::new(&set.catalog);
    let build = started.elapsed();
    let view = View::everything(&set.catalog, &index);
    let mut times = Vec::new();
    let mut shown = Vec::new();
    // The vocabulary of token counts is made at the first answer, once for a process.
    view.search(&Search {
        intents: vec!["warm".to_owned()],
        ..Search::default()
    })?;
    for question in &set.questions {
        let search = Search {
            intents: question.intents().into_iter().take(20).collect(),
            task: Some(question.task.clone()),
            detail: Detail::Names,
            ..Search::default()
        };
        if !brief {
            times.push(median(REPEAT, || view.search(&search).map(drop).map_err(Into::into))?);
        }
        shown.push(tools(set, &view.search(&search)?));
    }
    Ok(Score::of(set, &shown, times, build))
}

/// Every tool in an answer: those of slots and their likes.
fn tools(set: &Set, found: &Found) -> HashSet<usize> {
    let slots = found.intents.iter().flat_map(|answer| &answer.slots);
    let names = slots.flat_map(|slot| std::iter::once(&slot.tool.name).chain(&slot.alike));
    names
        .filter_map(|name| name.split_once('.'))
        .filter_map(|(server, tool)| set.catalog.position(server, tool))
        .collect()
}

fn mark(set: &Set, question: &Question, shown: &HashSet<usize>) -> (f64, f64) {
    let is_found = |group: &&Vec<String>| {
        let mut places = group.iter().filter_map(|id| set.places.get(id));
        places.any(|place| shown.contains(place))
    };
    let found = question.groups.iter().filter(is_found).count();
    let groups = question.groups.len().max(1);
    (
        number(found) / number(groups),
        f64::from(u8::from(found == question.groups.len())),
    )
}

fn mean(marks: &[(f64, f64)]) -> (f64, f64) {
    let sum = marks
        .iter()
        .fold((0.0, 0.0), |sum, mark| (sum.0 + mark.0, sum.1 + mark.1));
    let count = number(marks.len()).max(1.0);
    (sum.0 / count, sum.1 / count)
}

#[expect(clippy::cast_precision_loss, reason = "counts of tools and tasks are small")]
fn number(count: usize) -> f64 {
    count as f64
}
