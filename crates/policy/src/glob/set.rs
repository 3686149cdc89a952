//! Matches several globs together while a folder tree is walked. The state of the path above is carried down, so that each name
//! is compared once with each part that may come next.

use super::Glob;
use crate::segments::{PatternPart, PatternToken};

/// The positions in one glob at which the next name may match, in ascending order. The length of the glob is never among them: a
/// path that reaches it is matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GlobPositions(Vec<u16>);

impl GlobPositions {
    /// The positions before the first name.
    pub(super) fn start(parts: &[PatternPart]) -> Self {
        let mut positions = Self(Vec::with_capacity(2));
        positions.add(parts, 0);
        positions
    }

    /// Adds a position and, after a `**`, the position that follows it. Returns whether the glob ends there.
    fn add(&mut self, parts: &[PatternPart], position: usize) -> bool {
        let mut next = position;
        loop {
            let Some(part) = parts.get(next) else { return true };
            // A glob has at most 1,024 bytes, so every position fits. Positions arrive in ascending order.
            let number = u16::try_from(next).unwrap_or(u16::MAX);
            if self.0.last().is_none_or(|last| *last < number) {
                self.0.push(number);
            }
            if *part != PatternPart::Many {
                return false;
            }
            next += 1;
        }
    }

    /// Consumes one name of the path. Returns whether the glob matches the path up to this name.
    pub(super) fn advance(&mut self, parts: &[PatternPart], name: &str) -> bool {
        let before = std::mem::take(&mut self.0);
        let mut matched = false;
        for position in before {
            let position = usize::from(position);
            match parts.get(position) {
                Some(PatternPart::Many) => matched |= self.add(parts, position),
                Some(part) if part.is_name(name) => matched |= self.add(parts, position + 1),
                Some(_) | None => {}
            }
        }
        matched
    }

    fn would_match(&self, parts: &[PatternPart], name: &str) -> bool {
        self.0.iter().any(|position| {
            let position = usize::from(*position);
            parts.get(position).is_some_and(|part| match part {
                PatternPart::Many => is_end(parts, position + 1),
                PatternPart::One(_) => is_end(parts, position + 1) && part.is_name(name),
            })
        })
    }
}

/// Whether only `**` follows.
fn is_end(parts: &[PatternPart], position: usize) -> bool {
    parts
        .get(position..)
        .is_none_or(|rest| rest.iter().all(|part| *part == PatternPart::Many))
}

/// Globs that hide files below one folder, matched together name by name.
#[derive(Debug, Clone)]
pub struct GlobSet<'a> {
    globs: &'a [Glob],
}

/// The state of a [`GlobSet`] after the names above the current folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GlobState {
    /// The index of each glob that may still match, with its positions.
    active: Vec<(u32, GlobPositions)>,
}

impl<'a> GlobSet<'a> {
    /// Makes a set of these globs.
    pub fn new(globs: &'a [Glob]) -> Self {
        Self { globs }
    }

    /// The state in the folder `/`, above every mount, where only globs that start with `**` have positions.
    pub fn root_state(&self) -> GlobState {
        let floating = self.enumerate().filter(|(_, glob)| glob.starts_anywhere());
        GlobState {
            active: floating
                .map(|(number, glob)| (number, GlobPositions::start(glob.parts())))
                .collect(),
        }
    }

    /// The state in a folder that globs are relative to: globs without a leading `**` start here too.
    #[must_use]
    pub fn mount_state(&self, state: &GlobState) -> GlobState {
        let anchored = self.enumerate().filter(|(_, glob)| !glob.starts_anywhere());
        let begun = anchored.map(|(number, glob)| (number, GlobPositions::start(glob.parts())));
        GlobState {
            active: state.active.iter().cloned().chain(begun).collect(),
        }
    }

    fn enumerate(&self) -> impl Iterator<Item = (u32, &'a Glob)> {
        (0..).zip(self.globs)
    }

    fn parts(&self, number: u32) -> &'a [PatternPart] {
        let glob = usize::try_from(number).ok().and_then(|number| self.globs.get(number));
        glob.map_or(&[], Glob::parts)
    }

    /// The glob that hides `name` in the current folder; `None` if none does.
    pub fn hidden_by(&self, state: &GlobState, name: &str) -> Option<&'a Glob> {
        let found = state
            .active
            .iter()
            .find(|(number, at)| at.would_match(self.parts(*number), name))?;
        self.globs.get(usize::try_from(found.0).ok()?)
    }

    /// The state in the folder `name` below the current one.
    #[must_use]
    pub fn enter(&self, state: &GlobState, name: &str) -> GlobState {
        let mut active = state.active.clone();
        active.retain_mut(|(number, at)| {
            at.advance(self.parts(*number), name);
            !at.0.is_empty()
        });
        GlobState { active }
    }

    /// The glob that hides every name in the current folder, such as `keys/*` in `keys`.
    pub fn hides_all(&self, state: &GlobState) -> Option<&'a Glob> {
        let found = state.active.iter().find(|(number, at)| {
            let parts = self.parts(*number);
            at.0.iter().any(|position| {
                let position = usize::from(*position);
                parts.get(position).is_some_and(PatternPart::is_any) && is_end(parts, position + 1)
            })
        })?;
        self.globs.get(usize::try_from(found.0).ok()?)
    }

    /// Names that would be hidden in the current folder and are known without reading it: literal names such as `.netrc`, and the
    /// text before a final `*`, such as `.env` of `.env*`.
    pub fn known_names(&self, state: &GlobState) -> Vec<String> {
        let mut names = Vec::new();
        for (number, at) in &state.active {
            let parts = self.parts(*number);
            for position in at.0.iter().map(|position| usize::from(*position)) {
                let name = parts
                    .get(position)
                    .filter(|_| is_end(parts, position + 1))
                    .and_then(literal_name);
                if let Some(name) = name.filter(|name| !names.contains(name)) {
                    names.push(name);
                }
            }
        }
        names
    }
}

fn literal_name(part: &PatternPart) -> Option<String> {
    let PatternPart::One(pieces) = part else { return None };
    let pieces = pieces.strip_suffix(&[PatternToken::Star]).unwrap_or(pieces);
    let characters = pieces.iter().map(|piece| match piece {
        PatternToken::Literal(c) => Some(*c),
        PatternToken::Star | PatternToken::Question | PatternToken::Class(_) => None,
    });
    characters.collect::<Option<String>>().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests;
