//! Secrets in running text, given to a key, a header or an option: `DB_PASSWORD=hunter2`, `password: hunter2`,
//! `Cookie: a=b`, `--password hunter2`. A value must look like a secret: text mentions passwords more often than it
//! contains them.

mod judge;
mod sentence;
mod written;

use super::label::{KeyPlacement, LabelKey, add_value_finding, line_label, truncate};
use super::{Scan, surrounding_keys};
use crate::finding::Evidence;
use crate::keys::{self, KeyHint, NameOwner};
use crate::kind::SensitiveKind;
use judge::{is_constant_name, is_password_key, is_placeholder, is_telling, looks_like_secret};
pub(super) use sentence::scan_sentences;
pub(super) use written::{named_variable, scan_block};

/// Most bytes of a value that are checked, and most bytes of a cookie.
const VALUE: usize = 1024;
const COOKIE: usize = 8192;
/// Headers that are recognised anywhere in a line.
const HEADERS: [&str; 7] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
    "x-api-key",
    "x-auth-token",
    "api-key",
];
/// Words before the credentials of a request.
const SCHEMES: [&str; 8] = [
    "bearer",
    "basic",
    "token",
    "apikey",
    "digest",
    "negotiate",
    "aws4-hmac-sha256",
    "key",
];

/// Returns a key in the middle of a line that a `:` follows: after a bracket, a comma or a quote, a header's name, or
/// the last word before a chosen password. Unless a structure follows, it must be the key of a secret.
pub(super) fn key_within<'t>(scan: &Scan<'t>, at: usize, opens: bool) -> Option<LabelKey<'t>> {
    if scan.byte_at(at + 1) == b':' || scan.byte_before(at) == b':' {
        return None;
    }
    let start = at - word_before(scan, at);
    let text = scan.text.get(start..at).filter(|text| !text.is_empty())?;
    let outside = scan.bytes[start.saturating_sub(8)..start].trim_ascii_end();
    let parted = matches!(outside.last(), Some(b'{' | b',' | b';' | b'&' | b'(' | b'['));
    let quoted = matches!(scan.byte_before(start), b'"' | b'\'' | b'`');
    let begun = || matches!(text.as_bytes()[0] | 0x20, b'a' | b'c' | b'p' | b's' | b'x');
    let header = || begun() && HEADERS.iter().any(|header| text.eq_ignore_ascii_case(header));
    let stands = KeyPlacement::Within;
    let placed = parted || quoted || header() || written::is_member_of_printed(scan, start, at);
    let good = (placed || sentence::states_password(scan, text, at)) && (opens || may_be_secret_key(text));
    good.then_some(LabelKey { text, start, stands })
}

/// Whether a word may be the key of a secret; checked before any lookup.
fn may_be_secret_key(word: &str) -> bool {
    let told = |part: &[u8]| {
        let part = [part[0] | 0x20, part[1] | 0x20, part[2] | 0x20];
        matches!(
            &part,
            b"pas" | b"pwd" | b"sec" | b"tok" | b"key" | b"cre" | b"aut" | b"coo" | b"pin" | b"cvv" | b"cvc" | b"otp"
        ) || matches!(&part, b"ken" | b"ras" | b"enh" | b"asl" | b"htw")
    };
    !word.is_ascii() || word.as_bytes().windows(3).any(told)
}

/// Returns the only word of a line before a `=` with a space on each side, as settings files write it.
pub(super) fn key_of_setting<'t>(scan: &Scan<'t>, at: usize) -> Option<LabelKey<'t>> {
    let spaced = scan.bytes[at] == b'=' && scan.byte_at(at + 1) == b' ' && scan.byte_before(at) == b' ';
    let end = at.checked_sub(1).filter(|_| spaced)?;
    let word = scan.text.get(end - word_before(scan, end)..end)?;
    let key = may_be_secret_key(word).then(|| line_label(scan, at)).flatten()?;
    (!key.text.contains(' ')).then_some(key)
}

