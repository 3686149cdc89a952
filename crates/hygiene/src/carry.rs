//! What of a text tells what follows it: the header of a table that goes on, the first lines, a private key that is not closed, and
//! the last lines. A text that comes in pieces is looked through piece by piece with it, instead of from its beginning each time.

use crate::secret;
use crate::table;

/// So much of the end is carried, in whole lines, and so many of the first lines where they may be rows of a table without a header.
const TAIL: usize = 8 * 1024;
const FIRST: usize = 40;
const FIRST_BYTES: usize = 8 * 1024;

/// The part of `text` that [`Detector::find`](crate::Detector::find) needs in front of what it goes on with. It is bounded, and
/// what is carried of what was carried before and a new piece is as good as what is carried of both in whole.
pub fn carry(text: &str) -> String {
    let (mut tail, mut carried) = (tail(text), String::new());
    match table::open_csv(text) {
        // A table that goes on does so under its header.
        table::Open::Under(start, end) => {
            carried.push_str(before(text, start, end, tail));
            tail = tail.max(start.min(text.len()));
        }
        // The next header is looked for behind the last table.
        table::Open::Closed(end) => tail = tail.max(end.min(text.len())),
        table::Open::Never => carried.push_str(before(text, 0, first(text), tail)),
    }
    for (start, end) in table::open_ruled(text) {
        carried.push_str(before(text, start, end, tail));
    }
    if let Some((start, end)) = secret::open_key(text) {
        carried.push_str(before(text, start, end, tail));
    }
    carried.push_str(text.get(tail..).unwrap_or_default());
    carried
}

/// The part of a stretch that lies before the tail.
fn before(text: &str, start: usize, end: usize, tail: usize) -> &str {
    text.get(start..end.min(tail)).unwrap_or_default()
}

/// Where the tail begins: with a line.
fn tail(text: &str) -> usize {
    let from = text.len().saturating_sub(TAIL);
    if from == 0 {
        return 0;
    }
    let line = text.as_bytes()[from - 1..].iter().position(|byte| *byte == b'\n');
    // A line that is longer than that is carried from its middle.
    line.map(|at| from + at)
        .filter(|at| *at < text.len())
        .unwrap_or_else(|| text.ceil_char_boundary(from))
}

/// Where the first lines end.
fn first(text: &str) -> usize {
    let lines = text.split_inclusive('\n').take(FIRST);
    lines
        .scan(0, |end, line| {
            *end += line.len();
            (*end <= FIRST_BYTES).then_some(*end)
        })
        .last()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests;
