//! Parses printed structures in one pass, whatever surrounds them: an invalid structure is abandoned where that
//! shows, and its complete parts are kept.

/// The range of a value in the text, without its quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TextSpan {
    pub(super) start: usize,
    pub(super) end: usize,
}

/// A node of a structure.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PrintedNode {
    /// A text between quotes.
    Text(TextSpan),
    Number(TextSpan),
    List(Vec<PrintedNode>),
    /// A list in round brackets, Python's form of a row: it never names the columns of other rows.
    Tuple(Vec<PrintedNode>),
    Object(Vec<(TextSpan, PrintedNode)>),
    /// A word, a call, or nothing.
    Other,
}

impl PrintedNode {
    pub(super) fn is_structure(&self) -> bool {
        matches!(
            self,
            PrintedNode::List(_) | PrintedNode::Tuple(_) | PrintedNode::Object(_)
        )
    }
}

/// Most levels that are parsed.
const MAX_PRINTED_DEPTH: usize = 64;
/// Most bytes of a key, and of a call.
const MAX_KEY_BYTES: usize = 64;
const MAX_CALL_BYTES: usize = 256;
/// Most values that are parsed in one text, because a value takes more memory than the two bytes it may be written
/// in. The rest is checked key by key.
pub(super) const MAX_VALUES: usize = 1 << 20;

/// A structure that is not closed yet.
struct OpenStructure {
    node: PrintedNode,
    closes: u8,
    key: Option<TextSpan>,
    /// Whether it has a value that a comma must follow.
    done: bool,
}

struct PrintedParser<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    open: Vec<OpenStructure>,
    roots: Vec<PrintedNode>,
    values: usize,
}

/// Returns the structures in a text, including one that the end of the text cuts off.
pub(super) fn parse_structures(text: &str) -> Vec<PrintedNode> {
    let mut parser = PrintedParser {
        text,
        bytes: text.as_bytes(),
        at: 0,
        open: Vec::new(),
        roots: Vec::new(),
        values: 0,
    };
    while parser.values < MAX_VALUES
        && let Some(byte) = parser.next()
    {
        if parser.step(byte).is_none() {
            parser.leave();
        }
    }
    while parser.open.len() > 1 {
        parser.close();
    }
    let last = parser.open.pop().map(|frame| frame.node);
    parser.roots.extend(last);
    parser.roots
}

