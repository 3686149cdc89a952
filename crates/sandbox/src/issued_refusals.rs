//! The refusals that this host sent to one execution, so that it can tell them from errors that the program made up.

use std::collections::BTreeMap;

use crate::call_port::ToolRefusal;

/// Bytes of refusals that are kept; the oldest are dropped first.
const MAX_BYTES: usize = 256 * 1024;
/// Bytes that an entry costs in addition to its text.
const ENTRY_OVERHEAD: usize = 128;

/// Refusals by the number of their call.
#[derive(Debug, Default)]
pub(crate) struct IssuedRefusals {
    by_call: BTreeMap<u32, ToolRefusal>,
    bytes: usize,
}

impl IssuedRefusals {
    /// Records the refusal of a call.
    pub(crate) fn note(&mut self, call: u32, refusal: &ToolRefusal) {
        self.bytes += refusal_bytes(refusal);
        self.by_call.insert(call, refusal.clone());
        while self.bytes > MAX_BYTES {
            let Some((_, oldest)) = self.by_call.pop_first() else {
                return;
            };
            self.bytes -= refusal_bytes(&oldest);
        }
    }

    /// Removes and returns the refusal of a call.
    pub(crate) fn remove(&mut self, call: u32) -> Option<ToolRefusal> {
        self.by_call.remove(&call)
    }
}

fn refusal_bytes(refusal: &ToolRefusal) -> usize {
    let more = [&refusal.rule, &refusal.hint].into_iter().flatten();
    ENTRY_OVERHEAD + refusal.code.len() + refusal.message.len() + more.map(String::len).sum::<usize>()
}

#[cfg(test)]
mod tests;
