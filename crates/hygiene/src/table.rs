//! Tables in text: CSV, Markdown and drawn ones, whose headers state what the columns hold.

mod headerless;

use crate::keys::{self, KeyHint, NameOwner};
use crate::kind::SensitiveKind;
use crate::value::{self, HintSource};

/// Most columns that are read.
const MAX_COLUMNS: usize = 256;
/// Most lines before a CSV header, and most lines after it that are checked to confirm it.
const MAX_LINES_BEFORE: usize = 12;
const MAX_LINES_AFTER: usize = 8;
/// Most bytes of a header, and of a name in it.
const MAX_HEADER_BYTES: usize = 4096;
const MAX_NAME_BYTES: usize = 48;
/// Most bytes of a quoted cell: a quote that is not closed within it is an ordinary character.
const MAX_QUOTED_BYTES: usize = 4096;

/// A cell in a column with a key hint.
pub(crate) struct TableCell {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) telling: KeyHint,
    /// Who or what the names in the table belong to, by its other columns.
    pub(crate) whose: NameOwner,
}

/// Visits the cells of columns with a key hint, in all tables of a text.
pub(crate) fn visit_cells(text: &str, each: &mut dyn FnMut(&str, TableCell)) {
    let mut from = 0;
    while let Some((header, separator)) = find_csv_header(text, from) {
        from = visit_rows(text, header, &RowFormat::Csv(separator), each);
    }
    if from == 0 {
        headerless::visit_headerless_cells(text, each);
    }
    if text.contains('|') && ["|-", "| -", "|:", "| :", "-+-"].iter().any(|mark| text.contains(mark)) {
        visit_ruled_tables(text, '|', each);
    }
    if !text.is_ascii() && text.contains(TABLE_BAR) {
        visit_ruled_tables(text, TABLE_BAR, each);
    }
}

/// Whether a text ends inside a CSV table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CsvEnd {
    /// Inside a table; the range of its header.
    Under(usize, usize),
    /// After a table, which ended at this offset.
    Closed(usize),
    /// The text has no CSV with a header.
    Never,
}

/// Returns the header of the CSV table that a text ends in.
pub(crate) fn open_csv(text: &str) -> CsvEnd {
    let (mut from, mut open) = (0, CsvEnd::Never);
    while let Some((header, separator)) = find_csv_header(text, from) {
        from = visit_rows(text, header, &RowFormat::Csv(separator), &mut |_, _| {});
        open = if from >= text.len() {
            CsvEnd::Under(header, header + line_at(text, header).len() + 1)
        } else {
            CsvEnd::Closed(from)
        };
    }
    open
}

/// Returns the headers, rulers included, of the drawn tables that a text ends in.
pub(crate) fn open_ruled(text: &str) -> impl Iterator<Item = (usize, usize)> {
    ['|', TABLE_BAR].into_iter().filter_map(|bar| {
        let (mut before, mut at, mut open) = (None, 0, None);
        while at < text.len() {
            let line = line_at(text, at);
            let next = at + line.len() + 1;
            if let (true, Some(header)) = (is_ruler(line), before) {
                open = Some((header, next));
                before = None;
            } else {
                open = open.filter(|_| split_bars(text, at, bar).0.len() >= 2);
                before = line.contains(bar).then_some(at).filter(|_| open.is_none());
            }
            at = next;
        }
        open
    })
}

/// The separator between the cells of drawn tables.
const TABLE_BAR: char = '│';

enum RowFormat {
    Csv(u8),
    Bars(char),
}

/// Finds the first CSV header from here on, and its separator.
fn find_csv_header(text: &str, from: usize) -> Option<(usize, u8)> {
    let mut at = from;
    let mut lines = 0;
    while at < text.len() && lines < MAX_LINES_BEFORE {
        let line = line_at(text, at);
        if !line.trim().is_empty() {
            lines += 1;
            if let Some(separator) = csv_header_separator(text, at, line) {
                return Some((at, separator));
            }
        }
        at += line.len() + 1;
    }
    None
}