/// Returns the length of the word that ends before a byte.
fn word_before(scan: &Scan<'_>, at: usize) -> usize {
    let before = scan.bytes[at.saturating_sub(super::label::MAX_LABEL_BYTES)..at]
        .iter()
        .rev();
    before
        .take_while(|byte| super::number::is_word_byte(**byte) || matches!(**byte, b'-' | b'.'))
        .count()
}

/// Scans a secret after a `:`, or after a `=` and a space.
pub(super) fn scan_labelled_secret(scan: &mut Scan<'_>, key: &LabelKey<'_>, telling: KeyHint, from: usize) {
    // `pin::Pin` is a path.
    if from < scan.given
        || matches!(scan.byte_at(from), b':' | b'=')
        || scan.byte_before(from) == b':' && scan.byte_before(from - 1) == b':'
    {
        return;
    }
    let last = key.text.rsplit(['-', '_', ' ']).next().unwrap_or_default();
    let baked = last.eq_ignore_ascii_case("cookie") || last.eq_ignore_ascii_case("cookies");
    let quote = key.start.checked_sub(1).map(|before| scan.bytes[before]);
    let quote = quote.filter(|byte| matches!(byte, b'"' | b'\'' | b'`'));
    let line = |most: usize| {
        let ends = |byte: &u8| matches!(byte, b'\n' | b'\r') || Some(*byte) == quote;
        let rest = truncate(&scan.text[from..], most);
        let rest = &rest[..rest.as_bytes().iter().position(ends).unwrap_or(rest.len())];
        // In program text a line break may be written as an escape.
        let rest = &rest[..rest.find("\\n").unwrap_or(rest.len())];
        &rest[..rest.find('⟦').unwrap_or(rest.len())]
    };
    let short = line(VALUE);
    // A value without spaces is followed as far as a cookie.
    let line = if short.len() + 4 > VALUE && (baked || !short.contains(' ')) {
        line(COOKIE)
    } else {
        short
    };
    let part = if last.eq_ignore_ascii_case("authorization") {
        authorization(line)
    } else if baked {
        cookie(line, key.text.len() > last.len())
    } else {
        plain_secret(scan, key, telling, from, line)
    };
    if let Some(part) = part {
        add_value_finding(scan, from, part, SensitiveKind::Secret, Evidence::Key);
        scan.given = from + part.1;
    }
}

/// Finds the value after a scheme, or a word that is a secret by itself.
fn authorization(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split_ascii_whitespace();
    let scheme = words.next()?;
    if !SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        let good = words.next().is_none() && is_telling(scheme) && !is_placeholder(scheme);
        return good.then(|| span(line, scheme));
    }
    let value = words.next()?;
    if value.contains('=') && value.contains('"') || scheme.starts_with(['A', 'a']) {
        // Fields, each with a value.
        return value
            .contains('=')
            .then(|| (span(line, value).0, line.trim_end().len()));
    }
    let value = value.split(['"', '\'', '`', '\\', ',']).next().unwrap_or_default();
    let alone = words.next().is_none() || value.len() >= 8 && is_telling(value);
    let good = alone && value.len() >= 3 && !is_placeholder(value) && !is_constant_name(value);
    good.then(|| span(line, value))
}

/// Finds the cookies of a request; of a response the first one, because its attributes are not secret.
fn cookie(line: &str, of_answer: bool) -> Option<(usize, usize)> {
    const ATTRIBUTES: [&str; 5] = ["samesite", "path", "domain", "max-age", "expires"];
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let mut end = 0;
    for piece in line.split(';').take(if of_answer { 1 } else { usize::MAX }) {
        let lead = piece.len() - piece.trim_start().len();
        let cookie = piece.split_whitespace().next().unwrap_or_default();
        let (name, value) = cookie.split_once('=').unwrap_or_default();
        let attribute = ATTRIBUTES.iter().any(|word| name.eq_ignore_ascii_case(word));
        if name.is_empty() || value.is_empty() || attribute || !name.bytes().all(letter) || is_placeholder(value) {
            break;
        }
        end = span(line, piece).0 + lead + cookie.len();
        if lead + cookie.len() < piece.trim_end().len() {
            break;
        }
    }
    (end > 0).then_some((0, end))
}

