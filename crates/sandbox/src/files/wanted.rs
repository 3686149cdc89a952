//! What a program wants to go out, beside what was found.

use ringfence_wire::Emit;

/// What a program wants to go out, each file once: what it said of it last counts.
#[derive(Debug)]
pub(super) struct Wanted<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Wanted<'a> {
    pub(super) fn new(emitted: &'a [Emit]) -> Wanted<'a> {
        let mut wanted: Vec<(&str, &str)> = Vec::new();
        for emit in emitted {
            match wanted.iter_mut().find(|(path, _)| emit.path == **path) {
                Some((_, media_type)) => *media_type = &emit.media_type,
                None => wanted.push((&emit.path, &emit.media_type)),
            }
        }
        Wanted(wanted)
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &'a str> {
        self.0.iter().map(|(path, _)| *path)
    }

    /// What a file is said to be, if it is wanted.
    pub(super) fn media_type(&self, path: &str) -> Option<String> {
        let wanted = self.0.iter().find(|(wanted, _)| *wanted == path);
        wanted.map(|(_, media_type)| (*media_type).to_owned())
    }

    /// Its place among those that are wanted; behind them for others.
    pub(super) fn place(&self, path: &str) -> usize {
        let place = self.0.iter().position(|(wanted, _)| *wanted == path);
        place.unwrap_or(self.0.len())
    }
}
