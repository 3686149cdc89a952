//! The files that a program emits, in addition to those that the host finds.

use ringfence_wire::EmittedFile;

/// The files that a program emits, each once: the last mention of a file counts.
#[derive(Debug)]
pub(super) struct EmitList<'a>(Vec<(&'a str, &'a str)>);

impl<'a> EmitList<'a> {
    pub(super) fn new(emitted: &'a [EmittedFile]) -> EmitList<'a> {
        let mut wanted: Vec<(&str, &str)> = Vec::new();
        for emit in emitted {
            match wanted.iter_mut().find(|(path, _)| emit.path == **path) {
                Some((_, media_type)) => *media_type = &emit.media_type,
                None => wanted.push((&emit.path, &emit.media_type)),
            }
        }
        EmitList(wanted)
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &'a str> {
        self.0.iter().map(|(path, _)| *path)
    }

    /// The media type of a file; `None` when the program did not emit it.
    pub(super) fn media_type(&self, path: &str) -> Option<String> {
        let wanted = self.0.iter().find(|(wanted, _)| *wanted == path);
        wanted.map(|(_, media_type)| (*media_type).to_owned())
    }

    /// The position of an emitted file in the program's order; other files come after them.
    pub(super) fn position(&self, path: &str) -> usize {
        let place = self.0.iter().position(|(wanted, _)| *wanted == path);
        place.unwrap_or(self.0.len())
    }
}
