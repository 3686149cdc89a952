//! Counts the tokens of a text with the `o200k_base` encoding.
//!
//! The vocabulary (`tokens/o200k.bin`, from `openai/tiktoken`, MIT) is a count, the length of each token in order of rank, and
//! their bytes. It takes 1.6 MB of the program, and becomes a table at the first count. Crates with the same function add 3 to 32
//! MB and take 100 to 200 ms to load, too much for a command that answers one query.

mod split;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::LazyLock;

static VOCABULARY_FILE: &[u8] = include_bytes!("tokens/o200k.bin");
static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::read(VOCABULARY_FILE));

/// The number of tokens of `text`.
pub fn count_tokens(text: &str) -> usize {
    split::pieces(text)
        .flat_map(|piece| piece.as_bytes().chunks(MAX_RUN_BYTES))
        .map(|piece| VOCABULARY.count(piece))
        .sum()
}

/// The most bytes of a run without spaces that is counted at once. A longer run is counted in parts, which adds at most a token
/// each, so that memory stays bounded.
const MAX_RUN_BYTES: usize = 16 * 1024;

/// The tokens by rank, and an open-addressed table from bytes to rank.
struct Vocabulary {
    bytes: &'static [u8],
    starts: Vec<u32>,
    table: Vec<u32>,
}

/// The table has more than twice as many slots as tokens, so that chains are short.
const TABLE_SLOTS: usize = 1 << 19;
const FREE_SLOT: u32 = u32::MAX;
const NO_PART: usize = usize::MAX;

impl Vocabulary {
    fn read(file: &'static [u8]) -> Vocabulary {
        let (head, rest) = file.split_at(4);
        let number = head.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        let (lengths, bytes) = rest.split_at(number);
        let mut vocabulary = Vocabulary {
            bytes,
            starts: Vec::with_capacity(number + 1),
            table: vec![FREE_SLOT; TABLE_SLOTS],
        };
        let mut start = 0;
        vocabulary.starts.push(0);
        for (rank, length) in (0u32..).zip(lengths) {
            let end = start + u32::from(*length);
            let token = bytes.get(start as usize..end as usize).unwrap_or_default();
            let mut slot = table_slot(token);
            while vocabulary.table[slot] != FREE_SLOT {
                slot = (slot + 1) % TABLE_SLOTS;
            }
            vocabulary.table[slot] = rank;
            vocabulary.starts.push(end);
            start = end;
        }
        vocabulary
    }

    fn rank(&self, token: &[u8]) -> Option<u32> {
        let mut slot = table_slot(token);
        loop {
            let rank = self.table[slot];
            if rank == FREE_SLOT {
                return None;
            }
            let place = rank as usize;
            if self
                .bytes
                .get(self.starts[place] as usize..self.starts[place + 1] as usize)
                == Some(token)
            {
                return Some(rank);
            }
            slot = (slot + 1) % TABLE_SLOTS;
        }
    }

    /// Merges pairs until none is left, the lowest rank first and the leftmost among equals. A heap bounds the time for a long
    /// hostile piece.
    fn count(&self, piece: &[u8]) -> usize {
        if self.rank(piece).is_some() {
            return 1;
        }
        let mut parts = TokenParts::new(piece.len());
        let mut pairs = BinaryHeap::new();
        let pair = |parts: &TokenParts, left: usize| {
            let middle = parts.next(left)?;
            let end = parts.end(middle);
            let rank = self.rank(piece.get(left..end)?)?;
            Some(Reverse((rank, left, end)))
        };
        pairs.extend((0..piece.len()).filter_map(|left| pair(&parts, left)));
        while let Some(Reverse((_, left, end))) = pairs.pop() {
            // A pair is stale if one of its sides was merged since.
            let Some(middle) = parts.next(left).filter(|middle| parts.end(*middle) == end) else {
                continue;
            };
            parts.merge(left, middle);
            pairs.extend(pair(&parts, left));
            if let Some(before) = parts.previous(left) {
                pairs.extend(pair(&parts, before));
            }
        }
        parts.left
    }
}

/// The parts of a piece, as a list linked by their start positions.
struct TokenParts {
    ends: Vec<usize>,
    previous: Vec<usize>,
    left: usize,
}

impl TokenParts {
    fn new(length: usize) -> TokenParts {
        TokenParts {
            ends: (1..=length).collect(),
            previous: (0..length)
                .map(|place| place.checked_sub(1).unwrap_or(NO_PART))
                .collect(),
            left: length,
        }
    }

    /// The end of the part that starts at `place`; 0 after it was merged into another.
    fn end(&self, place: usize) -> usize {
        self.ends[place]
    }

    fn next(&self, place: usize) -> Option<usize> {
        let end = self.ends[place];
        (end != 0 && end < self.ends.len()).then_some(end)
    }

    fn previous(&self, place: usize) -> Option<usize> {
        self.previous.get(place).copied().filter(|place| *place != NO_PART)
    }

    fn merge(&mut self, left: usize, right: usize) {
        self.ends[left] = self.ends[right];
        self.ends[right] = 0;
        if let Some(after) = self.next(left) {
            self.previous[after] = left;
        }
        self.left -= 1;
    }
}

/// The first slot to probe for a token: FNV-1a, folded.
fn table_slot(token: &[u8]) -> usize {
    let hash = token.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    usize::try_from((hash ^ hash >> 32) % TABLE_SLOTS as u64).unwrap_or_default()
}

#[cfg(test)]
mod tests;
