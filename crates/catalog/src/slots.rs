//! The ranked tools of several questions in a few slots: questions take turns, and tools that are alike share one.

use std::collections::HashSet;

use crate::parameters::ALIKE;

/// How far down each question's ranking tools are considered.
const DEPTH: usize = 200;
/// Tools of one slot.
pub(crate) const MEMBERS: usize = 5;

/// A place in the answer: the best of some tools that are alike.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Slot {
    /// Which question it answers.
    pub(crate) question: usize,
    /// The tools, best first, by their places in the catalog.
    pub(crate) tools: Vec<usize>,
    /// The score of the first.
    pub(crate) score: f32,
}

/// The best tools of one question, best first; of equals, the first in the catalog.
pub(crate) fn best(scores: &[f32]) -> Vec<(usize, f32)> {
    let all = scores.iter().copied().enumerate();
    let mut best: Vec<(usize, f32)> = all.filter(|(_, score)| *score > 0.0).collect();
    let order = |one: &(usize, f32), other: &(usize, f32)| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0));
    if best.len() > DEPTH {
        best.select_nth_unstable_by(DEPTH, order);
        best.truncate(DEPTH);
    }
    best.sort_unstable_by(order);
    best
}

/// Fills slots page by page.
pub(crate) struct Filler<'a> {
    /// How alike two tools are, from 0 to 1.
    likeness: &'a dyn Fn(usize, usize) -> f32,
    rankings: &'a [Vec<(usize, f32)>],
    next: Vec<usize>,
    placed: HashSet<usize>,
}

impl<'a> Filler<'a> {
    pub(crate) fn new(likeness: &'a dyn Fn(usize, usize) -> f32, rankings: &'a [Vec<(usize, f32)>]) -> Filler<'a> {
        Filler {
            likeness,
            rankings,
            next: vec![0; rankings.len()],
            placed: HashSet::new(),
        }
    }

    /// The next page of at most `most` slots: shorter only when nothing is left.
    pub(crate) fn page(&mut self, most: usize) -> Vec<Slot> {
        let mut slots = Vec::new();
        loop {
            let before = slots.len();
            for question in 0..self.rankings.len() {
                if !self.turn(question, most, &mut slots) {
                    return slots;
                }
            }
            if slots.len() == before {
                return slots;
            }
        }
    }

    /// One question goes down its ranking until it opens a slot; likes of what is there join it. False when all slots are taken.
    fn turn(&mut self, question: usize, most: usize, slots: &mut Vec<Slot>) -> bool {
        while let Some((tool, score)) = self.rankings[question].get(self.next[question]).copied() {
            if self.placed.contains(&tool) {
                self.next[question] += 1;
                continue;
            }
            let like = slots.iter().position(|slot| {
                let first = slot.tools.first();
                slot.tools.len() < MEMBERS && first.is_some_and(|first| (self.likeness)(*first, tool) >= ALIKE)
            });
            if let Some(place) = like {
                slots[place].tools.push(tool);
            } else if slots.len() < most {
                slots.push(Slot {
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

    /// Whether another page would have something.
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
