//! A JSON lexer for bytes that come one by one. It holds only the current token, up to a limit.

use serde_json::{Number, Value};

use crate::cap::to_u64;

/// One token of JSON.
pub(super) enum JsonToken<'t> {
    /// The start of a list (`true`) or an object.
    Open(bool),
    /// The end of the innermost list or object.
    Close,
    /// The key of a member, still escaped, and its whole length in bytes.
    Key(&'t [u8], usize),
    /// A string, still escaped, and its whole length in bytes.
    String(&'t [u8], usize),
    /// Any other value, and its length in bytes.
    Plain(Value, usize),
}

/// The position in the grammar.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum LexState {
    /// A value may begin here.
    #[default]
    Value,
    /// After the start of a list: before a value or the end.
    First,
    /// After the start of an object: before a key or the end.
    FirstKey,
    Key,
    Colon,
    /// A value has just ended.
    After,
    Text {
        escaped: bool,
        key: bool,
    },
    Word,
}

/// The input is not JSON.
#[derive(Debug)]
pub(super) struct LexError;

/// Splits bytes into tokens.
#[derive(Debug, Default)]
pub(super) struct Lexer {
    state: LexState,
    /// One bit per level: whether it is a list.
    levels: Vec<u64>,
    depth: u64,
    held: Vec<u8>,
    /// Bytes of the token, also those that are not held.
    length: usize,
    most: usize,
    position: u64,
}

/// Most bytes of a number.
const MAX_NUMBER_BYTES: usize = 320;
/// The most levels, which need two megabytes at one bit each. No real value is deeper.
const MAX_DEPTH: u64 = 1 << 24;

impl Lexer {
    /// Creates a lexer that holds a little more than `most` bytes of a string, in which an escape takes up to twelve
    /// bytes per letter.
    pub(super) fn new(most: usize) -> Lexer {
        Lexer {
            most: most.saturating_mul(2).saturating_add(256),
            ..Lexer::default()
        }
    }

    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Takes bytes that only continue the current string, all at once. Returns how many.
    pub(super) fn skip(&mut self, bytes: &[u8]) -> usize {
        if !matches!(self.state, LexState::Text { escaped: false, .. }) {
            return 0;
        }
        let count = bytes
            .iter()
            .position(|byte| matches!(byte, b'"' | b'\\'))
            .unwrap_or(bytes.len());
        let room = self.most.saturating_sub(self.held.len()).min(count);
        self.held.extend_from_slice(&bytes[..room]);
        self.length += count;
        self.position += to_u64(count);
        count
    }

    pub(super) fn push(&mut self, byte: u8, each: &mut dyn FnMut(JsonToken<'_>)) -> Result<(), LexError> {
        self.position += 1;
        match self.state {
            LexState::Text { escaped, key } => {
                self.push_string_byte(byte, escaped, key, each);
                return Ok(());
            }
            LexState::Word => {
                if !matches!(
                    byte,
                    b',' | b']' | b'}' | b':' | b' ' | b'\t' | b'\n' | b'\r' | b'"' | b'[' | b'{'
                ) {
                    self.held.push(byte);
                    return if self.held.len() > MAX_NUMBER_BYTES {
                        Err(LexError)
                    } else {
                        Ok(())
                    };
                }
                self.finish_word(each)?;
            }
            LexState::Value
            | LexState::First
            | LexState::FirstKey
            | LexState::Key
            | LexState::Colon
            | LexState::After => {}
        }
        if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            return Ok(());
        }
        self.push_punctuation(byte, each)
    }