/// Finds one value after a key, unless it continues as a sentence.
fn plain_secret(
    scan: &Scan<'_>,
    key: &LabelKey<'_>,
    telling: KeyHint,
    from: usize,
    line: &str,
) -> Option<(usize, usize)> {
    let within = key.stands == KeyPlacement::Within;
    let ends = |letter: char| letter.is_whitespace() || within && matches!(letter, ',' | ';' | '}' | ')' | ']' | '&');
    let token = &line[..line.find(ends).unwrap_or(line.len())];
    let after = line[token.len()..].trim_start();
    let value = token.trim_end_matches([',', ';', '.', '"', '\'', '`']);
    let sentence = !within && !after.is_empty() && value.len() == token.len() && !after.starts_with(['#', '(', '/']);
    if value.is_empty() || sentence || !looks_like_secret(value, key, telling) {
        return None;
    }
    if !is_telling(value) {
        // A single word is a password if the lines around it name a user.
        let ended = token.len() > value.len();
        let named = || {
            matches!(
                surrounding_keys::name_owner_from_lines(scan, from, from + token.len()),
                NameOwner::People | NameOwner::Contacts
            )
        };
        let good = !ended && value.len() >= 4 && (is_password_key(key.text) && (is_constant_name(key.text) || named()));
        return good.then_some((0, value.len()));
    }
    Some((0, value.len()))
}

/// Scans a secret directly after `key=`.
pub(super) fn scan_assigned_secret(scan: &mut Scan<'_>, key: &LabelKey<'_>, telling: KeyHint, from: usize) {
    let before = scan.byte_before(key.start);
    let query = matches!(before, b'?' | b'&' | b'#' | b';');
    let call = matches!(before, b'(' | b'[' | b'{') || scan.text[..key.start].ends_with(", ");
    let environment = is_constant_name(key.text) && !query && !call;
    let ends = |letter: char| {
        letter.is_whitespace()
            || matches!(letter, '"' | '\'' | '`' | '⟦')
            || !environment && matches!(letter, '&' | ';' | ',' | ')' | ']' | '}' | '<' | '>')
            || query && letter == '#'
    };
    if from < scan.given {
        return;
    }
    let text = truncate(&scan.text[from..], COOKIE);
    let value = &text[..text.find(ends).unwrap_or(text.len())];
    // A value is checked only once, whatever it contains.
    scan.given = from + value.len();
    let value = if environment {
        value
    } else {
        value.trim_end_matches(['.', '\\'])
    };
    if value.is_empty() || !looks_like_secret(value, key, telling) {
        return;
    }
    let word = value
        .bytes()
        .all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-'));
    let long = value.len() >= 4;
    let good = if environment {
        long
    } else if query {
        telling.is_sure() && !is_constant_name(value)
            || is_telling(value) && value.len() >= 6
            || value.len() >= 8 && !is_constant_name(value)
    } else {
        is_telling(value) && long
            || word && value.len() >= 5 && !call && is_password_key(key.text) && !is_constant_name(value)
    };
    if good {
        add_value_finding(scan, from, (0, value.len()), SensitiveKind::Secret, Evidence::Key);
    }
}

