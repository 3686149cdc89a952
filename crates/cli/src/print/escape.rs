//! Escapes what a terminal would act on, so that a program cannot move the cursor, set the title or write to the
//! clipboard of the user.

use std::fmt::Write as _;

use ringfence_policy::is_invisible;

/// Escapes a byte stream for a terminal piece by piece; a character may be split between two pieces.
#[derive(Debug, Default)]
pub(crate) struct Escaper {
    /// The start of an incomplete character, or a carriage return that may start a line end.
    held: Vec<u8>,
}

impl Escaper {
    /// Escapes the next piece and returns the part that is complete.
    pub(crate) fn escape(&mut self, piece: &[u8]) -> String {
        let mut bytes = std::mem::take(&mut self.held);
        bytes.extend_from_slice(piece);
        let keep = bytes.len() - unfinished_length(&bytes);
        self.held = bytes.split_off(keep);
        escape_bytes(&bytes)
    }

    /// Escapes the held bytes at the end of the stream.
    pub(crate) fn finish(&mut self) -> String {
        escape_bytes(&std::mem::take(&mut self.held))
    }
}

/// The number of bytes at the end that need the next piece to be judged.
fn unfinished_length(bytes: &[u8]) -> usize {
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

fn escape_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        push_text(&mut out, chunk.valid());
        for byte in chunk.invalid() {
            push_formatted(&mut out, format_args!("\\x{byte:02x}"));
        }
    }
    out
}

/// Escapes text of this program that may quote a program's output.
pub(crate) fn escape_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    push_text(&mut out, text);
    out
}

/// The same for one notice: indents every line after the first, so that it cannot pass for a separate line.
pub(crate) fn escape_indented(text: &str) -> String {
    self::escape_text(text).replace('\n', "\n  ").replace("\n    ", "\n  ")
}

/// Escapes text for standard output, except the colour sequences `own` that this program adds.
pub(crate) fn escape_own(text: &str, own: &[&str]) -> String {
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
            character if is_obeyed(character) => match u8::try_from(character) {
                Ok(byte) => push_formatted(out, format_args!("\\x{byte:02x}")),
                Err(_) => push_formatted(out, format_args!("\\u{{{:x}}}", u32::from(character))),
            },
            character => out.push(character),
        }
    }
}

/// Whether a terminal acts on the character, or the character reverses the direction of text or is invisible. Joiners of
/// letters and emoji and the braille blank are excluded, because text needs them.
fn is_obeyed(character: char) -> bool {
    let needed = matches!(
        character,
        '\u{200c}' | '\u{200d}' | '\u{2800}' | '\u{fe00}'..='\u{fe0f}'
    );
    character.is_control() || is_invisible(character) && !needed
}

/// Escapes the same characters in JSON text with JSON escapes, so that the value stays the same.
pub(crate) fn escape_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        // Outside strings, JSON text has no such character but the line feed.
        if character != '\n' && is_obeyed(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                push_formatted(&mut out, format_args!("\\u{unit:04x}"));
            }
        } else {
            out.push(character);
        }
    }
    out
}

fn push_formatted(out: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = out.write_fmt(what);
}

#[cfg(test)]
mod tests;
