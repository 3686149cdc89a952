//! Escapes text from servers so that it stays in its place: it cannot end a comment, has no invisible characters, and does not
//! look like a tag of ours.

use std::fmt::Write as _;

use ringfence_policy::is_invisible;

/// The most characters of a tool's description.
pub(super) const MAX_DESCRIPTION_CHARS: usize = 600;
/// The most characters of a field's description.
pub(super) const MAX_FIELD_CHARS: usize = 240;

/// Text from a server as lines, each marked as a quotation.
pub(super) fn quoted_lines(text: &str) -> Vec<String> {
    let mut left = MAX_DESCRIPTION_CHARS;
    let mut lines = Vec::new();
    let clean: Vec<String> = text.lines().map(clean_line).filter(|line| !line.is_empty()).collect();
    let total: usize = clean.iter().map(|line| line.chars().count()).sum();
    for line in clean {
        let length = line.chars().count();
        if length > left {
            let head: String = line.chars().take(left).collect();
            lines.push(format!(
                "> {head}… (cut: {} characters more)",
                total - MAX_DESCRIPTION_CHARS
            ));
            break;
        }
        left -= length;
        lines.push(format!("> {line}"));
    }
    lines
}

/// Text from a server on one line, marked as a quotation; empty if there is none.
pub(super) fn quoted_remark(text: &str) -> String {
    let clean = clean_line(text);
    match clean.char_indices().nth(MAX_FIELD_CHARS) {
        Some((end, _)) => format!("> {}…", clean.get(..end).unwrap_or_default()),
        None if clean.is_empty() => clean,
        None => format!("> {clean}"),
    }
}

/// One line with white space collapsed, without invisible and direction characters, and without words that look like a tag.
pub(super) fn clean_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len().min(4096));
    let mut gap = false;
    for c in text.chars() {
        if c.is_whitespace() || c.is_control() {
            gap = true;
            continue;
        }
        if is_invisible(c) {
            continue;
        }
        if gap && !line.is_empty() {
            line.push(' ');
        }
        gap = false;
        if c == '@' && line.chars().next_back().is_none_or(|before| !before.is_alphanumeric()) {
            line.push('\\');
        }
        line.push(c);
    }
    line
}

/// A text as a TypeScript literal.
pub(super) fn script_literal(text: &str) -> String {
    escape_literal(text, |literal, c| {
        let mut units = [0u16; 2];
        for unit in c.encode_utf16(&mut units) {
            let _infallible = write!(literal, "\\u{unit:04x}");
        }
    })
}

/// A text as a Python literal.
pub(super) fn python_literal(text: &str) -> String {
    escape_literal(text, |literal, c| {
        let _infallible = write!(literal, "\\U{:08x}", u32::from(c));
    })
}

fn escape_literal(text: &str, escape: fn(&mut String, char)) -> String {
    let mut literal = String::with_capacity(text.len() + 2);
    literal.push('"');
    for c in text.chars() {
        match c {
            '"' => literal.push_str("\\\""),
            '\\' => literal.push_str("\\\\"),
            '\n' => literal.push_str("\\n"),
            c if c.is_control() || is_invisible(c) || (c.is_whitespace() && c != ' ') => escape(&mut literal, c),
            c => literal.push(c),
        }
    }
    literal.push('"');
    literal
}

/// Whether a name is an identifier in both languages, apart from reserved words.
pub(super) fn is_plain_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A type name made from any text, such as `IssueLabel` from `issue-label`.
pub(super) fn pascal_case(text: &str) -> String {
    let mut name = String::new();
    for word in text
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
    {
        let mut chars = word.chars();
        name.extend(chars.next().map(|c| c.to_ascii_uppercase()));
        name.extend(chars);
        if name.len() > 60 {
            break;
        }
    }
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        name.insert(0, 'T');
    }
    name.truncate(80);
    name
}

/// Indents every line by one step.
pub(super) fn indent_lines(text: &str, by: &str) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    for line in text.lines() {
        if !line.is_empty() {
            out.push_str(by);
            out.push_str(line);
        }
        out.push('\n');
    }
    out
}
