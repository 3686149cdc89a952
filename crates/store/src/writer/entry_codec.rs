//! Encodes the replay entries of one commit as one piece: each with a header of kind, number and length.

use ringfence_journal::{ReplayEntry, ReplayEntryKind};

const HEADER: usize = 9;

/// Joins entries into a piece; `None` if one is too long for its length field.
pub(super) fn join_entries(entries: &[ReplayEntry]) -> Option<Vec<u8>> {
    let length: usize = entries.iter().map(|entry| HEADER + entry.bytes.len()).sum();
    let mut piece = Vec::with_capacity(length);
    for entry in entries {
        piece.push(match entry.kind {
            ReplayEntryKind::Call => 1,
            ReplayEntryKind::Answer => 2,
            ReplayEntryKind::Trace => 3,
        });
        piece.extend_from_slice(&entry.number.to_le_bytes());
        piece.extend_from_slice(&u32::try_from(entry.bytes.len()).ok()?.to_le_bytes());
        piece.extend_from_slice(&entry.bytes);
    }
    Some(piece)
}

/// Appends the entries of a piece to `entries`; `None` if the piece is malformed.
pub(crate) fn split_entries(mut piece: &[u8], entries: &mut Vec<ReplayEntry>) -> Option<()> {
    while let Some((header, rest)) = piece.split_first_chunk::<HEADER>() {
        let [kind, n0, n1, n2, n3, l0, l1, l2, l3] = *header;
        let kind = match kind {
            1 => ReplayEntryKind::Call,
            2 => ReplayEntryKind::Answer,
            3 => ReplayEntryKind::Trace,
            _ => return None,
        };
        let length = usize::try_from(u32::from_le_bytes([l0, l1, l2, l3])).ok()?;
        let (bytes, rest) = rest.split_at_checked(length)?;
        entries.push(ReplayEntry {
            number: u32::from_le_bytes([n0, n1, n2, n3]),
            kind,
            bytes: bytes.to_vec(),
        });
        piece = rest;
    }
    piece.is_empty().then_some(())
}

#[cfg(test)]
mod tests;
