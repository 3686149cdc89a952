//! Values after a label in text: `Name: …` in a line, and values in printed structures: `"email": "…"`, `{ name: '…'
//! }`, `Customer(name='…')`.

use super::number::is_word;
use super::{Scan, around, assigned, credential};
use crate::finding::{Evidence, Finding};
use crate::json::{is_columns, is_pairs_field, is_pairs_value};
use crate::keys::{Telling, Whose};
use crate::kind::Kind;
use crate::secret;
use crate::value::{self, Ground};

/// Most bytes of a label and of a value; a cookie may be longer.
pub(super) const LABEL: usize = 40;
pub(super) const VALUE: usize = 240 + 64;
const COOKIE: usize = 8192;

/// The placement of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stands {
    /// The key is between quotes.
    Quoted,
    /// After a bracket or a comma.
    Within,
    /// At the start of a line.
    Line,
    /// Elsewhere, with its value directly after it: `name="…"`.
    Close,
    /// Elsewhere, with a space before its `:` or `=`.
    Loose,
}

/// What follows a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Follows {
    Quote,
    Number,
    Other,
}

/// A key, its start and its placement.
pub(super) struct Key<'t> {
    pub(super) text: &'t str,
    pub(super) start: usize,
    pub(super) stands: Stands,
}

/// Scans the value after a `:` or `=`, if the key before it has a hint.
pub(super) fn value_at(scan: &mut Scan<'_>, at: usize) {
    let after = first(&scan.text[at + 1..], VALUE);
    let lead = after.len() - after.trim_start_matches([' ', '\t', '*', '>']).len();
    let value = &after[lead..];
    let Some(begins) = value.chars().next() else { return };
    let follows = if matches!(begins, '"' | '\'' | '`') || value.starts_with("\\\"") {
        Follows::Quote
    } else if begins.is_ascii_digit() || matches!(begins, '-' | '+') || value.starts_with("datetime.") {
        Follows::Number
    } else {
        Follows::Other
    };
    let from = at + 1 + lead;
    let Some(key) = key_before(scan, at, follows) else {
        let opens = matches!(begins, '{' | '[') || is_named_structure(value);
        let colon = scan.bytes[at] == b':';
        if follows != Follows::Quote && (opens && colon || scan.kinds.has(Kind::Secret)) {
            let key = if colon {
                credential::key_within(scan, at, opens)
            } else {
                credential::key_of_setting(scan, at)
            };
            if let Some(key) = key {
                within(scan, &key, from, opens && colon);
            }
        }
        return;
    };
    scan.printed |= begins == '[' && is_columns(key.text);
    if follows == Follows::Quote && is_pairs_field(key.text) {
        scan.pairs.0 = true;
    } else if is_pairs_value(key.text) {
        scan.pairs.1 = true;
    }
    let Some(telling) = scan.telling(key.text).filter(|telling| scan.kinds.has(telling.kind)) else {
        return;
    };
    scan.printed |= is_named_structure(value);
    let secret = telling.kind == Kind::Secret;
    match (begins, key.stands) {
        _ if follows == Follows::Quote => quoted_at(scan, &key, telling, from),
        ('{' | '[', _) => scan.printed = true,
        (_, Stands::Close) if secret => credential::assigned(scan, &key, telling, from),
        (_, Stands::Close) => assigned::value(scan, &key, telling, from, value),
        (_, Stands::Quoted | Stands::Within) => bare_at(scan, telling, from, up_to_end(value)),
        ('\n' | '\r', _) if secret => {}
        _ if secret => credential::labelled(scan, &key, telling, from),
        ('\n' | '\r', _) => {
            let line = after.len() - after.trim_start().len();
            labelled(scan, telling, at + 1 + line, up_to_line(&after[line..]));
        }
        _ => labelled(scan, telling, from, up_to_line(value)),
    }
}

/// Scans the value after a key in the middle of a line.
fn within<'t>(scan: &mut Scan<'t>, key: &Key<'t>, from: usize, opens: bool) {
    if opens {
        let columns = is_columns(key.text) && scan.byte(from) == b'[';
        scan.pairs.1 |= is_pairs_value(key.text);
        scan.printed |= columns || scan.telling(key.text).is_some();
    } else if scan.kinds.has(Kind::Secret)
        && let Some(telling) = scan.telling(key.text).filter(|telling| telling.kind == Kind::Secret)
    {
        credential::labelled(scan, key, telling, from);
    }
}

/// Whether a structure with a name before it follows: `Phones {`, `Map(2) {`.
fn is_named_structure(value: &str) -> bool {
    if !value.starts_with(char::is_uppercase) {
        return false;
    }
    let end = value.find(|letter: char| !letter.is_alphanumeric() && !matches!(letter, '_' | '.' | '(' | ')'));
    end.is_some_and(|end| value[end..].trim_start_matches(' ').starts_with(['{', '[']))
}

