//! Values after a label in text: `Name: …` in a line, and values in printed structures: `"email": "…"`, `{ name: '…'
//! }`, `Customer(name='…')`.

use super::number::is_word_byte;
use super::{Scan, assigned, credential, surrounding_keys};
use crate::finding::{Evidence, SensitiveSpan};
use crate::json_context::{is_columns, is_field_value_key, is_pairs_field};
use crate::keys::{KeyHint, NameOwner};
use crate::kind::SensitiveKind;
use crate::secret;
use crate::value::{self, HintSource};

/// Most bytes of a label and of a value; a cookie may be longer.
pub(super) const MAX_LABEL_BYTES: usize = 40;
pub(super) const MAX_VALUE_BYTES: usize = 240 + 64;
const MAX_COOKIE_BYTES: usize = 8192;

/// The placement of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyPlacement {
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
enum KeyFollower {
    Quote,
    Number,
    Other,
}

/// A key, its start and its placement.
#[derive(Clone, Copy)]
pub(super) struct LabelKey<'t> {
    pub(super) text: &'t str,
    pub(super) start: usize,
    pub(super) stands: KeyPlacement,
}

/// Scans the value after a `:` or `=`, if the key before it has a hint.
pub(super) fn scan_value(scan: &mut Scan<'_>, at: usize) {
    let after = truncate(&scan.text[at + 1..], MAX_VALUE_BYTES);
    let lead = after.len() - after.trim_start_matches([' ', '\t', '*', '>']).len();
    let value = &after[lead..];
    let Some(begins) = value.chars().next() else { return };
    if matches!(after.trim_start_matches(' ').as_bytes().first(), Some(b'|' | b'>')) && credential::scan_block(scan, at)
    {
        return;
    }
    let follows = if matches!(begins, '"' | '\'' | '`') || value.starts_with("\\\"") {
        KeyFollower::Quote
    } else if begins.is_ascii_digit() || matches!(begins, '-' | '+') || value.starts_with("datetime.") {
        KeyFollower::Number
    } else {
        KeyFollower::Other
    };
    let from = at + 1 + lead;
    let Some(key) = key_before(scan, at, follows) else {
        let opens = matches!(begins, '{' | '[') || is_named_structure(value);
        let colon = scan.bytes[at] == b':';
        if follows != KeyFollower::Quote && (opens && colon || scan.kinds.contains(SensitiveKind::Secret)) {
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
    if follows == KeyFollower::Quote && is_pairs_field(key.text) {
        scan.pairs.0 = true;
    } else if is_field_value_key(key.text) {
        scan.pairs.1 = true;
    }
    let named = (key.text == "value" && key.stands == KeyPlacement::Line)
        .then(|| credential::named_variable(scan, &key))
        .flatten();
    let of_secret = named.filter(|named| {
        let telling = scan.telling(named.text);
        telling.is_some_and(|telling| telling.kind == SensitiveKind::Secret)
    });
    let key = of_secret.unwrap_or(key);
    let Some(telling) = scan
        .telling(key.text)
        .filter(|telling| scan.kinds.contains(telling.kind))
    else {
        return;
    };
    scan.printed |= is_named_structure(value);
    let secret = telling.kind == SensitiveKind::Secret;
    match (begins, key.stands) {
        _ if follows == KeyFollower::Quote => scan_quoted(scan, &key, telling, from),
        ('{' | '[', _) => scan.printed = true,
        (_, KeyPlacement::Close) if secret => credential::scan_assigned_secret(scan, &key, telling, from),
        (_, KeyPlacement::Close) => assigned::scan_assigned_value(scan, &key, telling, from, value),
        (_, KeyPlacement::Quoted | KeyPlacement::Within) => scan_bare(scan, telling, from, bare_value(value)),
        ('\n' | '\r', _) if secret => {}
        _ if secret => credential::scan_labelled_secret(scan, &key, telling, from),
        ('\n' | '\r', _) => {
            let line = after.len() - after.trim_start().len();
            scan_labelled(scan, telling, at + 1 + line, line_value(&after[line..]));
        }
        _ => scan_labelled(scan, telling, from, line_value(value)),
    }
}

/// Scans the value after a key in the middle of a line.
fn within<'t>(scan: &mut Scan<'t>, key: &LabelKey<'t>, from: usize, opens: bool) {
    if opens {
        let columns = is_columns(key.text) && scan.byte_at(from) == b'[';
        scan.pairs.1 |= is_field_value_key(key.text);
        scan.printed |= columns || scan.telling(key.text).is_some();
    } else if scan.kinds.contains(SensitiveKind::Secret)
        && let Some(telling) = scan
            .telling(key.text)
            .filter(|telling| telling.kind == SensitiveKind::Secret)
    {
        credential::scan_labelled_secret(scan, key, telling, from);
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
fn key_before<'t>(scan: &Scan<'t>, at: usize, follows: KeyFollower) -> Option<LabelKey<'t>> {
    let lowest = at.saturating_sub(MAX_LABEL_BYTES);
    let before = scan.bytes[lowest..at].trim_ascii_end();
    let before = before.strip_suffix(b":").unwrap_or(before);
    let end = lowest + before.len();
    if matches!(before.last(), Some(b'"' | b'\'')) {
        return quoted_key(scan, end - 1);
    }
    if follows != KeyFollower::Other {
        let length = before
            .iter()
            .rev()
            .take_while(|byte| is_word_byte(**byte) || **byte == b'-')
            .count();
        let start = end - length;
        let text = scan.text.get(start..end).filter(|text| !text.is_empty())?;
        let outside = scan.bytes[start.saturating_sub(MAX_LABEL_BYTES)..start].trim_ascii_end();
        if matches!(outside.last(), Some(b'{' | b'(' | b',' | b'[')) {
            let stands = KeyPlacement::Within;
            return Some(LabelKey { text, start, stands });
        }
        if let Some(key) = line_label(scan, at).filter(|_| follows == KeyFollower::Quote || !is_assigned(scan, at)) {
            return Some(key);
        }
        let stands = if end == at {
            KeyPlacement::Close
        } else {
            KeyPlacement::Loose
        };
        let close = stands == KeyPlacement::Close && is_assigned(scan, at);
        return (follows == KeyFollower::Quote || close).then_some(LabelKey { text, start, stands });
    }
    if scan.bytes[at] == b':' {
        return line_label(scan, at);
    }
    let length = before
        .iter()
        .rev()
        .take_while(|byte| is_word_byte(**byte) || **byte == b'-')
        .count();
    let text = scan.text.get(end - length..end).filter(|text| !text.is_empty())?;
    (end == at && is_assigned(scan, at)).then_some(LabelKey {
        text,
        start: end - length,
        stands: KeyPlacement::Close,
    })
}

/// Whether a `=` has a value directly after it, and is not a comparison.
fn is_assigned(scan: &Scan<'_>, at: usize) -> bool {
    scan.bytes[at] == b'=' && !matches!(scan.byte_at(at + 1), b' ' | b'=' | b'\t' | b'\n' | b'>')
}

/// Scans a quoted value: under a key in a structure it is trusted as in JSON.
fn scan_quoted(scan: &mut Scan<'_>, key: &LabelKey<'_>, telling: KeyHint, from: usize) {
    let most = if telling.kind == SensitiveKind::Secret {
        MAX_COOKIE_BYTES
    } else {
        MAX_VALUE_BYTES
    };
    let text = truncate(&scan.text[from..], most);
    let (start, value) = match text.strip_prefix('\\') {
        Some(inner) => (from + 2, text_until(&inner[1..], &['\\', '\n'])),
        None => (from + 1, quoted_text(text)),
    };
    let assigned = key.stands == KeyPlacement::Close && scan.bytes[key.start + key.text.len()] == b'=';
    match key.stands {
        KeyPlacement::Close | KeyPlacement::Loose if telling.kind == SensitiveKind::Secret => {
            let meant = value::kind_of_value(telling, NameOwner::Unknown, value).is_some();
            if telling.is_sure() && meant && secret::is_password(value) {
                add_value_finding(scan, start, (0, value.len()), SensitiveKind::Secret, Evidence::Form);
            }
            return;
        }
        KeyPlacement::Close | KeyPlacement::Loose
            if telling.is_vague() || !assigned && !telling.kind.is_structured() =>
        {
            return;
        }
        KeyPlacement::Quoted
        | KeyPlacement::Within
        | KeyPlacement::Line
        | KeyPlacement::Close
        | KeyPlacement::Loose => {}
    }
    let named = !telling.is_sure() && telling.kind != SensitiveKind::Secret;
    let whose = if named {
        surrounding_keys::name_owner_around(scan, key.start, start + value.len())
    } else {
        NameOwner::Unknown
    };
    // In a line of its own a quoted name may be any heading.
    let heading =
        named && key.stands == KeyPlacement::Line && whose != NameOwner::People && !value::looks_titled(value);
    let Some(kind) = value::kind_of_value(telling, whose, value).filter(|_| !heading) else {
        return;
    };
    if kind == SensitiveKind::Secret && value::describes_secret(value) {
        return;
    }
    if let Some(part) = value::confirmed_part(value, kind, HintSource::Key) {
        add_value_finding(scan, start, part, kind, Evidence::Key);
    }
}

/// Scans an unquoted value in a structure: a number, a date.
fn scan_bare(scan: &mut Scan<'_>, telling: KeyHint, start: usize, value: &str) {
    let kind = telling.kind;
    let numbered = kind.is_structured() || kind == SensitiveKind::Address;
    let number = numbered && value.bytes().any(|byte| byte.is_ascii_digit());
    if telling.is_vague() || kind != SensitiveKind::Secret && !number {
        return;
    }
    if value::kind_of_value(telling, NameOwner::Unknown, value).is_none() {
        return;
    }
    // Without a digit it may be the name of a variable.
    let ground = if number { HintSource::Key } else { HintSource::Label };
    if let Some(part) = value::confirmed_part(value, kind, ground) {
        add_value_finding(scan, start, part, kind, Evidence::Key);
    }
}

/// Scans the text from a label to the end of its line.
fn scan_labelled(scan: &mut Scan<'_>, telling: KeyHint, start: usize, value: &str) {
    if let Some(name) =
        before_mail(value).filter(|name| telling.kind == SensitiveKind::Name && value::looks_named(name))
    {
        add_value_finding(scan, start, (0, name.len()), SensitiveKind::Name, Evidence::Key);
        return;
    }
    if !is_believable(value, telling) {
        return;
    }
    let named = !telling.is_sure() && telling.kind != SensitiveKind::Secret;
    let whose = if named {
        surrounding_keys::name_owner_from_lines(scan, start, start + value.len())
    } else {
        NameOwner::Unknown
    };
    if value::kind_of_value(telling, whose, value).is_none() {
        return;
    }
    if let Some(part) = value::confirmed_part(value, telling.kind, HintSource::Label) {
        add_value_finding(scan, start, part, telling.kind, Evidence::Key);
    }
}

pub(super) fn add_value_finding(
    scan: &mut Scan<'_>,
    offset: usize,
    (start, end): (usize, usize),
    kind: SensitiveKind,
    by: Evidence,
) {
    scan.out.push(SensitiveSpan {
        start: offset + start,
        end: offset + end,
        kind,
        by,
    });
}

/// Truncates a text to the most bytes of a value and the space before it, at a character boundary.
pub(super) fn truncate(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Returns the key between quotes that ends here.
fn quoted_key<'t>(scan: &Scan<'t>, close: usize) -> Option<LabelKey<'t>> {
    let lowest = close.saturating_sub(MAX_LABEL_BYTES);
    let quote = scan.bytes[close];
    let open = scan.bytes[lowest..close]
        .iter()
        .rposition(|byte| *byte == quote || *byte == b'\n')?
        + lowest;
    (scan.bytes[open] == quote).then(|| LabelKey {
        text: &scan.text[open + 1..close],
        start: open,
        stands: KeyPlacement::Quoted,
    })
}

