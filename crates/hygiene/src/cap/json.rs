//! Caps JSON of any length, taken in pieces: the result is a valid value, with notices where something is missing.

mod lex;

use std::io;

use serde_json::{Map, Value};

use super::{At, Capped, Cleaner, LeftOut, Limits, cut_before, grouped, notice, wide};
use lex::{Lexer, Token};

/// The key of a notice in an object.
const KEY: &str = "⟦ringfence⟧";

/// Takes JSON in pieces of bytes and keeps what fits. Several values in a row become a list.
#[derive(Debug)]
pub struct JsonCap {
    limits: Limits,
    whole: Option<String>,
    lexer: Lexer,
    open: Vec<Frame>,
    /// Levels inside a value that is skipped.
    skipped: u64,
    /// Bytes of the kept values.
    size: usize,
    top: Items,
    left: LeftOut,
}

/// A list or object that is not closed yet.
#[derive(Debug)]
enum Frame {
    List(Items),
    Object {
        members: Map<String, Value>,
        key: Option<String>,
        items: Items,
    },
}

/// The kept items of a list, and the number of missing ones.
#[derive(Debug, Default)]
struct Items {
    kept: Vec<Value>,
    seen: u64,
    missing: u64,
}

impl JsonCap {
    fn at(&self) -> Option<At<'_>> {
        self.whole.as_deref().map(At::Whole)
    }

    /// Creates an empty cap. `whole` is the place of the whole output, for the notices.
    pub fn new(limits: Limits, whole: Option<&str>) -> JsonCap {
        JsonCap {
            limits,
            whole: whole.map(str::to_owned),
            lexer: Lexer::new(limits.string),
            open: Vec::new(),
            skipped: 0,
            size: 0,
            top: Items::default(),
            left: LeftOut::default(),
        }
    }

    /// Caps a value that is in memory.
    pub fn value(value: &Value, limits: Limits, whole: Option<&str>) -> Capped<Value> {
        let mut cap = JsonCap::new(limits, whole);
        // Writing to memory cannot fail, and a value can always be written.
        let _ = serde_json::to_writer(&mut cap, value);
        cap.finish()
    }

    /// Takes the next bytes of the input.
    pub fn push(&mut self, bytes: &[u8]) {
        self.left.seen += wide(bytes.len());
        let mut lexer = std::mem::take(&mut self.lexer);
        let mut rest = bytes;
        while self.left.broken_at.is_none() {
            rest = &rest[lexer.skip(rest)..];
            let Some((byte, after)) = rest.split_first() else { break };
            if lexer.push(*byte, &mut |token| self.token(token)).is_err() {
                self.broken(lexer.position());
            }
            rest = after;
        }
        self.lexer = lexer;
    }

    /// Ends the input and returns the shown value.
    pub fn finish(mut self) -> Capped<Value> {
        let mut lexer = std::mem::take(&mut self.lexer);
        if self.left.broken_at.is_none() {
            let ended = lexer.finish(&mut |token| self.token(token));
            if ended.is_err() || !self.open.is_empty() || self.skipped > 0 {
                self.broken(lexer.position());
            }
        }
        while let Some(frame) = self.open.pop() {
            let value = self.close(frame);
            self.keep(value);
        }
        let mut top = std::mem::take(&mut self.top);
        if let Some(at) = self.left.broken_at {
            let words = format!("not JSON from byte {} on, the rest left out", grouped(at));
            top.kept.push(Value::String(notice(&words, self.at())));
            top.seen += 1;
        }
        let single = top.seen == 1 && top.kept.len() == 1;
        let shown = match top.kept.pop() {
            Some(only) if single => only,
            last => {
                top.kept.extend(last);
                self.list(top)
            }
        };
        Capped {
            shown,
            left_out: self.left,
        }
    }

    fn broken(&mut self, at: u64) {
        self.left.broken_at = Some(at);
    }

    fn token(&mut self, token: Token<'_>) {
        match token {
            Token::Open(list) => self.begin(list),
            Token::Close => self.end(),
            Token::Key(text, length) => {
                if self.skipped == 0 && self.has_room() {
                    let text = self.string(text, length);
                    if let Some(Frame::Object { key, .. }) = self.open.last_mut() {
                        *key = Some(text);
                    }
                }
            }
            Token::String(text, length) => {
                if self.skipped == 0 && self.has_room() {
                    let text = self.string(text, length);
                    self.keep(Value::String(text));
                } else {
                    self.miss(length);
                }
            }
            Token::Plain(value, length) => {
                if self.skipped == 0 && self.has_room() {
                    self.size += length;
                    self.keep(value);
                } else {
                    self.miss(length);
                }
            }
        }
    }

    fn begin(&mut self, list: bool) {
        if self.skipped > 0 {
            self.skipped += 1;
            return;
        }
        if !self.has_room() {
            self.miss(2);
            self.skipped = 1;
            return;
        }
        if self.open.len() >= self.limits.depth {
            self.left.deep += 1;
            let words = format!("nested deeper than {}, left out", self.limits.depth);
            self.keep(Value::String(notice(&words, self.at())));
            self.skipped = 1;
            return;
        }
        self.size += 2;
        self.open.push(if list {
            Frame::List(Items::default())
        } else {
            Frame::Object {
                members: Map::new(),
                key: None,
                items: Items::default(),
            }
        });
    }

    fn end(&mut self) {
        if self.skipped > 0 {
            self.skipped -= 1;
            return;
        }
        if let Some(frame) = self.open.pop() {
            let value = self.close(frame);
            self.keep(value);
        }
    }

    /// Whether another value may be kept at the current position.
    fn has_room(&self) -> bool {
        let here = match self.open.last() {
            None => self.top.seen,
            Some(Frame::List(items) | Frame::Object { items, .. }) => items.seen,
        };
        self.size < self.limits.bytes && here < wide(self.limits.rows)
    }

    /// Counts a value that is not kept.
    fn miss(&mut self, length: usize) {
        self.left.bytes += wide(length);
        if self.skipped > 0 {
            return;
        }
        self.left.rows += 1;
        let items = match self.open.last_mut() {
            None => &mut self.top,
            Some(Frame::List(items)) => items,
            Some(Frame::Object { items, key, .. }) => {
                *key = None;
                items
            }
        };
        items.seen += 1;
        items.missing += 1;
    }

    fn keep(&mut self, value: Value) {
        match self.open.last_mut() {
            None => {
                self.top.seen += 1;
                self.top.kept.push(value);
            }
            Some(Frame::List(items)) => {
                items.seen += 1;
                items.kept.push(value);
            }
            Some(Frame::Object { members, key, items }) => {
                items.seen += 1;
                // Of a duplicate key only one value remains: the output differs from the input.
                let twice = members.insert(key.take().unwrap_or_default(), value).is_some();
                self.left.neutralised += u64::from(twice);
            }
        }
    }

    fn close(&mut self, frame: Frame) -> Value {
        match frame {
            Frame::List(items) => self.list(items),
            Frame::Object { mut members, items, .. } => {
                if items.missing > 0 {
                    let words = format!("{} of {} members left out", grouped(items.missing), grouped(items.seen));
                    members.insert(KEY.to_owned(), Value::String(notice(&words, self.at())));
                }
                Value::Object(members)
            }
        }
    }

    fn list(&self, items: Items) -> Value {
        let mut kept = items.kept;
        if items.missing > 0 {
            let words = format!("{} of {} rows left out", grouped(items.missing), grouped(items.seen));
            kept.push(Value::String(notice(&words, self.at())));
        }
        Value::Array(kept)
    }

    /// Returns a string as it is shown: harmless, and truncated if it is too long.
    fn string(&mut self, raw: &[u8], length: usize) -> String {
        let mut text = String::with_capacity(raw.len());
        let mut cleaner = Cleaner::new();
        let decoded = lex::unescape(raw);
        cleaner.push(&decoded, &mut text);
        cleaner.finish(&mut text);
        self.left.neutralised += cleaner.neutralised();
        let room = self
            .limits
            .string
            .min(self.limits.bytes.saturating_sub(self.size))
            .max(MARGIN.min(self.limits.string));
        if length > raw.len() || text.len() > room {
            let kept = cut_before(&text, room.min(text.len().saturating_sub(1))).len();
            let missing = wide(length.saturating_sub(kept));
            text.truncate(kept);
            self.left.cut += 1;
            self.left.bytes += missing;
            self.size += text.len();
            let words = format!("{} of {} bytes left out", grouped(missing), grouped(wide(length)));
            text.push_str(&notice(&words, self.at()));
        } else {
            self.size += text.len() + 2;
        }
        text
    }
}

/// If any of a string is shown, at least this many bytes are.
const MARGIN: usize = 64;

impl io::Write for JsonCap {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.push(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