impl PrintedParser<'_> {
    /// Returns the next significant byte; outside of structures, one that begins a structure.
    fn next(&mut self) -> Option<u8> {
        let rest = self.bytes.get(self.at..)?;
        let length = if self.open.is_empty() {
            rest.iter().position(|byte| matches!(byte, b'{' | b'['))?
        } else {
            rest.iter().position(|byte| !byte.is_ascii_whitespace())?
        };
        self.at += length;
        self.bytes.get(self.at).copied()
    }

    fn step(&mut self, byte: u8) -> Option<()> {
        match byte {
            b'}' | b']' | b')' if self.open.last()?.closes == byte => {
                if self.open.last()?.key.is_some() {
                    return None;
                }
                self.at += 1;
                self.close();
                Some(())
            }
            b',' => {
                let frame = self.open.last_mut().filter(|frame| frame.done)?;
                frame.done = false;
                self.at += 1;
                Some(())
            }
            _ if self.open.last().is_some_and(|frame| frame.done) => None,
            _ if self.wants_key() => self.key(byte),
            b'{' | b'[' | b'(' => self.begin(byte),
            b'"' | b'\'' | b'`' => {
                let span = self.string(byte)?;
                self.put(PrintedNode::Text(span));
                Some(())
            }
            _ => self.word(),
        }
    }

    fn wants_key(&self) -> bool {
        let frame = self.open.last();
        frame.is_some_and(|frame| frame.key.is_none() && matches!(frame.node, PrintedNode::Object(_)))
    }

    fn begin(&mut self, byte: u8) -> Option<()> {
        if self.open.len() >= MAX_PRINTED_DEPTH || byte == b'(' && self.open.is_empty() {
            return None;
        }
        let (node, closes) = match byte {
            b'{' => (PrintedNode::Object(Vec::new()), b'}'),
            b'[' => (PrintedNode::List(Vec::new()), b']'),
            _ => (PrintedNode::Tuple(Vec::new()), b')'),
        };
        self.open.push(OpenStructure {
            node,
            closes,
            key: None,
            done: false,
        });
        self.at += 1;
        Some(())
    }

    /// Parses a key and its colon.
    fn key(&mut self, byte: u8) -> Option<()> {
        let span = if matches!(byte, b'"' | b'\'') {
            self.string(byte)?
        } else {
            let name =
                |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(**byte, b'_' | b'$' | b'-') || **byte >= 0x80;
            let length = self.bytes[self.at..]
                .iter()
                .take(MAX_KEY_BYTES)
                .take_while(name)
                .count();
            let start = self.at;
            self.at += length;
            (length > 0).then_some(TextSpan { start, end: self.at })?
        };
        let rest = self.bytes.get(self.at..)?;
        let space = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        if rest.get(space) != Some(&b':') {
            return None;
        }
        self.at += space + 1;
        self.open.last_mut()?.key = Some(span);
        Some(())
    }

    /// Parses the text between quotes, on one line.
    fn string(&mut self, quote: u8) -> Option<TextSpan> {
        let start = self.at + 1;
        let mut end = start;
        loop {
            match self.bytes.get(end) {
                Some(b'\\') => end += 2,
                Some(b'\n') => return None,
                Some(byte) if *byte != quote => end += 1,
                // A text that the end of the input cuts off counts too.
                Some(_) | None => break,
            }
        }
        let end = end.min(self.bytes.len());
        self.at = end + 1;
        Some(TextSpan { start, end })
    }

    /// Parses a value without quotes; a word before a bracket or quote only names what follows.
    fn word(&mut self) -> Option<()> {
        let start = self.at;
        let ends = |byte: &u8| {
            matches!(
                byte,
                b',' | b'}' | b']' | b')' | b'{' | b'[' | b'(' | b'\n' | b'"' | b'\'' | b'`'
            )
        };
        let Some(length) = self.bytes[start..].iter().position(ends) else {
            self.at = self.bytes.len();
            self.put(PrintedNode::Other);
            return Some(());
        };
        let mut end = start + length;
        if self.bytes[end] == b'(' {
            let rest = self.bytes[end..].iter().take(MAX_CALL_BYTES);
            end += rest.take_while(|byte| **byte != b')').count();
            (self.bytes.get(end) == Some(&b')')).then_some(())?;
            self.at = end + 1;
            let after = self.bytes[self.at..].iter().take(2).find(|byte| **byte != b' ');
            if !matches!(after, Some(b'{' | b'[')) {
                self.put(PrintedNode::Other);
            }
            return Some(());
        }
        self.at = end;
        if matches!(self.bytes[end], b'{' | b'[' | b'"' | b'\'' | b'`') {
            let name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b' ' | b'$');
            return self.bytes[start..end].iter().all(name).then_some(());
        }
        let value = self.text.get(start..end)?.trim_ascii_end();
        let number = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.');
        let counts = !value.is_empty() && value.bytes().all(number) && value.bytes().any(|byte| byte.is_ascii_digit());
        self.put(if counts {
            PrintedNode::Number(TextSpan {
                start,
                end: start + value.len(),
            })
        } else {
            PrintedNode::Other
        });
        Some(())
    }

    /// Adds a value where one is expected.
    fn put(&mut self, node: PrintedNode) {
        self.values += 1;
        let Some(frame) = self.open.last_mut() else {
            self.roots.push(node);
            return;
        };
        frame.done = true;
        match (&mut frame.node, frame.key.take()) {
            (PrintedNode::List(items) | PrintedNode::Tuple(items), _) => items.push(node),
            (PrintedNode::Object(members), Some(key)) => members.push((key, node)),
            (PrintedNode::Object(_) | PrintedNode::Text(_) | PrintedNode::Number(_) | PrintedNode::Other, _) => {}
        }
    }

    fn close(&mut self) {
        if let Some(frame) = self.open.pop() {
            self.put(frame.node);
        }
    }

    /// Abandons the open structures and keeps their complete parts.
    fn leave(&mut self) {
        if !matches!(self.bytes.get(self.at), Some(b'{' | b'[')) || self.open.is_empty() {
            self.at += 1;
        }
        for frame in self.open.drain(..) {
            let whole = PrintedNode::is_structure;
            match frame.node {
                PrintedNode::List(items) | PrintedNode::Tuple(items) => {
                    self.roots.extend(items.into_iter().filter(whole));
                }
                PrintedNode::Object(members) => self
                    .roots
                    .extend(members.into_iter().map(|(_, node)| node).filter(whole)),
                PrintedNode::Text(_) | PrintedNode::Number(_) | PrintedNode::Other => {}
            }
        }
    }
}
