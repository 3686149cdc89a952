//! Caps a text of any length: keeps its beginning, or its beginning and end, within limits.

use std::collections::VecDeque;

use super::{
    CapLimits, Capped, Cleaner, MoreLocation, OmittedCounts, format_notice, group_thousands, to_u64, truncate_at_word,
};

/// The part of a long text that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptPart {
    /// The beginning, so that tables keep their header.
    Head,
    /// The beginning and the end, because the last lines of a log matter most.
    Ends,
}

/// Takes a text in pieces of bytes and keeps what fits.
#[derive(Debug)]
pub struct TextCap {
    limits: CapLimits,
    keep: KeptPart,
    whole: Option<String>,
    /// Whether `whole` names only the kept part of the output.
    is_cut: bool,
    /// `None` if the text is clean already.
    cleaner: Option<Cleaner>,
    head: String,
    /// Number of lines in `head`.
    head_rows: usize,
    /// The last lines so far and their bytes; only with [`KeptPart::Ends`].
    tail: VecDeque<String>,
    tail_bytes: usize,
    line: LineBuffer,
    rows: u64,
    left: OmittedCounts,
    /// Whether the beginning is complete.
    full: bool,
}

/// The line that is being read.
#[derive(Debug, Default)]
struct LineBuffer {
    text: String,
    /// Bytes of the line, also those that are not kept.
    length: usize,
}

impl TextCap {
    /// Creates an empty cap. `whole` is the place of the whole output, for the notice.
    pub fn new(limits: CapLimits, keep: KeptPart, whole: Option<&str>) -> TextCap {
        let string = limits.string.min(limits.bytes);
        TextCap {
            limits: CapLimits { string, ..limits },
            keep,
            whole: whole.map(str::to_owned),
            is_cut: false,
            cleaner: Some(Cleaner::new()),
            head: String::new(),
            head_rows: 0,
            tail: VecDeque::new(),
            tail_bytes: 0,
            line: LineBuffer::default(),
            rows: 0,
            left: OmittedCounts::default(),
            full: false,
        }
    }

    /// Caps a text that is clean already and may contain notices.
    pub fn cap_clean(text: &str, limits: CapLimits, keep: KeptPart, more: Option<MoreLocation<'_>>) -> Capped<String> {
        let whole = more.map(|(MoreLocation::Whole(place) | MoreLocation::Kept(place))| place);
        let mut cap = TextCap {
            cleaner: None,
            is_cut: matches!(more, Some(MoreLocation::Kept(_))),
            ..TextCap::new(limits, keep, whole)
        };
        cap.left.seen = to_u64(text.len());
        cap.push_clean(text);
        cap.finish()
    }

    /// Takes the next bytes of the input.
    pub fn push(&mut self, bytes: &[u8]) {
        // Cleans small pieces, so that the clean text is never much larger than the kept part.
        for piece in bytes.chunks(8192) {
            let mut clean = String::with_capacity(piece.len());
            match &mut self.cleaner {
                Some(cleaner) => cleaner.push(piece, &mut clean),
                None => clean.push_str(&String::from_utf8_lossy(piece)),
            }
            self.left.seen += to_u64(piece.len());
            self.push_clean(&clean);
        }
    }

    /// Ends the input and returns the shown text.
    pub fn finish(mut self) -> Capped<String> {
        let mut rest = String::new();
        if let Some(cleaner) = &mut self.cleaner {
            cleaner.finish(&mut rest);
            self.left.neutralised = cleaner.neutralised();
        }
        self.push_clean(&rest);
        if self.line.length > 0 {
            self.end_line("");
        }
        self.left.rows -= to_u64(self.tail.len());
        self.left.bytes -= to_u64(self.tail_bytes);
        let mut shown = std::mem::take(&mut self.head);
        if self.left.rows > 0 {
            let words = format!(
                "{} of {} lines left out, {} bytes",
                group_thousands(self.left.rows),
                group_thousands(self.rows),
                group_thousands(self.left.bytes)
            );
            if !shown.is_empty() && !shown.ends_with('\n') {
                shown.push('\n');
            }
            let at = if self.is_cut {
                MoreLocation::Kept
            } else {
                MoreLocation::Whole
            };
            shown.push_str(&format_notice(&words, self.whole.as_deref().map(at)));
            if !self.tail.is_empty() {
                shown.push('\n');
            }
        }
        shown.extend(self.tail);
        Capped {
            shown,
            left_out: self.left,
        }
    }

    fn push_clean(&mut self, clean: &str) {
        let mut rest = clean;
        while let Some(end) = rest.find('\n') {
            self.grow_line(&rest[..end]);
            self.end_line("\n");
            rest = &rest[end + 1..];
        }
        self.grow_line(rest);
    }

    fn grow_line(&mut self, part: &str) {
        self.line.length += part.len();
        // Keeps a little more than is shown, so that the cut can see what follows.
        let room = self
            .limits
            .string
            .saturating_add(256)
            .saturating_sub(self.line.text.len());
        let mut end = part.len().min(room);
        while !part.is_char_boundary(end) {
            end -= 1;
        }
        self.line.text.push_str(&part[..end]);
    }

    fn end_line(&mut self, end: &str) {
        self.rows += 1;
        let LineBuffer { text, length } = std::mem::take(&mut self.line);
        let mut shown = text;
        if length > self.limits.string {
            let kept = truncate_at_word(&shown, self.limits.string).len();
            shown.truncate(kept);
            let missing = to_u64(length - kept);
            self.left.cut += 1;
            self.left.bytes += missing;
            shown.push_str(&format_notice(
                &format!("{} bytes of this line left out", group_thousands(missing)),
                None,
            ));
        }
        let share = match self.keep {
            KeptPart::Head => 1,
            KeptPart::Ends => 2,
        };
        let fits =
            self.head.len() + shown.len() <= self.limits.bytes / share && self.rows <= to_u64(self.limits.rows / share);
        if !self.full && fits {
            self.head.push_str(&shown);
            self.head.push_str(end);
            self.head_rows += 1;
            return;
        }
        self.full = true;
        self.left.rows += 1;
        self.left.bytes += to_u64(shown.len() + end.len());
        if self.keep == KeptPart::Ends {
            shown.push_str(end);
            self.tail_bytes += shown.len();
            self.tail.push_back(shown);
            self.trim_tail();
        }
    }

    /// Trims the end to the capacity that the beginning leaves, in whole lines: a text that fits stays whole,
    /// wherever its long lines are.
    fn trim_tail(&mut self) {
        let bytes = self.limits.bytes.saturating_sub(self.head.len());
        let rows = self.limits.rows.saturating_sub(self.head_rows);
        while self.tail_bytes > bytes || self.tail.len() > rows {
            let Some(line) = self.tail.pop_front() else { return };
            self.tail_bytes -= line.len();
        }
    }
}

#[cfg(test)]
mod tests;
