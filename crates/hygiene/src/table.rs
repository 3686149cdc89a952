//! Tables in text: CSV and Markdown, whose columns tell by their header what stands in them.

use crate::keys::{self, Telling};

/// The most columns that are followed.
const COLUMNS: usize = 256;

/// A cell under a telling column.
pub(crate) struct Cell {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) telling: Telling,
    /// Whether other columns of the table are of people.
    pub(crate) people: bool,
}

/// The cells under telling columns, if the text is a table or has tables in it.
pub(crate) fn cells(text: &str, each: &mut dyn FnMut(&str, Cell)) {
    if let Some(separator) = csv(text) {
        rows(text, 0, &Split::Csv(separator), each);
        return;
    }
    if text.contains("|-") || text.contains("| -") || text.contains("|:") || text.contains("| :") {
        markdown(text, each);
    }
}

enum Split {
    Csv(u8),
    Pipes,
}

/// The separator, if the first line is a header with a telling column and the second has as many cells.
fn csv(text: &str) -> Option<u8> {
    let first = text.get(..text.len().min(4096)).unwrap_or(text).lines().next()?;
    let separator = [b',', b';', b'\t']
        .into_iter()
        .max_by_key(|one| first.bytes().filter(|byte| byte == one).count())?;
    let header = split(first, 0, &Split::Csv(separator)).0;
    if header.len() < 2
        || first.contains(". ")
        || !header
            .iter()
            .any(|(start, end)| keys::telling(&first[*start..*end]).is_some())
    {
        return None;
    }
    let rest = text.get(first.len()..)?.trim_start_matches(['\r', '\n']);
    let second = split(rest, 0, &Split::Csv(separator)).0;
    (second.len() == header.len()).then_some(separator)
}

/// Finds the ruler under each header.
fn markdown(text: &str, each: &mut dyn FnMut(&str, Cell)) {
    let mut before: Option<usize> = None;
    let mut at = 0;
    while at < text.len() {
        let line = text[at..].split('\n').next().unwrap_or_default();
        let ruler = line.contains('-')
            && line.contains('|')
            && line
                .bytes()
                .all(|byte| matches!(byte, b'|' | b'-' | b':' | b' ' | b'\r' | b'\t'));
        if let (true, Some(header)) = (ruler, before) {
            at = rows(text, header, &Split::Pipes, each);
            before = None;
            continue;
        }
        before = line.contains('|').then_some(at);
        at += line.len() + 1;
    }
}

/// Walks the rows of a table whose header begins there.
fn rows(text: &str, header: usize, way: &Split, each: &mut dyn FnMut(&str, Cell)) -> usize {
    let (names, mut at) = split(text, header, way);
    let columns: Vec<Option<Telling>> = names
        .iter()
        .map(|(start, end)| keys::telling(&text[*start..*end]))
        .collect();
    let people = names
        .iter()
        .any(|(start, end)| keys::sibling(&text[*start..*end]) == Some(keys::Sibling::Person));
    if matches!(way, Split::Pipes) {
        // The ruler.
        at = split(text, at, way).1;
    }
    while at < text.len() {
        let (cells, next) = split(text, at, way);
        if matches!(way, Split::Pipes) && cells.len() < 2 {
            return at;
        }
        for ((start, end), telling) in cells.into_iter().zip(&columns) {
            if let Some(telling) = *telling {
                each(
                    text,
                    Cell {
                        start,
                        end,
                        telling,
                        people,
                    },
                );
            }
        }
        at = next.max(at + 1);
    }
    at
}

/// The cells of the row that begins there, without quotes and spaces around, and where the next begins.
fn split(text: &str, from: usize, way: &Split) -> (Vec<(usize, usize)>, usize) {
    match way {
        Split::Csv(separator) => split_csv(text, from, *separator),
        Split::Pipes => split_pipes(text, from),
    }
}

fn split_csv(text: &str, from: usize, separator: u8) -> (Vec<(usize, usize)>, usize) {
    let bytes = text.as_bytes();
    let mut cells = Vec::new();
    let (mut start, mut at) = (from, from);
    let mut quoted = false;
    loop {
        let byte = bytes.get(at).copied();
        match byte {
            Some(b'"') => quoted = !quoted,
            Some(_) if quoted => {}
            Some(b'\n') | None => {
                cells.push(trim(text, start, at));
                return (cells, at + 1);
            }
            Some(byte) if byte == separator && cells.len() < COLUMNS => {
                cells.push(trim(text, start, at));
                start = at + 1;
            }
            Some(_) => {}
        }
        if byte.is_none() {
            cells.push(trim(text, start, at));
            return (cells, at);
        }
        at += 1;
    }
}

fn split_pipes(text: &str, from: usize) -> (Vec<(usize, usize)>, usize) {
    let line = text[from..].split('\n').next().unwrap_or_default();
    let begun = line.trim_start();
    let begun = begun.strip_prefix('|').unwrap_or(begun);
    let mut at = from + line.len() - begun.len();
    let inner = begun.trim_end();
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    let mut cells = Vec::new();
    if line.contains('|') {
        for cell in inner.split('|').take(COLUMNS) {
            cells.push(trim(text, at, at + cell.len()));
            at += cell.len() + 1;
        }
    }
    (cells, from + line.len() + 1)
}

fn trim(text: &str, start: usize, end: usize) -> (usize, usize) {
    let cell = &text[start..end];
    let around = |letter: char| letter.is_whitespace() || letter == '"' || letter == '*';
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