/// Returns the key before a `:` or `=`. Bare words count only before a quoted value or a number.
fn key_before<'t>(scan: &Scan<'t>, at: usize, follows: Follows) -> Option<Key<'t>> {
    let lowest = at.saturating_sub(LABEL);
    let before = scan.bytes[lowest..at].trim_ascii_end();
    let before = before.strip_suffix(b":").unwrap_or(before);
    let end = lowest + before.len();
    if matches!(before.last(), Some(b'"' | b'\'')) {
        return quoted_key(scan, end - 1);
    }
    if follows != Follows::Other {
        let length = before
            .iter()
            .rev()
            .take_while(|byte| is_word(**byte) || **byte == b'-')
            .count();
        let start = end - length;
        let text = scan.text.get(start..end).filter(|text| !text.is_empty())?;
        let outside = scan.bytes[start.saturating_sub(LABEL)..start].trim_ascii_end();
        if matches!(outside.last(), Some(b'{' | b'(' | b',' | b'[')) {
            let stands = Stands::Within;
            return Some(Key { text, start, stands });
        }
        if let Some(key) = line_label(scan, at).filter(|_| follows == Follows::Quote || !is_assigned(scan, at)) {
            return Some(key);
        }
        let stands = if end == at { Stands::Close } else { Stands::Loose };
        let close = stands == Stands::Close && is_assigned(scan, at);
        return (follows == Follows::Quote || close).then_some(Key { text, start, stands });
    }
    if scan.bytes[at] == b':' {
        return line_label(scan, at);
    }
    let length = before
        .iter()
        .rev()
        .take_while(|byte| is_word(**byte) || **byte == b'-')
        .count();
    let text = scan.text.get(end - length..end).filter(|text| !text.is_empty())?;
    (end == at && is_assigned(scan, at)).then_some(Key {
        text,
        start: end - length,
        stands: Stands::Close,
    })
}

/// Whether a `=` has a value directly after it, and is not a comparison.
fn is_assigned(scan: &Scan<'_>, at: usize) -> bool {
    scan.bytes[at] == b'=' && !matches!(scan.byte(at + 1), b' ' | b'=' | b'\t' | b'\n' | b'>')
}

/// Scans a quoted value: under a key in a structure it is trusted as in JSON.
fn quoted_at(scan: &mut Scan<'_>, key: &Key<'_>, telling: Telling, from: usize) {
    let most = if telling.kind == Kind::Secret { COOKIE } else { VALUE };
    let text = first(&scan.text[from..], most);
    let (start, value) = match text.strip_prefix('\\') {
        Some(inner) => (from + 2, up_to(&inner[1..], &['\\', '\n'])),
        None => (from + 1, closed(text)),
    };
    let assigned = key.stands == Stands::Close && scan.bytes[key.start + key.text.len()] == b'=';
    match key.stands {
        Stands::Close | Stands::Loose if telling.kind == Kind::Secret => {
            if telling.is_sure() && secret::is_password(value) {
                note(scan, start, (0, value.len()), Kind::Secret, Evidence::Form);
            }
            return;
        }
        Stands::Close | Stands::Loose if telling.is_vague() || !assigned && !telling.kind.is_structured() => return,
        Stands::Quoted | Stands::Within | Stands::Line | Stands::Close | Stands::Loose => {}
    }
    let named = !telling.is_sure() && telling.kind != Kind::Secret;
    let whose = if named {
        around::whose(scan, key.start, start + value.len())
    } else {
        Whose::Unsaid
    };
    // In a line of its own a quoted name may be any heading.
    let heading = named && key.stands == Stands::Line && whose != Whose::Peoples && !value::looks_titled(value);
    let Some(kind) = value::meant(telling, whose, value).filter(|_| !heading) else {
        return;
    };
    if kind == Kind::Secret && value::is_told(value) {
        return;
    }
    if let Some(part) = value::borne_out(value, kind, Ground::Key) {
        note(scan, start, part, kind, Evidence::Key);
    }
}

/// Scans an unquoted value in a structure: a number, a date.
fn bare_at(scan: &mut Scan<'_>, telling: Telling, start: usize, value: &str) {
    let kind = telling.kind;
    let numbered = kind.is_structured() || kind == Kind::Address;
    let number = numbered && value.bytes().any(|byte| byte.is_ascii_digit());
    if telling.is_vague() || kind != Kind::Secret && !number {
        return;
    }
    if value::meant(telling, Whose::Unsaid, value).is_none() {
        return;
    }
    // Without a digit it may be the name of a variable.
    let ground = if number { Ground::Key } else { Ground::Label };
    if let Some(part) = value::borne_out(value, kind, ground) {
        note(scan, start, part, kind, Evidence::Key);
    }
}

