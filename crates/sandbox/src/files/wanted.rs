//! What a program wants to go out, beside what was found.

use ringfence_policy::RelPath;
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

    /// What is wanted and was not found, with what was found in its place.
    pub(super) fn withheld(
        &self,
        found: &[(RelPath, u64, String)],
        skipped: &[(String, &'static str)],
    ) -> Vec<(String, &'static str)> {
        let missing = self.0.iter().map(|(path, _)| *path);
        let missing = missing.filter(|path| !found.iter().any(|(found, ..)| found.as_str() == *path));
        let why = |path: &str| {
            let above = |(skipped, _): &&(String, _)| {
                let rest = path.strip_prefix(skipped.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            skipped.iter().find(above).map_or("no file there", |(_, why)| why)
        };
        missing.map(|path| (path.to_owned(), why(path))).collect()
    }
}
