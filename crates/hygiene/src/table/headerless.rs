//! Headerless CSV: the kind of a column is inferred from most of its cells.

use super::{MAX_COLUMNS, MAX_LINES_AFTER, TableCell, line_at, split_csv};
use crate::keys::{HintTrust, KeyHint, NameOwner};
use crate::kind::SensitiveKind;
use crate::value;

/// The least rows of a table, and the most rows that are sampled.
const MIN_ROWS: usize = 2;
const MAX_SAMPLED_ROWS: usize = 32;
/// Most bytes of a row.
const MAX_LINE_BYTES: usize = 4096;

/// Visits the cells of columns with e-mail addresses, telephone numbers or, beside these, names.
pub(super) fn visit_headerless_cells(text: &str, each: &mut dyn FnMut(&str, TableCell)) {
    let Some((separator, width)) = detect_shape(text) else {
        return;
    };
    let mut columns = vec![ColumnTally::default(); width];
    let mut asked = 0;
    visit_rows(text, separator, width, |cells| {
        asked += 1;
        for (count, (start, end)) in columns.iter_mut().zip(cells) {
            count.add(&text[*start..*end]);
        }
        asked < MAX_SAMPLED_ROWS
    });
    let reached = columns
        .iter()
        .any(|count| count.is_mostly(count.mails) || count.is_mostly(count.phones));
    let kinds: Vec<Option<SensitiveKind>> = columns.iter().map(|count| count.kind(reached)).collect();
    if kinds.iter().all(Option::is_none) {
        return;
    }
    visit_rows(text, separator, width, |cells| {
        for (kind, (start, end)) in kinds.iter().zip(cells) {
            if let Some(kind) = kind.filter(|_| start < end) {
                let telling = KeyHint {
                    kind,
                    trust: HintTrust::Sure,
                };
                let (start, end) = (*start, *end);
                let whose = NameOwner::People;
                each(
                    text,
                    TableCell {
                        start,
                        end,
                        telling,
                        whose,
                    },
                );
            }
        }
        true
    });
}

/// How many cells of a column could be of each kind.
#[derive(Debug, Clone, Default)]
struct ColumnTally {
    cells: usize,
    mails: usize,
    phones: usize,
    names: usize,
}

impl ColumnTally {
    fn add(&mut self, cell: &str) {
        if cell.is_empty() {
            return;
        }
        self.cells += 1;
        self.mails += usize::from(value::is_email(cell));
        self.phones += usize::from(value::is_dialable(cell));
        self.names += usize::from(value::is_person_name(cell));
    }

    fn is_mostly(&self, part: usize) -> bool {
        self.cells > 0 && part * 5 >= self.cells * 3
    }

    fn kind(&self, reached: bool) -> Option<SensitiveKind> {
        if self.is_mostly(self.mails) {
            Some(SensitiveKind::Email)
        } else if self.is_mostly(self.phones) {
            Some(SensitiveKind::Phone)
        } else if reached && self.is_mostly(self.names) {
            Some(SensitiveKind::Name)
        } else {
            None
        }
    }
}

/// Returns the separator and the number of columns, if the first lines agree on them.
fn detect_shape(text: &str) -> Option<(u8, usize)> {
    let line = line_at(text, 0);
    let count = |separator: u8| line.bytes().filter(|byte| *byte == separator).count();
    let separator = [b',', b';', b'\t'].into_iter().max_by_key(|one| count(*one))?;
    if line.len() > MAX_LINE_BYTES || count(separator) == 0 {
        return None;
    }
    let (first, mut at) = split_csv(text, 0, separator);
    let width = first.len();
    let mut rows = 1;
    while at < text.len() && rows < MAX_LINES_AFTER {
        if line_at(text, at).len() > MAX_LINE_BYTES {
            return None;
        }
        let (cells, next) = split_csv(text, at, separator);
        let empty = cells.len() == 1 && cells[0].0 == cells[0].1;
        if !empty && cells.len() != width {
            return None;
        }
        rows += usize::from(!empty);
        at = next;
    }
    (rows >= MIN_ROWS && (2..=MAX_COLUMNS).contains(&width)).then_some((separator, width))
}

/// Visits the rows of this width until the callback returns false.
fn visit_rows(text: &str, separator: u8, width: usize, mut each: impl FnMut(&[(usize, usize)]) -> bool) {
    let mut at = 0;
    while at < text.len() {
        let (cells, next) = split_csv(text, at, separator);
        if cells.len() == width && !each(&cells) {
            return;
        }
        at = next.max(at + 1);
    }
}
