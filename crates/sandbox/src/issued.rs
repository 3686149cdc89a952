//! The refusals that this host sent to one execution, so that it can tell them from errors that the program made up.

use std::collections::BTreeMap;

use crate::door::Refusal;

/// Bytes of refusals that are kept; the oldest are dropped first.
const MOST: usize = 256 * 1024;
/// Bytes that an entry costs in addition to its text.
const ENTRY: usize = 128;

/// Refusals by the number of their call.
#[derive(Debug, Default)]
pub(crate) struct Issued {
    by_call: BTreeMap<u32, Refusal>,
    bytes: usize,
}

impl Issued {
    /// Records the refusal of a call.
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

    /// Removes and returns the refusal of a call.
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
