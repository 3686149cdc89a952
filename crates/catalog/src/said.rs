//! Sanitizes text from servers before it is shown: removes invisible characters and truncates.

use ringfence_policy::is_unseen;

/// The most characters of a summary.
const SUMMARY: usize = 160;
/// The most characters of a whole text.
const FULL: usize = 2_000;

/// The first sentence of a text, on one line.
pub fn summary(text: &str) -> String {
    // A longer sentence is truncated anyway, so the rest of a huge text is not read.
    let line: String = clean(text.chars().take(FULL))
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let end = line
        .char_indices()
        .find(|(place, c)| match c {
            '。' | '！' | '？' => true,
            '.' | '!' | '?' => line
                .get(place + 1..)
                .is_none_or(|rest| rest.is_empty() || rest.starts_with(' ')),
            _ => false,
        })
        .map_or(line.len(), |(place, c)| place + c.len_utf8());
    cap(line.get(..end).unwrap_or_default(), SUMMARY)
}

/// The whole text with its lines, cleaned and truncated.
pub(crate) fn full(text: &str) -> String {
    cap(clean(text.chars().take(FULL * 2)).trim(), FULL)
}

/// Removes control, direction and zero-width characters: they hide words from people and show them to models.
fn clean(text: impl Iterator<Item = char>) -> String {
    text.filter_map(|c| match c {
        '\n' => Some('\n'),
        '\t' | '\r' => Some(' '),
        _ if c.is_control() || is_unseen(c) => None,
        _ => Some(c),
    })
    .collect()
}

fn cap(text: &str, most: usize) -> String {
    if text.char_indices().nth(most).is_none() {
        return text.to_owned();
    }
    let end = text.char_indices().nth(most - 1).map_or(text.len(), |(end, _)| end);
    format!("{}…", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests;
