//! Sanitizes text from servers before it is shown: removes invisible characters and truncates.

use ringfence_policy::is_invisible;

/// The most characters of a summary.
const MAX_SUMMARY_CHARS: usize = 160;
/// The most characters of a whole text.
const MAX_TEXT_CHARS: usize = 2_000;

/// The first sentence of a text, on one line.
pub fn summary(text: &str) -> String {
    // A longer sentence is truncated anyway, so the rest of a huge text is not read.
    let line: String = strip_invisible(text.chars().take(MAX_TEXT_CHARS))
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
    truncate_chars(line.get(..end).unwrap_or_default(), MAX_SUMMARY_CHARS)
}

/// The whole text with its lines, cleaned and truncated.
pub(crate) fn clean_text(text: &str) -> String {
    truncate_chars(
        strip_invisible(text.chars().take(MAX_TEXT_CHARS * 2)).trim(),
        MAX_TEXT_CHARS,
    )
}

/// Removes control, direction and zero-width characters: they hide words from people and show them to models.
fn strip_invisible(text: impl Iterator<Item = char>) -> String {
    text.filter_map(|c| match c {
        '\n' => Some('\n'),
        '\t' | '\r' => Some(' '),
        _ if c.is_control() || is_invisible(c) => None,
        _ => Some(c),
    })
    .collect()
}

fn truncate_chars(text: &str, most: usize) -> String {
    if text.char_indices().nth(most).is_none() {
        return text.to_owned();
    }
    let end = text.char_indices().nth(most - 1).map_or(text.len(), |(end, _)| end);
    format!("{}…", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests;
