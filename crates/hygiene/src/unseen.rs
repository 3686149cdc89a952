//! Characters that nobody sees, between the letters of a value: joiners, soft hyphens, variation selectors. A text is read
//! with them and without; what is shown keeps them, for they are part of emoji and of some scripts.

use crate::finding::{Finding, resolve};

/// What is found in a text as it is and as it reads.
pub(crate) fn look_through(text: &str, find: impl Fn(&str) -> Vec<Finding>) -> Vec<Finding> {
    let mut found = find(text);
    let Some(seen) = Seen::of(text) else { return found };
    found.extend(find(&seen.text).into_iter().map(|one| Finding {
        start: seen.place(one.start),
        // What is not seen behind the last letter is not part of it.
        end: seen.place(one.end - 1) + 1,
        ..one
    }));
    resolve(text, found)
}

/// A text without what is not seen in it.
struct Seen {
    text: String,
    /// Where what follows a gap begins in this text, and how many bytes were left out before it in all.
    gaps: Vec<(usize, usize)>,
}

impl Seen {
    /// The text if anything in it is not seen.
    fn of(text: &str) -> Option<Seen> {
        if !has_unseen(text) {
            return None;
        }
        let mut seen = Seen {
            text: String::with_capacity(text.len()),
            gaps: Vec::new(),
        };
        let mut missing = 0;
        for letter in text.chars() {
            if is_unseen(letter) {
                missing += letter.len_utf8();
                match seen.gaps.last_mut() {
                    Some(last) if last.0 == seen.text.len() => last.1 = missing,
                    _ => seen.gaps.push((seen.text.len(), missing)),
                }
            } else {
                seen.text.push(letter);
            }
        }
        Some(seen)
    }

    /// Where a byte of this text is in the whole.
    fn place(&self, at: usize) -> usize {
        let after = self.gaps.partition_point(|(start, _)| *start <= at);
        at + after.checked_sub(1).map_or(0, |last| self.gaps[last].1)
    }
}

fn has_unseen(text: &str) -> bool {
    // Most texts are ASCII, and most of the others nearly so.
    let chunks = text.as_bytes().chunks(CHUNK).enumerate();
    let mut others = chunks.filter(|(_, chunk)| !chunk.is_ascii());
    others.any(|(index, chunk)| {
        let leads = chunk.iter().enumerate().filter(|(_, byte)| LEADS[usize::from(**byte)]);
        let mut letters = leads.filter_map(|(at, _)| text.get(index * CHUNK + at..)?.chars().next());
        letters.any(is_unseen)
    })
}

const CHUNK: usize = 128;

/// The bytes that a character can begin with that is not seen.
static LEADS: [bool; 256] = {
    let mut table = [false; 256];
    let leads = [0xC2_u8, 0xCD, 0xD8, 0xE1, 0xE2, 0xE3, 0xEF, 0xF0, 0xF3];
    let mut index = 0;
    while index < leads.len() {
        table[leads[index] as usize] = true;
        index += 1;
    }
    table
};

/// Whether a character is drawn as nothing where nothing is known of it: `Default_Ignorable_Code_Point` of Unicode.
pub(crate) fn is_unseen(letter: char) -> bool {
    letter >= '\u{ad}'
        && matches!(
            letter,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{202a}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fff8}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests;
