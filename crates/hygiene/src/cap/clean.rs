//! Turns bytes from any source into harmless text: without invalid UTF-8, terminal escapes, control characters,
//! invisible or reordering characters, and the brackets of notices.

/// Takes bytes in pieces and returns harmless text.
#[derive(Debug, Default)]
pub struct Cleaner {
    /// The start of a character whose remaining bytes have not come.
    partial: Vec<u8>,
    escape: EscapeState,
    /// A carriage return came; a line feed after it belongs to it.
    returned: bool,
    neutralised: u64,
}

/// The position in an escape sequence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum EscapeState {
    #[default]
    None,
    /// After the escape character.
    Begun,
    /// In parameters, up to a letter.
    Parameters(u16),
    /// In a string, up to its terminator.
    String(u16),
    /// After an escape character in a string.
    StringEnd,
}

/// The longest escape sequence; what follows is text again.
const MAX_ESCAPE_LENGTH: u16 = 1024;

impl Cleaner {
    /// Creates a cleaner at the start of a text.
    pub fn new() -> Cleaner {
        Cleaner::default()
    }

    /// Returns how many characters were dropped or changed.
    pub fn neutralised(&self) -> u64 {
        self.neutralised
    }

    /// Takes bytes and appends the clean text. An incomplete character waits for the next piece.
    pub fn push(&mut self, bytes: &[u8], out: &mut String) {
        if self.partial.is_empty() {
            self.decode(bytes, out);
        } else {
            let mut joined = std::mem::take(&mut self.partial);
            // No character is longer than four bytes: only these must be joined.
            let some = bytes.len().min(4);
            joined.extend_from_slice(&bytes[..some]);
            self.decode(&joined, out);
            if self.partial.is_empty() {
                self.decode(&bytes[some..], out);
            } else {
                let mut rest = std::mem::take(&mut self.partial);
                rest.extend_from_slice(&bytes[some..]);
                self.decode(&rest, out);
            }
        }
    }

    /// Ends the text: an incomplete character becomes a replacement character.
    pub fn finish(&mut self, out: &mut String) {
        if !std::mem::take(&mut self.partial).is_empty() {
            self.clean_char(char::REPLACEMENT_CHARACTER, out);
            self.neutralised += 1;
        }
    }

    fn decode(&mut self, mut bytes: &[u8], out: &mut String) {
        loop {
            match std::str::from_utf8(bytes) {
                Ok(text) => return self.clean_text(text, out),
                Err(error) => {
                    let (good, bad) = bytes.split_at(error.valid_up_to());
                    if let Ok(text) = std::str::from_utf8(good) {
                        self.clean_text(text, out);
                    }
                    let Some(length) = error.error_len() else {
                        self.partial = bad.to_vec();
                        return;
                    };
                    self.clean_char(char::REPLACEMENT_CHARACTER, out);
                    self.neutralised += 1;
                    bytes = &bad[length..];
                }
            }
        }
    }

    fn clean_text(&mut self, text: &str, out: &mut String) {
        let mut rest = text;
        while !rest.is_empty() {
            if self.escape == EscapeState::None && !self.returned {
                // Most texts are plain and are copied unchanged.
                let plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
                let length = rest.bytes().position(|byte| !plain(&byte)).unwrap_or(rest.len());
                out.push_str(&rest[..length]);
                rest = &rest[length..];
            }
            let Some(letter) = rest.chars().next() else { return };
            self.clean_char(letter, out);
            rest = &rest[letter.len_utf8()..];
        }
    }

    fn clean_char(&mut self, letter: char, out: &mut String) {
        let after_return = std::mem::take(&mut self.returned);
        let next = match (self.escape, letter) {
            (EscapeState::None, _) => return self.push_plain(letter, after_return, out),
            (EscapeState::Begun, '[') => EscapeState::Parameters(0),
            (EscapeState::Begun, ']' | 'P' | 'X' | '^' | '_') => EscapeState::String(0),
            (EscapeState::Begun, ' '..='/') => EscapeState::Begun,
            (EscapeState::Begun | EscapeState::Parameters(_), '@'..='~')
            | (EscapeState::Begun, '0'..='?')
            | (EscapeState::String(_), '\u{7}' | '\u{9c}')
            | (EscapeState::StringEnd, '\\') => EscapeState::None,
            (EscapeState::Parameters(length), ' '..='?') if length < MAX_ESCAPE_LENGTH => {
                EscapeState::Parameters(length + 1)
            }
            (EscapeState::String(_) | EscapeState::Begun, '\u{1b}') => {
                if self.escape == EscapeState::Begun {
                    EscapeState::Begun
                } else {
                    EscapeState::StringEnd
                }
            }
            (EscapeState::String(length), letter) if length < MAX_ESCAPE_LENGTH && letter != '\n' => {
                EscapeState::String(length + 1)
            }
            // No escape sequence continues like this: the letter is text.
            _ => {
                self.escape = EscapeState::None;
                return self.push_plain(letter, false, out);
            }
        };
        self.escape = next;
    }

    fn push_plain(&mut self, letter: char, after_return: bool, out: &mut String) {
        match letter {
            '\n' if after_return => {}
            '\n' | '\t' => out.push(letter),
            '\r' => {
                self.returned = true;
                out.push('\n');
            }
            '\u{1b}' => self.begin_escape(EscapeState::Begun),
            '\u{9b}' => self.begin_escape(EscapeState::Parameters(0)),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => self.begin_escape(EscapeState::String(0)),
            letter if letter.is_control() || is_invisible(letter) => self.neutralised += 1,
            letter => {
                let harmless = plain_bracket(letter);
                self.neutralised += u64::from(harmless != letter);
                out.push(harmless);
            }
        }
    }

    fn begin_escape(&mut self, escape: EscapeState) {
        self.neutralised += 1;
        self.escape = escape;
    }
}

/// Whether a character reorders a line, hides in it, or spells invisible words.
fn is_invisible(letter: char) -> bool {
    matches!(
        letter,
        '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{61c}' | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Replaces the brackets of notices by plain ones.
pub(super) fn plain_bracket(letter: char) -> char {
    match letter {
        '⟦' | '〚' => '[',
        '⟧' | '〛' => ']',
        letter => letter,
    }
}

#[cfg(test)]
mod tests;
