//! Whether a value bears out what its key says, and which part of it is meant.

use std::net::IpAddr;

use crate::kind::Kind;

/// The longest value that a key makes a finding of as a whole; longer ones are texts, and are read as such.
const LONGEST: usize = 240;

/// The part of a value that is of the kind its key says, if it can be.
pub(crate) fn borne_out(value: &str, kind: Kind) -> Option<(usize, usize)> {
    let trimmed = value.trim();
    let start = value.len() - value.trim_start().len();
    if trimmed.is_empty() || trimmed.len() > LONGEST || is_nothing(trimmed) || trimmed.contains(['‹', '⟦']) {
        return None;
    }
    let digits = trimmed.bytes().filter(u8::is_ascii_digit).count();
    let letters = trimmed.chars().filter(|letter| letter.is_alphabetic()).count();
    let good = match kind {
        // Their forms are looked for in any text.
        Kind::Email | Kind::Own(_) => false,
        Kind::Phone => (4..=20).contains(&digits) && is_dialled(trimmed),
        Kind::Card => (8..=24).contains(&digits) && letters == 0,
        Kind::Iban => digits >= 4 && (12..=42).contains(&trimmed.len()) && is_plain(trimmed),
        Kind::Ssn => (4..=11).contains(&digits) && letters <= 2 && trimmed.len() <= 16,
        Kind::NationalId => digits >= 3 && trimmed.len() <= 32 && is_plain(trimmed),
        Kind::Ip => trimmed
            .parse::<IpAddr>()
            .is_ok_and(|address| !address.is_loopback() && !address.is_unspecified()),
        Kind::Mac => trimmed.bytes().filter(u8::is_ascii_hexdigit).count() == 12 && trimmed.len() <= 17,
        Kind::Url => {
            trimmed.contains('.')
                && !trimmed.contains(char::is_whitespace)
                && letters >= 3
                && !trimmed.starts_with(['.', '/'])
        }
        Kind::BirthDate => (2..=14).contains(&digits) && trimmed.len() <= 40,
        Kind::Name => letters >= 1 && digits <= 4 && trimmed.chars().count() <= 80 && !trimmed.contains("://"),
        Kind::Place | Kind::Organisation => letters >= 1 && trimmed.chars().count() <= 120 && !trimmed.contains("://"),
        Kind::Address => letters + digits >= 1,
        Kind::Secret => trimmed.len() >= 4 && !trimmed.contains(char::is_whitespace) && !is_placeholder(trimmed),
    };
    good.then_some((start, start + trimmed.len()))
}

/// Whether a value under a key that things have too looks like a person's name or a town's.
pub(crate) fn looks_named(value: &str) -> bool {
    let trimmed = value.trim();
    let words = trimmed.split_whitespace().count();
    let letters = |letter: char| {
        letter.is_alphabetic()
            || letter.is_whitespace()
            || !letter.is_ascii()
            || matches!(letter, '.' | '\'' | '-' | ',' | '`' | '(' | ')' | '/' | '"')
    };
    (1..=6).contains(&words)
        && trimmed.chars().all(letters)
        && trimmed.chars().any(char::is_alphabetic)
        && !trimmed
            .trim_end_matches('.')
            .split_once('.')
            .is_some_and(|(_, rest)| !rest.is_empty() && !rest.contains(' '))
}

/// Words that stand for no value.
fn is_nothing(value: &str) -> bool {
    const NOTHING: [&str; 14] = [
        "null",
        "none",
        "n/a",
        "na",
        "nil",
        "unknown",
        "undefined",
        "true",
        "false",
        "-",
        "yes",
        "no",
        "string",
        "anonymous",
    ];
    NOTHING.iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// Values that only show where a secret goes, or were covered before.
fn is_placeholder(value: &str) -> bool {
    let wrapped = value.starts_with(['<', '$', '{', '%', '[']) || value.contains("{{");
    let covered = value
        .chars()
        .all(|letter| matches!(letter, '*' | 'x' | 'X' | '.' | '•' | '#'));
    let told = ["your", "example", "changeme", "redacted", "required"]
        .iter()
        .any(|word| {
            value
                .get(..word.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(word))
        });
    wrapped || covered || told
}

fn is_dialled(value: &str) -> bool {
    let letters = value.chars().filter(|letter| letter.is_alphabetic()).count();
    let known = |letter: char| {
        letter.is_ascii_digit()
            || letter.is_whitespace()
            || letter.is_ascii_alphabetic()
            || matches!(
                letter,
                '+' | '-' | '(' | ')' | '.' | '/' | ':' | '#' | '*' | ',' | '\u{2010}'..='\u{2015}' | '\u{2212}'
            )
    };
    letters <= 4 && value.chars().all(known)
}

fn is_plain(value: &str) -> bool {
    value.chars().all(|letter| {
        letter.is_alphanumeric() || letter.is_whitespace() || matches!(letter, '-' | '.' | '/' | '(' | ')')
    })
}

#[cfg(test)]
mod tests;