/// Returns the separator if a line names columns, one of which has a hint, and the lines after it have such columns.
fn csv_header_separator(text: &str, at: usize, line: &str) -> Option<u8> {
    let separators = [b',', b';', b'\t'];
    let first = line
        .bytes()
        .take(MAX_NAME_BYTES + 1)
        .position(|byte| separators.contains(&byte));
    // Sentences have commas too: their length rules them out before any lookup.
    if line.len() > MAX_HEADER_BYTES || !is_name(&line[..first.unwrap_or(line.len())]) {
        return None;
    }
    let count = |separator: u8| line.bytes().filter(|byte| *byte == separator).count();
    let separator = separators.into_iter().max_by_key(|one| count(*one))?;
    if !line.split(char::from(separator)).all(is_name) {
        return None;
    }
    let (cells, next) = split_csv(text, at, separator);
    let names = cells.iter().map(|(start, end)| &text[*start..*end]);
    let telling: Vec<KeyHint> = names.clone().filter_map(keys::key_hint).collect();
    let one = telling.first()?;
    if cells.len() == 1 {
        return is_column(&text[next.min(text.len())..], *one).then_some(separator);
    }
    let mut at = next;
    let mut widths = Vec::new();
    while at < text.len() && widths.len() < MAX_LINES_AFTER {
        let (row, next) = split_csv(text, at, separator);
        if row.len() > 1 || row.iter().any(|(start, end)| start < end) {
            widths.push(row.len());
        }
        at = next;
    }
    // A row of another width does not invalidate names that are clearly column names.
    let plain = telling.len() > 1 || names.clone().all(|name| !name.contains(' '));
    let same = widths.contains(&cells.len());
    (same || plain && widths.iter().any(|width| *width > 1)).then_some(separator)
}

/// Whether a cell can be a column name.
fn is_name(cell: &str) -> bool {
    let never = |byte: u8| {
        matches!(
            byte,
            b'.' | b':' | b'!' | b'?' | b'{' | b'}' | b'=' | b'<' | b'>' | b'|' | b'\\' | b'@'
        )
    };
    cell.len() <= MAX_NAME_BYTES && !cell.bytes().any(never) && cell.split_whitespace().count() <= 3
}

/// Whether the lines after a name are cells of its column: each one a value, none a sentence.
fn is_column(rest: &str, telling: KeyHint) -> bool {
    let lines = rest.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut lines = lines
        .map(|line| line.trim_matches('"'))
        .take(MAX_LINES_AFTER)
        .peekable();
    let short =
        |line: &str| line.split_whitespace().count() <= 8 && !line.contains(": ") && !line.ends_with(['.', ':']);
    let alone = |line: &str| {
        if [SensitiveKind::Name, SensitiveKind::Place, SensitiveKind::Organisation].contains(&telling.kind) {
            value::looks_titled(line)
        } else if telling.kind == SensitiveKind::Address {
            line.bytes().any(|byte| byte.is_ascii_digit())
        } else {
            !line.contains(char::is_whitespace) || line.bytes().any(|byte| byte.is_ascii_digit())
        }
    };
    let good = |line: &str| {
        value::kind_of_value(telling, NameOwner::Unknown, line)
            .is_some_and(|kind| value::confirmed_part(line, kind, HintSource::Label).is_some())
    };
    lines.peek().is_some() && lines.all(|line| short(line) && alone(line) && good(line))
}

fn line_at(text: &str, at: usize) -> &str {
    text[at..].split('\n').next().unwrap_or_default()
}

/// Finds the ruler below each header.
fn visit_ruled_tables(text: &str, bar: char, each: &mut dyn FnMut(&str, TableCell)) {
    let mut before: Option<usize> = None;
    let mut at = 0;
    while at < text.len() {
        let line = line_at(text, at);
        if let (true, Some(header)) = (is_ruler(line), before) {
            at = visit_rows(text, header, &RowFormat::Bars(bar), each);
            before = None;
            continue;
        }
        before = line.contains(bar).then_some(at);
        at += line.len() + 1;
    }
}

/// Whether a line only separates the header from the rows: `|---|:-:|`, `----+----`, `├───┼───┤`.
fn is_ruler(line: &str) -> bool {
    line.contains(['|', '+', '┼', '├'])
        && line.contains(['-', '─'])
        && line.chars().all(|letter| {
            matches!(
                letter,
                '|' | '+' | '-' | ':' | ' ' | '\r' | '\t' | '─' | '┼' | '├' | '┤'
            )
        })
}

/// Visits the rows of a table whose header begins here.
fn visit_rows(text: &str, header: usize, way: &RowFormat, each: &mut dyn FnMut(&str, TableCell)) -> usize {
    let (names, mut at) = split_row(text, header, way);
    let columns: Vec<Option<KeyHint>> = names
        .iter()
        .map(|(start, end)| keys::key_hint(&text[*start..*end]))
        .collect();
    let whose = NameOwner::Unknown.with_siblings(names.iter().map(|(start, end)| &text[*start..*end]));
    if matches!(way, RowFormat::Bars(_)) {
        // Skips the ruler.
        at = split_row(text, at, way).1;
    }
    let mut blank = false;
    while at < text.len() {
        let (cells, next) = split_row(text, at, way);
        let empty = cells.iter().all(|(start, end)| start == end);
        let over = match way {
            RowFormat::Bars(_) => cells.len() < 2,
            // After a blank line something else may begin.
            RowFormat::Csv(_) => blank && !empty && cells.len() != names.len(),
        };
        if over {
            return at;
        }
        blank = empty;
        if empty && matches!(way, RowFormat::Csv(_)) {
            at = next;
            continue;
        }
        visit_row(text, &cells, &columns, &mut |start, end, telling| {
            each(
                text,
                TableCell {
                    start,
                    end,
                    telling,
                    whose,
                },
            );
        });
        at = next.max(at + 1);
    }
    at
}

