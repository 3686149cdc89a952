//! Caps JSON of any length, taken in pieces: the result is a valid value, with notices where something is missing.

mod lexer;

use std::io;

use serde_json::{Map, Value};

use super::{
    CapLimits, Capped, Cleaner, MoreLocation, OmittedCounts, format_notice, group_thousands, to_u64, truncate_at_word,
};
use lexer::{JsonToken, Lexer};

/// The key of a notice in an object.
const NOTICE_KEY: &str = "⟦ringfence⟧";

/// Takes JSON in pieces of bytes and keeps what fits. Several values in a row become a list.
#[derive(Debug)]
pub struct JsonCap {
    limits: CapLimits,
    whole: Option<String>,
    lexer: Lexer,
    open: Vec<OpenContainer>,
    /// Levels inside a value that is skipped.
    skipped: u64,
    /// Bytes of the kept values.
    size: usize,
    top: CappedItems,
    left: OmittedCounts,
}

/// A list or object that is not closed yet.
#[derive(Debug)]
enum OpenContainer {
    List(CappedItems),
    Object {
        members: Map<String, Value>,
        key: Option<String>,
        items: CappedItems,
    },
}

/// The kept items of a list, and the number of missing ones.
#[derive(Debug, Default)]
struct CappedItems {
    kept: Vec<Value>,
    seen: u64,
    missing: u64,
}

