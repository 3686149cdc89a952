//! Fills a few slots from the rankings of several queries: queries take turns, and similar tools share a slot.

use std::collections::HashSet;

use crate::ranking_weights::MIN_ALIKE_LIKENESS;

/// The lowest rank of each query at which tools are considered.
const MAX_RANK_DEPTH: usize = 200;
/// The most tools of one slot.
pub(crate) const MAX_SLOT_TOOLS: usize = 5;

/// A slot of the answer: similar tools, with the best one first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResultSlot {
    /// The index of the query that the slot answers.
    pub(crate) question: usize,
    /// The tools by their index in the view, best first.
    pub(crate) tools: Vec<usize>,
    /// The score of the first tool.
    pub(crate) score: f32,
}

/// The best tools of one query, best first; equal scores keep the order of the catalog.
pub(crate) fn rank_best(scores: &[f32]) -> Vec<(usize, f32)> {
    let all = scores.iter().copied().enumerate();
    let mut best: Vec<(usize, f32)> = all.filter(|(_, score)| *score > 0.0).collect();
    let order = |one: &(usize, f32), other: &(usize, f32)| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0));
    if best.len() > MAX_RANK_DEPTH {
        best.select_nth_unstable_by(MAX_RANK_DEPTH, order);
        best.truncate(MAX_RANK_DEPTH);
    }
    best.sort_unstable_by(order);
    best
}

/// Fills slots, page by page.
pub(crate) struct SlotFiller<'a> {
    /// The likeness of two tools, from 0 to 1.
    likeness: &'a dyn Fn(usize, usize) -> f32,
    rankings: &'a [Vec<(usize, f32)>],
    next: Vec<usize>,
    placed: HashSet<usize>,
}

impl<'a> SlotFiller<'a> {
    pub(crate) fn new(likeness: &'a dyn Fn(usize, usize) -> f32, rankings: &'a [Vec<(usize, f32)>]) -> SlotFiller<'a> {
        SlotFiller {
            likeness,
            rankings,
            next: vec![0; rankings.len()],
            placed: HashSet::new(),
        }
    }

    /// The next page with at most `most` slots. It has fewer only if no tools are left.
    pub(crate) fn next_page(&mut self, most: usize) -> Vec<ResultSlot> {
        let mut slots = Vec::new();
        loop {
            let before = slots.len();
            for question in 0..self.rankings.len() {
                if !self.fill_turn(question, most, &mut slots) {
                    return slots;
                }
            }
            if slots.len() == before {
                return slots;
            }
        }
    }

    /// Goes down the ranking of one query until a tool opens a slot. Tools similar to an existing slot join that slot. Returns
    /// false when all slots are taken.
    fn fill_turn(&mut self, question: usize, most: usize, slots: &mut Vec<ResultSlot>) -> bool {
        while let Some((tool, score)) = self.rankings[question].get(self.next[question]).copied() {
            if self.placed.contains(&tool) {
                self.next[question] += 1;
                continue;
            }
            let like = slots.iter().position(|slot| {
                let first = slot.tools.first();
                slot.tools.len() < MAX_SLOT_TOOLS
                    && first.is_some_and(|first| (self.likeness)(*first, tool) >= MIN_ALIKE_LIKENESS)
            });
            if let Some(place) = like {
                slots[place].tools.push(tool);
            } else if slots.len() < most {
                slots.push(ResultSlot {
                    question,
                    tools: vec![tool],
                    score,
                });
            } else {
                return false;
            }
            self.placed.insert(tool);
            self.next[question] += 1;
            if like.is_none() {
                return true;
            }
        }
        true
    }

    /// Whether the next page has any tools.
    pub(crate) fn has_more(&self) -> bool {
        let left = |(question, ranking): (usize, &Vec<(usize, f32)>)| {
            let rest = ranking.get(self.next[question]..).unwrap_or_default();
            rest.iter().any(|(tool, _)| !self.placed.contains(tool))
        };
        self.rankings.iter().enumerate().any(left)
    }
}

#[cfg(test)]
mod tests;