    /// Ends the input, which may end a number.
    pub(super) fn finish(&mut self, each: &mut dyn FnMut(JsonToken<'_>)) -> Result<(), LexError> {
        match self.state {
            LexState::Word => self.finish_word(each),
            LexState::Text { key: false, .. } => {
                each(JsonToken::String(&self.held, self.length + 1));
                Err(LexError)
            }
            LexState::After | LexState::Value if self.depth == 0 => Ok(()),
            LexState::Value
            | LexState::First
            | LexState::FirstKey
            | LexState::Key
            | LexState::Colon
            | LexState::After
            | LexState::Text { key: true, .. } => Err(LexError),
        }
    }

    fn push_punctuation(&mut self, byte: u8, each: &mut dyn FnMut(JsonToken<'_>)) -> Result<(), LexError> {
        match (self.state, byte) {
            (LexState::Value | LexState::First, b'{' | b'[') => return self.open_level(byte == b'[', each),
            (LexState::After, b'{' | b'[') if self.depth == 0 => return self.open_level(byte == b'[', each),
            (LexState::Value | LexState::First, b'"') => self.begin_string(false),
            (LexState::FirstKey | LexState::Key, b'"') => self.begin_string(true),
            (LexState::After, b'"') if self.depth == 0 => self.begin_string(false),
            (LexState::First | LexState::After, b']') if self.in_list() => self.close_level(each),
            (LexState::FirstKey | LexState::After, b'}') if self.depth > 0 && !self.in_list() => self.close_level(each),
            (LexState::After, b',') if self.depth > 0 => {
                self.state = if self.in_list() { LexState::Value } else { LexState::Key };
            }
            (LexState::Colon, b':') => self.state = LexState::Value,
            (LexState::Value | LexState::First | LexState::After, b'-' | b'0'..=b'9' | b't' | b'f' | b'n')
                if self.state != LexState::After || self.depth == 0 =>
            {
                self.held.clear();
                self.held.push(byte);
                self.state = LexState::Word;
            }
            _ => return Err(LexError),
        }
        Ok(())
    }

    fn begin_string(&mut self, key: bool) {
        self.held.clear();
        self.length = 0;
        self.state = LexState::Text { escaped: false, key };
    }

    fn push_string_byte(&mut self, byte: u8, escaped: bool, key: bool, each: &mut dyn FnMut(JsonToken<'_>)) {
        if byte == b'"' && !escaped {
            if key {
                each(JsonToken::Key(&self.held, self.length));
                self.state = LexState::Colon;
            } else {
                each(JsonToken::String(&self.held, self.length));
                self.state = LexState::After;
            }
            return;
        }
        self.length += 1;
        if self.held.len() < self.most {
            self.held.push(byte);
        }
        self.state = LexState::Text {
            escaped: byte == b'\\' && !escaped,
            key,
        };
    }

    fn finish_word(&mut self, each: &mut dyn FnMut(JsonToken<'_>)) -> Result<(), LexError> {
        let value = match self.held.as_slice() {
            b"true" => Value::Bool(true),
            b"false" => Value::Bool(false),
            b"null" => Value::Null,
            number => Value::Number(serde_json::from_slice::<Number>(number).map_err(|_| LexError)?),
        };
        self.state = LexState::After;
        each(JsonToken::Plain(value, self.held.len()));
        Ok(())
    }

    fn open_level(&mut self, list: bool, each: &mut dyn FnMut(JsonToken<'_>)) -> Result<(), LexError> {
        if self.depth == MAX_DEPTH {
            return Err(LexError);
        }
        let (slot, bit) = Lexer::level_bit(self.depth);
        if slot == self.levels.len() {
            self.levels.push(0);
        }
        self.levels[slot] = self.levels[slot] & !bit | if list { bit } else { 0 };
        self.depth += 1;
        self.state = if list { LexState::First } else { LexState::FirstKey };
        each(JsonToken::Open(list));
        Ok(())
    }

    fn close_level(&mut self, each: &mut dyn FnMut(JsonToken<'_>)) {
        self.depth -= 1;
        self.state = LexState::After;
        each(JsonToken::Close);
    }

    fn in_list(&self) -> bool {
        let Some(level) = self.depth.checked_sub(1) else {
            return false;
        };
        let (slot, bit) = Lexer::level_bit(level);
        self.levels.get(slot).is_some_and(|levels| levels & bit != 0)
    }

    fn level_bit(level: u64) -> (usize, u64) {
        (usize::try_from(level / 64).unwrap_or(usize::MAX), 1 << (level % 64))
    }
}

/// Unescapes a string; invalid bytes stay invalid and are handled as text later.
pub(super) fn unescape(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    let mut at = 0;
    while let Some(byte) = raw.get(at) {
        if *byte != b'\\' {
            out.push(*byte);
            at += 1;
            continue;
        }
        let plain = match raw.get(at + 1) {
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'u') => {
                let (letter, length) = code_point(&raw[at..]);
                out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                at += length;
                continue;
            }
            Some(other) => {
                out.push(*other);
                at += 2;
                continue;
            }
            // The escape is cut off.
            None => return out,
        };
        out.extend_from_slice(plain.encode_utf8(&mut [0; 4]).as_bytes());
        at += 2;
    }
    out
}

/// Returns the letter that `\uXXXX`, or a pair of them, stands for, and its length.
fn code_point(raw: &[u8]) -> (char, usize) {
    let unit = |from: usize| {
        let digits = raw.get(from..from + 6).filter(|part| part.starts_with(b"\\u"))?;
        u32::from_str_radix(std::str::from_utf8(&digits[2..]).ok()?, 16).ok()
    };
    let Some(first) = unit(0) else {
        return (char::REPLACEMENT_CHARACTER, 2.min(raw.len()));
    };
    if let (0xD800..=0xDBFF, Some(second @ 0xDC00..=0xDFFF)) = (first, unit(6)) {
        let point = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
        return (char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER), 12);
    }
    (char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), 6)
}
