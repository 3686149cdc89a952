//! Values after a label, in text: `Name: …` on a line, `"email": "…"` anywhere.

use super::Scan;
use super::number::is_word;
use crate::finding::{Evidence, Finding};
use crate::keys::{self, Telling};
use crate::kind::Kind;
use crate::{secret, value};

/// The longest label and value that are looked at.
const LABEL: usize = 40;
const VALUE: usize = 240;

/// What follows the `:` there, if what precedes it is a telling label.
pub(super) fn value_at(scan: &mut Scan<'_>, at: usize) {
    let quoted = matches!(scan.before(at), b'"' | b'\'');
    let Some(key) = (if quoted {
        quoted_key(scan, at - 1)
    } else {
        line_label(scan, at)
    }) else {
        return;
    };
    let Some(telling) = keys::telling(key) else { return };
    let after = first(&scan.text[at + 1..]);
    let lead = after.len() - after.trim_start_matches([' ', '\t', '*']).len();
    let (start, value) = match after[lead..].chars().next() {
        Some(quote @ ('"' | '\'')) if quoted => (at + 2 + lead, up_to(&after[lead + 1..], quote)),
        Some('"' | '\'' | '{' | '[') | None => return,
        Some(_) if quoted => (at + 1 + lead, up_to_end(&after[lead..])),
        Some('\n' | '\r') => {
            let line = after.len() - after.trim_start().len();
            (at + 1 + line, up_to_line(&after[line..]))
        }
        Some(_) => (at + 1 + lead, up_to_line(&after[lead..])),
    };
    if !believable(value, telling, quoted) || !scan.kinds.has(telling.kind) {
        return;
    }
    if let Some((from, to)) = value::borne_out(value, telling.kind) {
        scan.out.push(Finding {
            start: start + from,
            end: start + to,
            kind: telling.kind,
            by: Evidence::Key,
        });
    }
}

/// A password that a name is given in quotes: `password = "…"`.
pub(super) fn assigned_at(scan: &mut Scan<'_>, at: usize) {
    let after = first(&scan.text[at + 1..]);
    let value = after.trim_start_matches(['>', ' ', '\t']);
    let Some(quote) = value.chars().next().filter(|letter| matches!(letter, '"' | '\'' | '`')) else {
        return;
    };
    let lowest = at.saturating_sub(LABEL);
    let name = scan.bytes[lowest..at].trim_ascii_end();
    let name = name.strip_suffix(b":").unwrap_or(name);
    let name = name
        .strip_suffix(b"\"")
        .or_else(|| name.strip_suffix(b"'"))
        .unwrap_or(name);
    let length = name
        .iter()
        .rev()
        .take_while(|byte| is_word(**byte) || **byte == b'-')
        .count();
    let Ok(name) = std::str::from_utf8(&name[name.len() - length..]) else {
        return;
    };
    let start = at + 1 + after.len() - value.len() + 1;
    let value = up_to(&value[1..], quote);
    let secret = keys::telling(name).is_some_and(|telling| telling.kind == Kind::Secret && !telling.vague);
    if secret && scan.kinds.has(Kind::Secret) && secret::is_password(value) {
        scan.out.push(Finding {
            start,
            end: start + value.len(),
            kind: Kind::Secret,
            by: Evidence::Form,
        });
    }
}

/// As much of a text as a value and the space before it can be, whole letters only.
fn first(text: &str) -> &str {
    let mut end = text.len().min(VALUE + 64);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The key between quotes that ends there.
fn quoted_key<'t>(scan: &Scan<'t>, close: usize) -> Option<&'t str> {
    let lowest = close.saturating_sub(LABEL);
    let quote = scan.bytes[close];
    let open = scan.bytes[lowest..close]
        .iter()
        .rposition(|byte| *byte == quote || *byte == b'\n')?
        + lowest;
    (scan.bytes[open] == quote).then(|| &scan.text[open + 1..close])
}

/// The label that a line begins with.
fn line_label<'t>(scan: &Scan<'t>, at: usize) -> Option<&'t str> {
    let lowest = at.saturating_sub(LABEL);
    let begin = match scan.bytes[lowest..at].iter().rposition(|byte| *byte == b'\n') {
        Some(index) => lowest + index + 1,
        None if lowest == 0 => 0,
        None => return None,
    };
    let label = scan.text.get(begin..at)?;
    let label = label.trim_matches([' ', '\t', '*', '-', '#', '>', '|', '•']);
    let plain = !label.is_empty()
        && label
            .chars()
            .all(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '_' | '-' | '/'));
    (plain && label.split(' ').count() <= 3).then_some(label)
}

/// Whether a value in running text is one, or the beginning of a sentence about it.
fn believable(value: &str, telling: Telling, quoted: bool) -> bool {
    let words = || value.split_whitespace();
    let capital = |word: &str| {
        word.chars()
            .find(|letter| letter.is_alphabetic())
            .is_none_or(char::is_uppercase)
    };
    let named = || {
        words().count() <= 4
            && value::looks_named(value)
            && (quoted || words().filter(|word| word.len() > 3).all(capital))
            && words()
                .next()
                .is_some_and(|first| capital(first) && !matches!(first, "The" | "A" | "An" | "Your" | "This" | "Use"))
    };
    match telling.kind {
        Kind::Name if telling.vague => named(),
        Kind::Name | Kind::Place | Kind::Organisation if !quoted => named(),
        Kind::Address if !quoted => {
            let number = |word: &str| word.trim_matches([',', '.']).bytes().all(|byte| byte.is_ascii_digit());
            words().any(number) && words().count() <= 16 && !value.contains(['(', '"'])
        }
        Kind::Secret | Kind::Name | Kind::Place | Kind::Organisation | Kind::Address | Kind::Own(_) => quoted,
        Kind::Email
        | Kind::Phone
        | Kind::Card
        | Kind::Iban
        | Kind::Ssn
        | Kind::NationalId
        | Kind::Ip
        | Kind::Mac
        | Kind::Url
        | Kind::BirthDate => true,
    }
}

fn up_to(text: &str, quote: char) -> &str {
    let end = text.find([quote, '\n', '\\']);
    short(&text[..end.unwrap_or(text.len())])
}

/// A bare value of JSON: a number.
fn up_to_end(text: &str) -> &str {
    let end = text.find([',', '}', ']', '\n', ' ']);
    short(&text[..end.unwrap_or(text.len())])
}

fn up_to_line(text: &str) -> &str {
    let end = text.find(['\n', '\r']);
    short(&text[..end.unwrap_or(text.len())])
}

/// The value, or nothing if it is too long to be one.
fn short(value: &str) -> &str {
    if value.len() > VALUE {
        ""
    } else {
        value.trim_end_matches(['.', ',', ';'])
    }
}
