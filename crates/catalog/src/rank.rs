//! How well each tool answers a question.
//!
//! Two scorers, words (BM25F over stems) and spelling (cosine of character grams), each measured by the mean of its own ten
//! best and then added: scores keep how much better the first is than the second, which ranks forget.

use std::collections::HashMap;

use crate::actions::AskedActions;
use crate::index::Index;
use crate::lexicon;
use crate::parameters::{CLAUSES, SERVER, SPELLING, SYNONYM, WORDS};
use crate::question::Question;
use crate::words::{grams, words};

/// How many of the best make a scorer's measure.
const BEST: usize = 10;

/// A score for every tool of the catalog; nothing for those that may not be seen.
pub(crate) type Scores = Vec<f32>;

/// Tools that are scored together with others: their index, and which of them may be seen.
pub(crate) type Seen<'a> = (&'a Index, &'a [bool]);

/// The score of every tool of every part for this question, one part after the other.
pub(crate) fn score(parts: &[Seen<'_>], question: &Question) -> Scores {
    let mut scores = fused(parts, &question.whole);
    if !question.clauses.is_empty() {
        let mut best = vec![0.0f32; scores.len()];
        for clause in &question.clauses {
            for (best, score) in best.iter_mut().zip(fused(parts, clause)) {
                *best = best.max(score);
            }
        }
        for (score, best) in scores.iter_mut().zip(best) {
            *score = (1.0 - CLAUSES) * *score + CLAUSES * best;
        }
    }
    each_part(parts, &mut scores, Index::lift);
    scores
}

/// The scores of each part with its index.
fn each_part(parts: &[Seen<'_>], scores: &mut [f32], change: impl Fn(&Index, &mut [f32])) {
    let mut rest = scores;
    for (index, visible) in parts {
        let (own, others) = rest.split_at_mut(visible.len().min(rest.len()));
        change(index, own);
        rest = others;
    }
}

fn fused(parts: &[Seen<'_>], text: &str) -> Scores {
    let Some((first, _)) = parts.first() else {
        return Scores::new();
    };
    let mut all: HashMap<String, f32> = HashMap::new();
    let mut shapes: HashMap<u64, f32> = HashMap::new();
    let mut asked: Vec<String> = Vec::new();
    words(text, |word| {
        asked.push(first.stems.stem(word));
        if let Some(stem) = first.stems.term(word) {
            *all.entry(stem).or_default() += 1.0;
            grams(word, |key| *shapes.entry(key).or_default() += 1.0);
        }
    });
    let by_words = |(index, visible): &Seen<'_>| index.by_words(&all, visible);
    let by_grams = |(index, visible): &Seen<'_>| index.by_grams(&shapes, visible);
    let mut scores: Scores = parts.iter().flat_map(by_words).collect();
    let mut spelling: Scores = parts.iter().flat_map(by_grams).collect();
    measure(&mut scores, WORDS);
    measure(&mut spelling, SPELLING);
    for (score, more) in scores.iter_mut().zip(spelling) {
        *score += more;
    }
    let asked = AskedActions::new(&all, &asked);
    each_part(parts, &mut scores, |index, own| index.weigh_actions(own, &asked));
    scores
}

impl Index {
    /// Tools beside a good one are likelier than others: each gets a part of the best of its server.
    fn lift(&self, scores: &mut [f32]) {
        let servers = self.servers.last().map_or(0, |last| *last as usize + 1);
        let mut best = vec![0.0f32; servers];
        for (score, server) in scores.iter().zip(&self.servers) {
            let best = &mut best[*server as usize];
            *best = best.max(*score);
        }
        for (score, server) in scores.iter_mut().zip(&self.servers) {
            if *score > 0.0 {
                *score += SERVER * best[*server as usize];
            }
        }
    }

    fn by_words(&self, stems: &HashMap<String, f32>, visible: &[bool]) -> Scores {
        let mut asked: HashMap<&str, f32> = HashMap::new();
        for (stem, times) in stems {
            let weight = 1.0 + times.ln();
            let entry = asked.entry(stem).or_default();
            *entry = entry.max(weight);
            for like in lexicon::synonyms(stem) {
                let entry = asked.entry(like).or_default();
                *entry = entry.max(weight * SYNONYM);
            }
        }
        let mut asked: Vec<(&str, f32)> = asked.into_iter().collect();
        // Sums of floats depend on their order: the same question must get the same answer.
        asked.sort_unstable_by_key(|(stem, _)| *stem);
        let mut scores = vec![0.0; visible.len()];
        for (stem, weight) in asked {
            for posting in self.postings(stem) {
                scores[posting.tool as usize] += weight * posting.worth;
            }
        }
        mask(&mut scores, visible);
        scores
    }

    fn by_grams(&self, shapes: &HashMap<u64, f32>, visible: &[bool]) -> Scores {
        let mut scores = vec![0.0; visible.len()];
        let mut shapes: Vec<(u64, f32)> = shapes.iter().map(|(key, times)| (*key, *times)).collect();
        shapes.sort_unstable_by_key(|(key, _)| *key);
        for (key, times) in shapes {
            if let Some((list, idf)) = self.gram(key) {
                let weight = (1.0 + times.ln()) * idf;
                for posting in list {
                    scores[posting.tool as usize] += weight * posting.worth;
                }
            }
        }
        mask(&mut scores, visible);
        scores
    }

    /// How alike two tools are, from 0 to 1, by what they say of themselves.
    pub(crate) fn likeness(&self, one: usize, other: usize) -> f32 {
        if self.are_opposite(one, other) {
            return 0.0;
        }
        let (one, other) = (&self.sayings[one], &self.sayings[other]);
        f32::midpoint(dot(&one.words, &other.words), dot(&one.grams, &other.grams))
    }
}

fn mask(scores: &mut [f32], visible: &[bool]) {
    for (score, visible) in scores.iter_mut().zip(visible) {
        if !visible {
            *score = 0.0;
        }
    }
}

/// Divides by the mean of the best and multiplies by `weight`.
fn measure(scores: &mut [f32], weight: f32) {
    let mut best = [0.0f32; BEST];
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

fn dot(one: &[(u32, f32)], other: &[(u32, f32)]) -> f32 {
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
