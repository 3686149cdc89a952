//! The refusals that this host said to one execution, so that it can tell its own words from a program's.

use std::collections::BTreeMap;

use crate::door::Refusal;

/// Bytes of refusals that are remembered; the oldest are forgotten first.
const MOST: usize = 256 * 1024;
/// What an entry costs beside its words.
const ENTRY: usize = 128;

/// Refusals by the number of their call.
#[derive(Debug, Default)]
pub(crate) struct Issued {
    by_call: BTreeMap<u32, Refusal>,
    bytes: usize,
}

impl Issued {
    /// Remembers what a call was told.
    pub(crate) fn note(&mut self, call: u32, refusal: &Refusal) {
        self.bytes += weight(refusal);
        self.by_call.insert(call, refusal.clone());
        while self.bytes > MOST {
            let Some((_, oldest)) = self.by_call.pop_first() else {
                return;
            };
            self.bytes -= weight(&oldest);
        }
    }

    /// What this call was told.
    pub(crate) fn take(&mut self, call: u32) -> Option<Refusal> {
        self.by_call.remove(&call)
    }
}

fn weight(refusal: &Refusal) -> usize {
    let more = [&refusal.rule, &refusal.hint].into_iter().flatten();
    ENTRY + refusal.code.len() + refusal.message.len() + more.map(String::len).sum::<usize>()
}

#[cfg(test)]
mod tests;