/// Visits the cells of a row in columns with a hint. In a row with too many cells one cell was split: then columns
/// are counted from both ends.
fn visit_row(
    text: &str,
    cells: &[(usize, usize)],
    columns: &[Option<KeyHint>],
    each: &mut dyn FnMut(usize, usize, KeyHint),
) {
    let over = cells.len().saturating_sub(columns.len());
    for (index, (start, end)) in cells.iter().enumerate() {
        let left = columns.get(index).copied().flatten();
        let right = index.checked_sub(over).filter(|_| over > 0);
        let right = right.and_then(|index| columns.get(index).copied().flatten());
        let borne =
            |telling: &KeyHint| value::confirmed_part(&text[*start..*end], telling.kind, HintSource::Label).is_some();
        if let Some(telling) = left.filter(|one| over == 0 || borne(one)).or(right) {
            each(*start, *end, telling);
        }
    }
}

/// Splits the row that begins here into cells without surrounding quotes and spaces, and returns where the next row
/// begins.
fn split_row(text: &str, from: usize, way: &RowFormat) -> (Vec<(usize, usize)>, usize) {
    match way {
        RowFormat::Csv(separator) => split_csv(text, from, *separator),
        RowFormat::Bars(bar) => split_bars(text, from, *bar),
    }
}

fn split_csv(text: &str, from: usize, separator: u8) -> (Vec<(usize, usize)>, usize) {
    let bytes = text.as_bytes();
    let mut cells = Vec::new();
    let (mut start, mut at) = (from, from);
    loop {
        // A quote encloses a cell only at its start: `5" pipe` stays as it is.
        at = quoted_end(bytes, at, separator).unwrap_or(at);
        let ends = |byte: &u8| *byte == b'\n' || *byte == separator && cells.len() < MAX_COLUMNS;
        at = bytes[at..]
            .iter()
            .position(ends)
            .map_or(bytes.len(), |length| at + length);
        cells.push(trim_span(text, start, at));
        match bytes.get(at) {
            Some(byte) if *byte == separator => {
                at += 1;
                start = at;
            }
            Some(_) => return (cells, at + 1),
            None => return (cells, at),
        }
    }
}

/// Returns where the quotes around a cell end, if it begins with one and they close where a cell can end.
fn quoted_end(bytes: &[u8], from: usize, separator: u8) -> Option<usize> {
    let spaces = |from: usize| bytes[from..].iter().take(8).take_while(|byte| **byte == b' ').count();
    let mut at = from + spaces(from);
    if bytes.get(at) != Some(&b'"') {
        return None;
    }
    let most = bytes.len().min(at + MAX_QUOTED_BYTES);
    loop {
        at += 1 + bytes.get(at + 1..most)?.iter().position(|byte| *byte == b'"')?;
        let after = at + 1;
        match bytes.get(after + spaces(after)) {
            None | Some(b'\n' | b'\r') => return Some(after),
            Some(byte) if *byte == separator => return Some(after),
            // Two quotes are an escaped one.
            Some(b'"') if bytes[after] == b'"' => at = after,
            Some(_) => {}
        }
    }
}

fn split_bars(text: &str, from: usize, bar: char) -> (Vec<(usize, usize)>, usize) {
    let line = line_at(text, from);
    let begun = line.trim_start();
    let begun = begun.strip_prefix(bar).unwrap_or(begun);
    let mut at = from + line.len() - begun.len();
    let inner = begun.trim_end();
    let inner = inner.strip_suffix(bar).unwrap_or(inner);
    let mut cells = Vec::new();
    if line.contains(bar) {
        for cell in inner.split(bar).take(MAX_COLUMNS) {
            cells.push(trim_span(text, at, at + cell.len()));
            at += cell.len() + bar.len_utf8();
        }
    }
    (cells, from + line.len() + 1)
}

fn trim_span(text: &str, start: usize, end: usize) -> (usize, usize) {
    let cell = &text[start..end];
    let around = |letter: char| letter.is_whitespace() || matches!(letter, '"' | '*' | '\'' | '\u{feff}');
    let inner = cell.trim_matches(around);
    let lead = cell.len() - cell.trim_start_matches(around).len();
    if inner.is_empty() {
        (start, start)
    } else {
        (start + lead, start + lead + inner.len())
    }
}

#[cfg(test)]
mod tests;
