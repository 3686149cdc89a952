//! What a terminal would obey is shown instead of obeyed: a program must not move the cursor, set the title, or reach
//! the clipboard of whoever watches it.

use std::fmt::Write as _;

/// Text on a terminal, escaped as it comes; a character may be split between two pieces.
#[derive(Debug, Default)]
pub(crate) struct Escaper {
    /// The beginning of a character whose rest has not come yet, or a carriage return that may begin a line end.
    held: Vec<u8>,
}

impl Escaper {
    /// The next piece.
    pub(crate) fn escape(&mut self, piece: &[u8]) -> String {
        let mut bytes = std::mem::take(&mut self.held);
        bytes.extend_from_slice(piece);
        let keep = bytes.len() - unfinished(&bytes);
        self.held = bytes.split_off(keep);
        shown(&bytes)
    }

    /// What was held back: no rest comes any more.
    pub(crate) fn finish(&mut self) -> String {
        shown(&std::mem::take(&mut self.held))
    }
}

/// How many bytes at the end cannot be judged alone.
fn unfinished(bytes: &[u8]) -> usize {
    if bytes.last() == Some(&b'\r') {
        return 1;
    }
    let tail = bytes.len().saturating_sub(3);
    let starts = bytes.get(tail..).unwrap_or_default();
    let Some(start) = starts.iter().rposition(|byte| *byte >= 0xc0) else {
        return 0;
    };
    let rest = starts.get(start..).unwrap_or_default();
    match std::str::from_utf8(rest) {
        Err(error) if error.error_len().is_none() => rest.len(),
        _ => 0,
    }
}

fn shown(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        push_text(&mut out, chunk.valid());
        for byte in chunk.invalid() {
            push(&mut out, format_args!("\\x{byte:02x}"));
        }
    }
    out
}

/// Text of ours that may quote a program's.
pub(crate) fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    push_text(&mut out, text);
    out
}

fn push_text(out: &mut String, text: &str) {
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\r' if characters.peek() == Some(&'\n') => out.push('\r'),
            '\n' | '\t' => out.push(character),
            character if obeyed(character) => match u8::try_from(character) {
                Ok(byte) => push(out, format_args!("\\x{byte:02x}")),
                Err(_) => push(out, format_args!("\\u{{{:x}}}", u32::from(character))),
            },
            character => out.push(character),
        }
    }
}

/// Characters that a terminal acts on, or that turn the direction of text around.
fn obeyed(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// JSON text: the same characters, in JSON's own escapes, so that it stays the same value.
pub(crate) fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        // Outside of strings JSON has no such character but the line feed.
        if character != '\n' && obeyed(character) {
            push(&mut out, format_args!("\\u{:04x}", u32::from(character)));
        } else {
            out.push(character);
        }
    }
    out
}

fn push(out: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = out.write_fmt(what);
}

#[cfg(test)]
mod tests;
