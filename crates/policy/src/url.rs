//! URL paths in their one canonical form, and the patterns over them. Ambiguous spellings (dot segments, double encoding, encoded
//! slashes, backslashes, `//`, `;`, bytes that are not UTF-8, characters that some servers read as one of these) are refused.

use std::fmt;
use std::str::FromStr;

use crate::host::{Host, HostError};
use crate::invisible::is_invisible;
use crate::segments::{Segments, at_least_one, parse_starred};
use crate::text::text_type;

/// The longest URL path, in bytes.
const MAX_URL_PATH_BYTES: usize = 8_192;

/// Why a URL path or pattern was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlPathError {
    /// It does not start with a slash.
    #[error("a URL path starts with `/`")]
    Relative,
    /// More than 8,192 bytes, as given or in canonical form.
    #[error("the URL path is too long")]
    TooLong,
    /// `.` or `..`, plain or encoded.
    #[error("the URL path has a `.` or `..` segment")]
    Dots,
    /// The path has two slashes in a row.
    #[error("the URL path has an empty segment (`//`)")]
    EmptySegment,
    /// A character that some servers read differently, or that a URL path may not contain.
    #[error("`{}` is not allowed in a URL path", .0.escape_default())]
    Character(char),
    /// The path has a `%` without two hexadecimal digits.
    #[error("the URL path has a malformed percent-encoding")]
    Percent,
    /// An encoded character that changes meaning when decoded: slash, backslash, dot, percent, control.
    #[error("the URL path hides `%{0:02X}` in an encoding")]
    Encoded(u8),
    /// Encoded bytes that are not UTF-8, such as an overlong form of a dot or slash.
    #[error("the URL path encodes bytes that are not UTF-8")]
    NotText,
    /// An encoded character that some servers turn into a dot, a slash or another delimiter, or remove.
    #[error("the URL path encodes U+{:04X}, which some servers read as another character", u32::from(*.0))]
    LooksLike(char),
    /// The pattern has `**` beside other characters in one segment.
    #[error("`**` stands for whole segments and must be one by itself")]
    Wildcard,
}

/// A URL path without query or fragment; the form that is compared is the form that is sent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UrlPath(String);

impl UrlPath {
    /// The canonical path, which is sent unchanged.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for UrlPath {
    type Err = UrlPathError;

    fn from_str(text: &str) -> Result<Self, UrlPathError> {
        canonicalize(text, false).map(Self)
    }
}

impl fmt::Display for UrlPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A pattern over URL paths: `*` within one segment, `**` one or more segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlPathPattern {
    text: String,
    segments: Segments,
}

impl UrlPathPattern {
    /// The pattern in canonical form.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the pattern matches this path.
    pub fn matches(&self, path: &UrlPath) -> bool {
        self.segments.covers(&Segments::literal(path.0[1..].split('/')))
    }

    /// Whether this pattern matches every path that `other` matches.
    pub fn contains(&self, other: &Self) -> bool {
        self.segments.covers(&other.segments)
    }
}

impl FromStr for UrlPathPattern {
    type Err = UrlPathError;

    fn from_str(text: &str) -> Result<Self, UrlPathError> {
        let text = canonicalize(text, true)?;
        let parts = text[1..]
            .split('/')
            .map(|part| parse_starred(part).ok_or(UrlPathError::Wildcard))
            .collect::<Result<Vec<_>, _>>()?;
        let segments = Segments::new(at_least_one(parts));
        Ok(Self { text, segments })
    }
}

impl fmt::Display for UrlPathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The canonical spelling: upper-case hexadecimal digits, unreserved characters decoded. In a pattern `*` is the wildcard; in a
/// path it is an ordinary character.
fn canonicalize(text: &str, pattern: bool) -> Result<String, UrlPathError> {
    if text.len() > MAX_URL_PATH_BYTES {
        return Err(UrlPathError::TooLong);
    }
    let Some(rest) = text.strip_prefix('/') else {
        return Err(UrlPathError::Relative);
    };
    let mut out = String::with_capacity(text.len());
    out.push('/');
    let mut chars = rest.chars();
    while let Some(c) = chars.next() {
        match c {
            '%' => decode_escape(&mut chars, &mut out)?,
            '*' if !pattern => out.push_str("%2A"),
            'a'..='z'
            | 'A'..='Z'
            | '0'..='9'
            | '-'
            | '.'
            | '_'
            | '~'
            | '/'
            | '!'
            | '$'
            | '&'
            | '\''
            | '('
            | ')'
            | '*'
            | '+'
            | ','
            | '='
            | ':'
            | '@' => out.push(c),
            c => return Err(UrlPathError::Character(c)),
        }
    }
    // Encoding lengthens a path, and the canonical form must itself parse.
    if out.len() > MAX_URL_PATH_BYTES {
        return Err(UrlPathError::TooLong);
    }
    check_characters(&out)?;
    let segments: Vec<&str> = out[1..].split('/').collect();
    if segments.iter().any(|segment| matches!(*segment, "." | "..")) {
        return Err(UrlPathError::Dots);
    }
    // An empty last segment is a trailing slash.
    match segments.split_last() {
        Some((_, rest)) if rest.iter().any(|segment| segment.is_empty()) => Err(UrlPathError::EmptySegment),
        _ => Ok(out),
    }
}

