//! What a server says, made harmless: shown, never followed. No character that cannot be seen, and no more than fits.

use ringfence_policy::is_unseen;

/// Characters of a summary.
const SUMMARY: usize = 160;
/// Characters of a whole text.
const FULL: usize = 2_000;

/// The first sentence, on one line.
pub fn summary(text: &str) -> String {
    // A sentence longer than this is cut anyway; a huge text is not read to its end.
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

/// The whole text, its lines kept.
pub(crate) fn full(text: &str) -> String {
    cap(clean(text.chars().take(FULL * 2)).trim(), FULL)
}

/// Without controls, marks of direction and what takes no room: they hide words from people and show them to models.
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