impl JsonCap {
    fn more_location(&self) -> Option<MoreLocation<'_>> {
        self.whole.as_deref().map(MoreLocation::Whole)
    }

    /// Creates an empty cap. `whole` is the place of the whole output, for the notices.
    pub fn new(limits: CapLimits, whole: Option<&str>) -> JsonCap {
        JsonCap {
            limits,
            whole: whole.map(str::to_owned),
            lexer: Lexer::new(limits.string),
            open: Vec::new(),
            skipped: 0,
            size: 0,
            top: CappedItems::default(),
            left: OmittedCounts::default(),
        }
    }

    /// Caps a value that is in memory.
    pub fn cap_value(value: &Value, limits: CapLimits, whole: Option<&str>) -> Capped<Value> {
        let mut cap = JsonCap::new(limits, whole);
        // Writing to memory cannot fail, and a value can always be written.
        let _ = serde_json::to_writer(&mut cap, value);
        cap.finish()
    }

    /// Takes the next bytes of the input.
    pub fn push(&mut self, bytes: &[u8]) {
        self.left.seen += to_u64(bytes.len());
        let mut lexer = std::mem::take(&mut self.lexer);
        let mut rest = bytes;
        while self.left.broken_at.is_none() {
            rest = &rest[lexer.skip(rest)..];
            let Some((byte, after)) = rest.split_first() else { break };
            if lexer.push(*byte, &mut |token| self.handle_token(token)).is_err() {
                self.mark_broken(lexer.position());
            }
            rest = after;
        }
        self.lexer = lexer;
    }

    /// Ends the input and returns the shown value.
    pub fn finish(mut self) -> Capped<Value> {
        let mut lexer = std::mem::take(&mut self.lexer);
        if self.left.broken_at.is_none() {
            let ended = lexer.finish(&mut |token| self.handle_token(token));
            if ended.is_err() || !self.open.is_empty() || self.skipped > 0 {
                self.mark_broken(lexer.position());
            }
        }
        while let Some(frame) = self.open.pop() {
            let value = self.finish_container(frame);
            self.keep_value(value);
        }
        let mut top = std::mem::take(&mut self.top);
        if let Some(at) = self.left.broken_at {
            let words = format!("not JSON from byte {} on, the rest left out", group_thousands(at));
            top.kept
                .push(Value::String(format_notice(&words, self.more_location())));
            top.seen += 1;
        }
        let single = top.seen == 1 && top.kept.len() == 1;
        let shown = match top.kept.pop() {
            Some(only) if single => only,
            last => {
                top.kept.extend(last);
                self.finish_list(top)
            }
        };
        Capped {
            shown,
            left_out: self.left,
        }
    }

    fn mark_broken(&mut self, at: u64) {
        self.left.broken_at = Some(at);
    }

    fn handle_token(&mut self, token: JsonToken<'_>) {
        match token {
            JsonToken::Open(list) => self.open_container(list),
            JsonToken::Close => self.close_container(),
            JsonToken::Key(text, length) => {
                if self.skipped == 0 && self.has_room() {
                    let text = self.cap_string(text, length);
                    if let Some(OpenContainer::Object { key, .. }) = self.open.last_mut() {
                        *key = Some(text);
                    }
                }
            }
            JsonToken::String(text, length) => {
                if self.skipped == 0 && self.has_room() {
                    let text = self.cap_string(text, length);
                    self.keep_value(Value::String(text));
                } else {
                    self.skip_value(length);
                }
            }
            JsonToken::Plain(value, length) => {
                if self.skipped == 0 && self.has_room() {
                    self.size += length;
                    self.keep_value(value);
                } else {
                    self.skip_value(length);
                }
            }
        }
    }

    fn open_container(&mut self, list: bool) {
        if self.skipped > 0 {
            self.skipped += 1;
            return;
        }
        if !self.has_room() {
            self.skip_value(2);
            self.skipped = 1;
            return;
        }
        if self.open.len() >= self.limits.depth {
            self.left.deep += 1;
            let words = format!("nested deeper than {}, left out", self.limits.depth);
            self.keep_value(Value::String(format_notice(&words, self.more_location())));
            self.skipped = 1;
            return;
        }
        self.size += 2;
        self.open.push(if list {
            OpenContainer::List(CappedItems::default())
        } else {
            OpenContainer::Object {
                members: Map::new(),
                key: None,
                items: CappedItems::default(),
            }
        });
    }

    fn close_container(&mut self) {
        if self.skipped > 0 {
            self.skipped -= 1;
            return;
        }
        if let Some(frame) = self.open.pop() {
            let value = self.finish_container(frame);
            self.keep_value(value);
        }
    }

    /// Whether another value may be kept at the current position.
    fn has_room(&self) -> bool {
        let here = match self.open.last() {
            None => self.top.seen,
            Some(OpenContainer::List(items) | OpenContainer::Object { items, .. }) => items.seen,
        };
        self.size < self.limits.bytes && here < to_u64(self.limits.rows)
    }

    /// Counts a value that is not kept.
    fn skip_value(&mut self, length: usize) {
        self.left.bytes += to_u64(length);
        if self.skipped > 0 {
            return;
        }
        self.left.rows += 1;
        let items = match self.open.last_mut() {
            None => &mut self.top,
            Some(OpenContainer::List(items)) => items,
            Some(OpenContainer::Object { items, key, .. }) => {
                *key = None;
                items
            }
        };
        items.seen += 1;
        items.missing += 1;
    }

    fn keep_value(&mut self, value: Value) {
        match self.open.last_mut() {
            None => {
                self.top.seen += 1;
                self.top.kept.push(value);
            }
            Some(OpenContainer::List(items)) => {
                items.seen += 1;
                items.kept.push(value);
            }
            Some(OpenContainer::Object { members, key, items }) => {
                items.seen += 1;
                // Of a duplicate key only one value remains: the output differs from the input.
                let twice = members.insert(key.take().unwrap_or_default(), value).is_some();
                self.left.neutralised += u64::from(twice);
            }
        }
    }

    fn finish_container(&mut self, frame: OpenContainer) -> Value {
        match frame {
            OpenContainer::List(items) => self.finish_list(items),
            OpenContainer::Object { mut members, items, .. } => {
                if items.missing > 0 {
                    let words = format!(
                        "{} of {} members left out",
                        group_thousands(items.missing),
                        group_thousands(items.seen)
                    );
                    members.insert(
                        NOTICE_KEY.to_owned(),
                        Value::String(format_notice(&words, self.more_location())),
                    );
                }
                Value::Object(members)
            }
        }
    }

    fn finish_list(&self, items: CappedItems) -> Value {
        let mut kept = items.kept;
        if items.missing > 0 {
            let words = format!(
                "{} of {} rows left out",
                group_thousands(items.missing),
                group_thousands(items.seen)
            );
            kept.push(Value::String(format_notice(&words, self.more_location())));
        }
        Value::Array(kept)
    }

    /// Returns a string as it is shown: harmless, and truncated if it is too long.
    fn cap_string(&mut self, raw: &[u8], length: usize) -> String {
        let mut text = String::with_capacity(raw.len());
        let mut cleaner = Cleaner::new();
        let decoded = lexer::unescape(raw);
        cleaner.push(&decoded, &mut text);
        cleaner.finish(&mut text);
        self.left.neutralised += cleaner.neutralised();
        let room = self
            .limits
            .string
            .min(self.limits.bytes.saturating_sub(self.size))
            .max(MIN_STRING_BYTES.min(self.limits.string));
        if length > raw.len() || text.len() > room {
            let kept = truncate_at_word(&text, room.min(text.len().saturating_sub(1))).len();
            let missing = to_u64(length.saturating_sub(kept));
            text.truncate(kept);
            self.left.cut += 1;
            self.left.bytes += missing;
            self.size += text.len();
            let words = format!(
                "{} of {} bytes left out",
                group_thousands(missing),
                group_thousands(to_u64(length))
            );
            text.push_str(&format_notice(&words, self.more_location()));
        } else {
            self.size += text.len() + 2;
        }
        text
    }
}

/// If any of a string is shown, at least this many bytes are.
const MIN_STRING_BYTES: usize = 64;

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