/// Returns the label that a line begins with.
pub(super) fn line_label<'t>(scan: &Scan<'t>, at: usize) -> Option<LabelKey<'t>> {
    let lowest = at.saturating_sub(MAX_LABEL_BYTES);
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
    (plain && label.split(' ').count() <= 3).then_some(LabelKey {
        text: label,
        start: begin,
        stands: KeyPlacement::Line,
    })
}

/// Whether a value in running text is one, rather than the start of a sentence about it.
fn is_believable(value: &str, telling: KeyHint) -> bool {
    let words = || value.split_whitespace();
    let capital = |word: &str| {
        word.chars()
            .find(|letter| letter.is_alphabetic())
            .is_none_or(char::is_uppercase)
    };
    match telling.kind {
        SensitiveKind::Name | SensitiveKind::Place | SensitiveKind::Organisation => {
            words().count() <= 4
                && value::looks_named(value)
                && words().filter(|word| word.len() > 3).all(capital)
                && words().next().is_some_and(|first| {
                    capital(first) && !matches!(first, "The" | "A" | "An" | "Your" | "This" | "Use")
                })
        }
        SensitiveKind::Address => {
            let number = |word: &str| word.trim_matches([',', '.']).bytes().all(|byte| byte.is_ascii_digit());
            words().any(number) && words().count() <= 16 && !value.contains(['(', '"'])
        }
        SensitiveKind::Secret | SensitiveKind::Custom(_) => false,
        SensitiveKind::Email
        | SensitiveKind::Phone
        | SensitiveKind::Card
        | SensitiveKind::Iban
        | SensitiveKind::Ssn
        | SensitiveKind::NationalId
        | SensitiveKind::Ip
        | SensitiveKind::Mac
        | SensitiveKind::Url
        | SensitiveKind::BirthDate => true,
    }
}