/// Scans the text from a label to the end of its line.
fn labelled(scan: &mut Scan<'_>, telling: Telling, start: usize, value: &str) {
    if let Some(name) = before_mail(value).filter(|name| telling.kind == Kind::Name && value::looks_named(name)) {
        note(scan, start, (0, name.len()), Kind::Name, Evidence::Key);
        return;
    }
    if !believable(value, telling) {
        return;
    }
    let named = !telling.is_sure() && telling.kind != Kind::Secret;
    let whose = if named {
        around::lines(scan, start, start + value.len())
    } else {
        Whose::Unsaid
    };
    if value::meant(telling, whose, value).is_none() {
        return;
    }
    if let Some(part) = value::borne_out(value, telling.kind, Ground::Label) {
        note(scan, start, part, telling.kind, Evidence::Key);
    }
}

pub(super) fn note(scan: &mut Scan<'_>, offset: usize, (start, end): (usize, usize), kind: Kind, by: Evidence) {
    scan.out.push(Finding {
        start: offset + start,
        end: offset + end,
        kind,
        by,
    });
}

/// Truncates a text to the most bytes of a value and the space before it, at a character boundary.
pub(super) fn first(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Returns the key between quotes that ends here.
fn quoted_key<'t>(scan: &Scan<'t>, close: usize) -> Option<Key<'t>> {
    let lowest = close.saturating_sub(LABEL);
    let quote = scan.bytes[close];
    let open = scan.bytes[lowest..close]
        .iter()
        .rposition(|byte| *byte == quote || *byte == b'\n')?
        + lowest;
    (scan.bytes[open] == quote).then(|| Key {
        text: &scan.text[open + 1..close],
        start: open,
        stands: Stands::Quoted,
    })
}

/// Returns the label that a line begins with.
pub(super) fn line_label<'t>(scan: &Scan<'t>, at: usize) -> Option<Key<'t>> {
    let lowest = at.saturating_sub(LABEL);
    let begin = match scan.bytes[lowest..at].iter().rposition(|byte| *byte == b'\n') {
        Some(index) => lowest + index + 1,
        None if lowest == 0 => 0,
        None => return None,
    };
    let label = scan.text.get(begin..at)?;
    // Some HTTP clients show response headers with this prefix.
    let label = label.strip_prefix("< ").unwrap_or(label);
    let label = label.trim_matches([' ', '\t', '*', '-', '#', '>', '|', '•']);
    let plain = !label.is_empty()
        && label
            .chars()
            .all(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '_' | '-' | '/'));
    (plain && label.split(' ').count() <= 3).then_some(Key {
        text: label,
        start: begin,
        stands: Stands::Line,
    })
}

/// Whether a value in running text is one, rather than the start of a sentence about it.
fn believable(value: &str, telling: Telling) -> bool {
    let words = || value.split_whitespace();
    let capital = |word: &str| {
        word.chars()
            .find(|letter| letter.is_alphabetic())
            .is_none_or(char::is_uppercase)
    };
    match telling.kind {
        Kind::Name | Kind::Place | Kind::Organisation => {
            words().count() <= 4
                && value::looks_named(value)
                && words().filter(|word| word.len() > 3).all(capital)
                && words().next().is_some_and(|first| {
                    capital(first) && !matches!(first, "The" | "A" | "An" | "Your" | "This" | "Use")
                })
        }
        Kind::Address => {
            let number = |word: &str| word.trim_matches([',', '.']).bytes().all(|byte| byte.is_ascii_digit());
            words().any(number) && words().count() <= 16 && !value.contains(['(', '"'])
        }
        Kind::Secret | Kind::Own(_) => false,
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

/// Returns the name before an e-mail address in angle brackets: `Ann Lee <ann@example.com>`. Addresses that nobody
/// reads have none.
fn before_mail(value: &str) -> Option<&str> {
    let (name, mail) = value.trim_end().strip_suffix('>')?.rsplit_once(" <")?;
    (value::is_address(mail) && !value::is_nobodys_mail(mail)).then(|| name.trim_end())
}

/// Returns the text between the quotes that a text begins with, escapes included.
fn closed(text: &str) -> &str {
    let mut letters = text.char_indices();
    let Some((_, quote)) = letters.next() else { return "" };
    let mut escaped = false;
    let end = letters.find(|(_, letter)| {
        let ends = !escaped && *letter == quote || matches!(letter, '\n' | '⟦');
        escaped = !escaped && *letter == '\\';
        ends
    });
    &text[quote.len_utf8()..end.map_or(text.len(), |(index, _)| index)]
}

/// Returns a bare value in a structure: a number, a date, the result of a call.
fn up_to_end(text: &str) -> &str {
    let end = text.find([',', '}', ']', ')', '(', '\n', ' ']);
    let call = end.filter(|end| text[*end..].starts_with('('));
    let end = match call {
        Some(open) => text[open..].find([')', '\n']).map(|length| open + length + 1),
        None => end,
    };
    let value = &text[..end.unwrap_or(text.len()).min(text.len())];
    value.trim_end_matches(['.', ',', ';', '\n'])
}

fn up_to_line(text: &str) -> &str {
    up_to(text, &['\n', '\r', '⟦']).trim_end_matches(['.', ',', ';'])
}

pub(super) fn up_to<'t>(text: &'t str, ends: &[char]) -> &'t str {
    &text[..text.find(ends).unwrap_or(text.len())]
}
