//! What a terminal would obey is shown instead of obeyed: a program must not move the cursor, set the title, or reach
//! the clipboard of whoever watches it.

use std::fmt::Write as _;

use ringfence_policy::is_unseen;

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

/// The same in a line of ours: what follows a line feed is set in, if it is not yet, so that it cannot pass for a line of its own.
pub(crate) fn indented(text: &str) -> String {
    self::text(text).replace('\n', "\n  ").replace("\n    ", "\n  ")
}

/// Words of ours for standard output, where the colours that we put there ourselves stay.
pub(crate) fn words(text: &str, own: &[&str]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find('\u{1b}') {
        let (before, from) = rest.split_at(place);
        push_text(&mut out, before);
        let style = own.iter().find(|style| from.starts_with(**style));
        let kept = style.map_or(1, |style| style.len());
        let (escape, after) = from.split_at(kept);
        match style {
            Some(style) => out.push_str(style),
            None => push_text(&mut out, escape),
        }
        rest = after;
    }
    push_text(&mut out, rest);
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

/// Characters that a terminal acts on, that turn the direction of text around, or that hide in it. What joins letters and
/// pictures is left alone, and the blank of pictures drawn in braille: writing needs them.
fn obeyed(character: char) -> bool {
    let needed = matches!(
        character,
        '\u{200c}' | '\u{200d}' | '\u{2800}' | '\u{fe00}'..='\u{fe0f}'
    );
    character.is_control() || is_unseen(character) && !needed
}

/// JSON text: the same characters, in JSON's own escapes, so that it stays the same value.
pub(crate) fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        // Outside of strings JSON has no such character but the line feed.
        if character != '\n' && obeyed(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                push(&mut out, format_args!("\\u{unit:04x}"));
            }
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