/// Returns the name before an e-mail address in angle brackets: `Ann Lee <ann@example.com>`. Addresses that nobody
/// reads have none.
fn before_mail(value: &str) -> Option<&str> {
    let (name, mail) = value.trim_end().strip_suffix('>')?.rsplit_once(" <")?;
    (value::is_email(mail) && !value::is_nobodys_mail(mail)).then(|| name.trim_end())
}

/// Returns the text between the quotes that a text begins with, escapes included.
fn quoted_text(text: &str) -> &str {
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
fn bare_value(text: &str) -> &str {
    let end = text.find([',', '}', ']', ')', '(', '\n', ' ']);
    let call = end.filter(|end| text[*end..].starts_with('('));
    let end = match call {
        Some(open) => text[open..].find([')', '\n']).map(|length| open + length + 1),
        None => end,
    };
    let value = &text[..end.unwrap_or(text.len()).min(text.len())];
    value.trim_end_matches(['.', ',', ';', '\n'])
}

fn line_value(text: &str) -> &str {
    text_until(text, &['\n', '\r', '⟦']).trim_end_matches(['.', ',', ';'])
}

pub(super) fn text_until<'t>(text: &'t str, ends: &[char]) -> &'t str {
    &text[..text.find(ends).unwrap_or(text.len())]
}
