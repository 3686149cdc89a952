//! Carries context between the pieces of a text: the header of a table that continues, the first lines, an open
//! private key, and the last lines. With it a text can be scanned piece by piece, instead of from its beginning each
//! time.

use crate::secret;
use crate::table;

/// How many bytes of the end are carried, in whole lines, and how many first lines, which may be rows of a table
/// without a header.
const TAIL_BYTES: usize = 8 * 1024;
const MAX_FIRST_LINES: usize = 40;
const MAX_FIRST_LINES_BYTES: usize = 8 * 1024;

/// Returns the part of `text` that [`Detector::find`](crate::Detector::find) needs in front of the next piece. Its
/// size is bounded, and carrying from a carried text with a new piece is as good as carrying from the whole text.
pub fn carry(text: &str) -> String {
    let (mut tail, mut carried) = (tail_start(text), String::new());
    match table::open_csv(text) {
        // A table that continues needs its header.
        table::CsvEnd::Under(start, end) => {
            carried.push_str(part_before_tail(text, start, end, tail));
            tail = tail.max(start.min(text.len()));
        }
        // The next header comes after the last table.
        table::CsvEnd::Closed(end) => tail = tail.max(end.min(text.len())),
        table::CsvEnd::Never => carried.push_str(part_before_tail(text, 0, first_lines_end(text), tail)),
    }
    for (start, end) in table::open_ruled(text) {
        carried.push_str(part_before_tail(text, start, end, tail));
    }
    if let Some((start, end)) = secret::open_key(text) {
        carried.push_str(part_before_tail(text, start, end, tail));
    }
    carried.push_str(text.get(tail..).unwrap_or_default());
    carried
}

/// Returns the part of a range that is before the tail.
fn part_before_tail(text: &str, start: usize, end: usize, tail: usize) -> &str {
    text.get(start..end.min(tail)).unwrap_or_default()
}

/// Returns where the tail begins: at the start of a line.
fn tail_start(text: &str) -> usize {
    let from = text.len().saturating_sub(TAIL_BYTES);
    if from == 0 {
        return 0;
    }
    let line = text.as_bytes()[from - 1..].iter().position(|byte| *byte == b'\n');
    // A line that is longer than the tail is carried from its middle.
    line.map(|at| from + at)
        .filter(|at| *at < text.len())
        .unwrap_or_else(|| text.ceil_char_boundary(from))
}

/// Returns where the first lines end.
fn first_lines_end(text: &str) -> usize {
    let lines = text.split_inclusive('\n').take(MAX_FIRST_LINES);
    lines
        .scan(0, |end, line| {
            *end += line.len();
            (*end <= MAX_FIRST_LINES_BYTES).then_some(*end)
        })
        .last()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests;