fn decode_escape(chars: &mut std::str::Chars<'_>, out: &mut String) -> Result<(), UrlPathError> {
    let digit = |c: Option<char>| c.and_then(|c| c.to_digit(16)).ok_or(UrlPathError::Percent);
    let byte = digit(chars.next())? * 16 + digit(chars.next())?;
    let byte = u8::try_from(byte).map_err(|_| UrlPathError::Percent)?;
    match byte {
        b'/' | b'\\' | b'.' | b'%' | b';' | 0..=0x1f | 0x7f => Err(UrlPathError::Encoded(byte)),
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => {
            out.push(char::from(byte));
            Ok(())
        }
        byte => {
            let hex = |nibble: u8| char::from(b"0123456789ABCDEF"[usize::from(nibble & 15)]);
            out.extend(['%', hex(byte >> 4), hex(byte)]);
            Ok(())
        }
    }
}

/// Refuses a canonical path whose non-ASCII characters are not UTF-8 or are confusable.
fn check_characters(text: &str) -> Result<(), UrlPathError> {
    if !text.contains('%') {
        return Ok(());
    }
    let mut parts = text.split('%');
    let mut bytes: Vec<u8> = parts.next().unwrap_or_default().bytes().collect();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).ok_or(UrlPathError::Percent)?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| UrlPathError::Percent)?);
        bytes.extend(rest.bytes());
    }
    let letters = std::str::from_utf8(&bytes).map_err(|_| UrlPathError::NotText)?;
    match letters.chars().find(|c| !c.is_ascii() && is_confusable(*c)) {
        Some(c) => Err(UrlPathError::LooksLike(c)),
        None => Ok(()),
    }
}

/// Whether the compatibility form of a character has a `.`, `/`, `\`, `%`, `;`, `?` or `#`, whether servers often map it to one
/// of these, or whether it is invisible and often removed.
fn is_confusable(c: char) -> bool {
    c.is_control()
        || is_invisible(c)
        || matches!(c,
            // Dots.
            '\u{2024}'..='\u{2026}' | '\u{2488}'..='\u{249b}' | '\u{fe19}' | '\u{fe30}' | '\u{fe52}'
            | '\u{ff0e}' | '\u{1f100}'
            // Slashes and backslashes.
            | '\u{2044}' | '\u{2100}' | '\u{2101}' | '\u{2105}' | '\u{2106}' | '\u{2215}' | '\u{2216}' | '\u{29f5}' | '\u{29f8}'
            | '\u{29f9}' | '\u{fe68}' | '\u{ff0f}' | '\u{ff3c}'
            // Percent, semicolon, question mark, number sign.
            | '\u{37e}' | '\u{2047}'..='\u{2049}' | '\u{fe14}' | '\u{fe16}' | '\u{fe54}' | '\u{fe56}' | '\u{fe5f}' | '\u{fe6a}'
            | '\u{ff03}' | '\u{ff05}' | '\u{ff1b}' | '\u{ff1f}'
            // Characters that no text contains.
            | '\u{fffd}' | '\u{fffe}' | '\u{ffff}')
}

/// The host that a tool argument names: a bare host, or the authority of an absolute URL.
pub(crate) fn parse_url_host(text: &str) -> Result<Host, HostError> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.parse();
    };
    if scheme.is_empty() || !scheme.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return Err(HostError::Character(':'));
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if let Some(c) = authority.chars().find(|c| matches!(c, '@' | '\\')) {
        return Err(HostError::Character(c));
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    };
    match port {
        Some(port) if port.is_empty() || !port.bytes().all(|b| b.is_ascii_digit()) => Err(HostError::Character(':')),
        _ => host.parse(),
    }
}

text_type!(
    UrlPathPattern,
    "A URL path: `*` within one segment, `**` one or more segments, for example `/repos/**`."
);

#[cfg(test)]
mod tests;
