//! Scores each tool for a query.
//!
//! There are two scorers, words (BM25F over stems) and spelling (cosine similarity of character grams). Each is divided by the
//! mean of its ten best scores, then they are added. Unlike ranks, scores preserve the distance between the first and the second.

use std::collections::HashMap;

use crate::actions::AskedActions;
use crate::index::SearchIndex;
use crate::lexicon;
use crate::query::SearchQuery;
use crate::ranking_weights::{CLAUSE_WEIGHT, SERVER_LIFT, SPELLING_WEIGHT, SYNONYM_WEIGHT, WORD_WEIGHT};
use crate::terms::{for_each_gram, for_each_word};

/// The number of best scores by which a scorer is normalised.
const TOP_COUNT: usize = 10;

/// A score for every tool of the catalog; zero for hidden tools.
pub(crate) type ToolScores = Vec<f32>;

/// One part of a search: an index, and which of its tools are visible.
pub(crate) type ScoredPart<'a> = (&'a SearchIndex, &'a [bool]);

/// Scores every tool of every part, one part after the other.
pub(crate) fn score(parts: &[ScoredPart<'_>], question: &SearchQuery) -> ToolScores {
    let mut scores = fuse_scores(parts, &question.whole);
    if !question.clauses.is_empty() {
        let mut best = vec![0.0f32; scores.len()];
        for clause in &question.clauses {
            for (best, score) in best.iter_mut().zip(fuse_scores(parts, clause)) {
                *best = best.max(score);
            }
        }
        for (score, best) in scores.iter_mut().zip(best) {
            *score = (1.0 - CLAUSE_WEIGHT) * *score + CLAUSE_WEIGHT * best;
        }
    }
    for_each_part(parts, &mut scores, SearchIndex::lift_by_server);
    scores
}

/// Applies a change to the scores of each part, with its index.
fn for_each_part(parts: &[ScoredPart<'_>], scores: &mut [f32], change: impl Fn(&SearchIndex, &mut [f32])) {
    let mut rest = scores;
    for (index, visible) in parts {
        let (own, others) = rest.split_at_mut(visible.len().min(rest.len()));
        change(index, own);
        rest = others;
    }
}

fn fuse_scores(parts: &[ScoredPart<'_>], text: &str) -> ToolScores {
    let Some((first, _)) = parts.first() else {
        return ToolScores::new();
    };
    let mut all: HashMap<String, f32> = HashMap::new();
    let mut shapes: HashMap<u64, f32> = HashMap::new();
    let mut asked: Vec<String> = Vec::new();
    for_each_word(text, |word| {
        asked.push(first.stems.stem(word));
        if let Some(stem) = first.stems.term(word) {
            *all.entry(stem).or_default() += 1.0;
            for_each_gram(word, |key| *shapes.entry(key).or_default() += 1.0);
        }
    });
    let by_words = |(index, visible): &ScoredPart<'_>| index.score_words(&all, visible);
    let by_grams = |(index, visible): &ScoredPart<'_>| index.score_grams(&shapes, visible);
    let mut scores: ToolScores = parts.iter().flat_map(by_words).collect();
    let mut spelling: ToolScores = parts.iter().flat_map(by_grams).collect();
    normalise(&mut scores, WORD_WEIGHT);
    normalise(&mut spelling, SPELLING_WEIGHT);
    for (score, more) in scores.iter_mut().zip(spelling) {
        *score += more;
    }
    let asked = AskedActions::new(&all, &asked);
    for_each_part(parts, &mut scores, |index, own| index.weigh_actions(own, &asked));
    scores
}

impl SearchIndex {
    /// Adds to each matching tool a share of the best score of its server, because neighbours of a good tool are more likely to
    /// be useful.
    fn lift_by_server(&self, scores: &mut [f32]) {
        let servers = self.servers.last().map_or(0, |last| *last as usize + 1);
        let mut best = vec![0.0f32; servers];
        for (score, server) in scores.iter().zip(&self.servers) {
            let best = &mut best[*server as usize];
            *best = best.max(*score);
        }
        for (score, server) in scores.iter_mut().zip(&self.servers) {
            if *score > 0.0 {
                *score += SERVER_LIFT * best[*server as usize];
            }
        }
    }

    fn score_words(&self, stems: &HashMap<String, f32>, visible: &[bool]) -> ToolScores {
        let mut asked: HashMap<&str, f32> = HashMap::new();
        for (stem, times) in stems {
            let weight = 1.0 + times.ln();
            let entry = asked.entry(stem).or_default();
            *entry = entry.max(weight);
            for like in lexicon::synonyms(stem) {
                let entry = asked.entry(like).or_default();
                *entry = entry.max(weight * SYNONYM_WEIGHT);
            }
        }
        let mut asked: Vec<(&str, f32)> = asked.into_iter().collect();
        // A sum of floats depends on their order; the same query must give the same scores.
        asked.sort_unstable_by_key(|(stem, _)| *stem);
        let mut scores = vec![0.0; visible.len()];
        for (stem, weight) in asked {
            for posting in self.postings(stem) {
                scores[posting.tool as usize] += weight * posting.worth;
            }
        }
        mask_hidden(&mut scores, visible);
        scores
    }

    fn score_grams(&self, shapes: &HashMap<u64, f32>, visible: &[bool]) -> ToolScores {
        let mut scores = vec![0.0; visible.len()];
        let mut shapes: Vec<(u64, f32)> = shapes.iter().map(|(key, times)| (*key, *times)).collect();
        shapes.sort_unstable_by_key(|(key, _)| *key);
        for (key, times) in shapes {
            if let Some((list, idf)) = self.gram_postings(key) {
                let weight = (1.0 + times.ln()) * idf;
                for posting in list {
                    scores[posting.tool as usize] += weight * posting.worth;
                }
            }
        }
        mask_hidden(&mut scores, visible);
        scores
    }

    /// How similar two tools are, from 0 to 1, by their own terms.
    pub(crate) fn likeness(&self, one: usize, other: usize) -> f32 {
        if self.are_opposite(one, other) {
            return 0.0;
        }
        let (one, other) = (&self.sayings[one], &self.sayings[other]);
        f32::midpoint(
            dot_product(&one.words, &other.words),
            dot_product(&one.grams, &other.grams),
        )
    }
}

fn mask_hidden(scores: &mut [f32], visible: &[bool]) {
    for (score, visible) in scores.iter_mut().zip(visible) {
        if !visible {
            *score = 0.0;
        }
    }
}

/// Divides the scores by the mean of the best, and multiplies them by `weight`.
fn normalise(scores: &mut [f32], weight: f32) {
    let mut best = [0.0f32; TOP_COUNT];
    for score in scores.iter() {
        if *score > best[0] {
            best[0] = *score;
            best.sort_unstable_by(f32::total_cmp);
        }
    }
    let mean = best.iter().sum::<f32>() / 10.0;
    if mean > 0.0 {
        let by = weight / mean;
        for score in scores {
            *score *= by;
        }
    }
}

fn dot_product(one: &[(u32, f32)], other: &[(u32, f32)]) -> f32 {
    let (mut left, mut right) = (one.iter().peekable(), other.iter().peekable());
    let mut sum = 0.0;
    while let (Some((a, x)), Some((b, y))) = (left.peek(), right.peek()) {
        match a.cmp(b) {
            std::cmp::Ordering::Less => _ = left.next(),
            std::cmp::Ordering::Greater => _ = right.next(),
            std::cmp::Ordering::Equal => {
                sum += x * y;
                left.next();
                right.next();
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests;