/// Scans command options that take a secret: `--password hunter2`, `-u ann:hunter2`.
pub(super) fn scan_options(scan: &mut Scan<'_>) {
    for (dash, _) in scan.text.match_indices('-') {
        let Some(at) = dash.checked_sub(1).filter(|at| scan.bytes[*at] == b' ') else {
            continue;
        };
        match scan.byte_at(at + 2) {
            b'-' | b'u' | b'U' | b'b' => {}
            b'p' => {
                joined_password(scan, at + 3);
                continue;
            }
            _ => continue,
        }
        let rest = truncate(&scan.text[at + 2..], 400);
        let name_end = rest.find([' ', '=', '\n']).unwrap_or(rest.len());
        let (name, value) = (&rest[..name_end], &rest[name_end..]);
        let lead = value.len() - value.trim_start_matches([' ', '=', '"', '\'']).len();
        let value = &value[lead..];
        let value = &value[..value.find([' ', '\n', '"', '\'', '`', '\\']).unwrap_or(value.len())];
        let (from, long) = (at + 2 + name_end + lead, name.strip_prefix('-'));
        if lead == 0 || value.is_empty() || value.starts_with('-') {
            continue;
        }
        if matches!(name, "u" | "-user" | "-proxy-user" | "U") {
            if let Some((user, password)) = value.split_once(':')
                && is_login(scan, at, user, password)
            {
                let start = user.len() + 1;
                add_value_finding(scan, from, (start, value.len()), SensitiveKind::Secret, Evidence::Key);
            }
            continue;
        }
        let cookie = matches!(name, "b" | "-cookie") && is_client(scan, at);
        if cookie && let Some(part) = cookie_option(value) {
            add_value_finding(scan, from, part, SensitiveKind::Secret, Evidence::Key);
            continue;
        }
        let Some(telling) = long
            .and_then(keys::key_hint)
            .filter(|one| one.kind == SensitiveKind::Secret)
        else {
            continue;
        };
        let key = LabelKey {
            text: long.unwrap_or_default(),
            start: at + 3,
            stands: KeyPlacement::Close,
        };
        let good = is_telling(value)
            && value.len() >= 4
            && !is_constant_name(value)
            && looks_like_secret(value, &key, telling);
        if good {
            add_value_finding(scan, from, (0, value.len()), SensitiveKind::Secret, Evidence::Key);
        }
    }
}

/// Scans the password directly after `-p`, as `MySQL` clients and `sshpass` take it.
fn joined_password(scan: &mut Scan<'_>, from: usize) {
    let rest = truncate(&scan.text[from..], VALUE);
    let quote = rest.chars().next().filter(|letter| matches!(letter, '"' | '\''));
    let from = from + quote.map_or(0, char::len_utf8);
    let rest = &rest[quote.map_or(0, char::len_utf8)..];
    let ends = |letter: char| match quote {
        Some(quote) => letter == quote || letter == '\n',
        None => letter.is_whitespace() || matches!(letter, '"' | '\'' | '`' | '\\' | ';' | '|'),
    };
    let value = &rest[..rest.find(ends).unwrap_or(rest.len())];
    let good = value.len() >= 4 && !is_placeholder(value) && !is_constant_name(value);
    if good && runs(scan, from, &["mysql", "mariadb", "sshpass"]) {
        add_value_finding(scan, from, (0, value.len()), SensitiveKind::Secret, Evidence::Key);
    }
}

fn cookie_option(value: &str) -> Option<(usize, usize)> {
    cookie(value, false)
}

/// Whether an option belongs to an HTTP client: elsewhere `-u` is a user id or a branch.
fn is_client(scan: &Scan<'_>, at: usize) -> bool {
    runs(scan, at, &["curl", "wget", "http ", "https ", "xh "])
}

/// Whether the command before a position runs one of these programs.
fn runs(scan: &Scan<'_>, at: usize, programs: &[&str]) -> bool {
    let before = &scan.text[scan.text.floor_char_boundary(at.saturating_sub(512))..at];
    let parts = before.rmatch_indices(['|', ';', '\n']);
    // A line that ends with a backslash continues.
    let mut parts = parts.filter(|(at, sign)| *sign != "\n" || !before[..*at].ends_with('\\'));
    let command = &before[parts.next().map_or(0, |(at, _)| at + 1)..];
    programs.iter().any(|program| command.contains(program))
}

fn is_login(scan: &Scan<'_>, at: usize, user: &str, password: &str) -> bool {
    let plain = |part: &str| !is_placeholder(part) && !is_constant_name(part);
    !user.is_empty()
        && password.len() >= 2
        && plain(password)
        && !user.starts_with(['$', '<', '{'])
        && is_client(scan, at)
}

/// Returns the range of a part in its text.
fn span(text: &str, part: &str) -> (usize, usize) {
    let start = part.as_ptr() as usize - text.as_ptr() as usize;
    (start, start + part.len())
}

#[cfg(test)]
mod tests;
