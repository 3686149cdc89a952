//! Hosts in their one canonical form, and the patterns over them. The form that is matched is the form that is dialled: a
//! spelling that can be read in two ways is refused, never repaired.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::segments::{PatternPart, Segments, at_least_one};
use crate::text::text_type;

/// Why a host or host pattern was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// The host has no characters.
    #[error("the host is empty")]
    Empty,
    /// The host has more than 253 characters, or a label more than 63.
    #[error("the host or one of its labels is too long")]
    TooLong,
    /// A character that no host may contain: NUL, control, space, `%`, `@`, `/`, a port's `:` and so on.
    #[error("`{}` is not allowed in a host", .0.escape_default())]
    Character(char),
    /// The host has two dots in a row, or starts with one.
    #[error("`{0}` has an empty label")]
    EmptyLabel(String),
    /// A label starts or ends with a hyphen.
    #[error("`{0}` has a label that starts or ends with `-`")]
    Hyphen(String),
    /// The host has letters outside ASCII; the hint is the ASCII spelling.
    #[error("`{}` is not ASCII{}", .text.escape_debug(), format_ascii_hint(.ascii.as_ref()))]
    NotAscii {
        /// The host as it was given.
        text: String,
        /// The ASCII spelling; `None` if the text is not a host name.
        ascii: Option<String>,
    },
    /// An `xn--` label that is not the encoding of a name.
    #[error("`{0}` has a malformed `xn--` label")]
    Punycode(String),
    /// Digits that some programs read as an address and others as a name.
    #[error("`{0}` looks like a number, write an address as four decimal numbers")]
    Numeric(String),
    /// The text is not an IPv6 address, or its brackets contain something else.
    #[error("`{0}` is not an IPv6 address")]
    Ipv6(String),
    /// An IPv6 address that embeds an IPv4 address.
    #[error("`{0}` hides an IPv4 address, write `{1}`")]
    Embedded(Ipv6Addr, Ipv4Addr),
    /// The pattern has `*` beside other characters, or in an address.
    #[error("`{0}`: `*` stands for one whole label, `**` for one or more")]
    Wildcard(String),
    /// The pattern has a wildcard directly below a public suffix, or only wildcards.
    #[error("`{0}` would match names of many owners, name at least one domain below `{1}`")]
    TooWide(String, String),
}

fn format_ascii_hint(ascii: Option<&String>) -> String {
    ascii.map(|ascii| format!(", write `{ascii}`")).unwrap_or_default()
}

/// A host as requests name it: a lower-case ASCII name without a trailing dot, or an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// A DNS name, not yet resolved.
    Name(HostName),
    /// An IPv4 or IPv6 address.
    Ip(IpAddr),
}

/// A DNS name in canonical form; made only by parsing a [`Host`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

impl HostName {
    /// The name in canonical form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Host {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        if text.is_empty() {
            return Err(HostError::Empty);
        }
        if text.starts_with('[') || text.matches(':').count() > 1 {
            return parse_ipv6(text).map(|address| Self::Ip(address.into()));
        }
        if !text.is_ascii() {
            return Err(not_ascii_error(text));
        }
        let lower = text.to_ascii_lowercase();
        if is_numeric(&lower) {
            let address = lower.parse::<Ipv4Addr>();
            return address
                .map(|a| Self::Ip(a.into()))
                .map_err(|_| HostError::Numeric(lower));
        }
        canonical_name(&lower).map(|name| Self::Name(HostName(name)))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(&name.0),
            Self::Ip(address) => write!(f, "{address}"),
        }
    }
}

fn not_ascii_error(text: &str) -> HostError {
    let ascii = idna::domain_to_ascii_strict(text)
        .ok()
        .filter(|ascii| ascii.parse::<Host>().is_ok());
    HostError::NotAscii {
        text: text.to_owned(),
        ascii,
    }
}

/// Whether the last label could be read as a number, as browsers and `inet_aton` do.
fn is_numeric(text: &str) -> bool {
    let trimmed = text.strip_suffix('.').unwrap_or(text);
    let last = trimmed.rsplit('.').next().unwrap_or(trimmed);
    let hex = |digits: &str| digits.bytes().all(|b| b.is_ascii_hexdigit());
    let decimal = !last.is_empty() && last.bytes().all(|b| b.is_ascii_digit());
    decimal || last.strip_prefix("0x").is_some_and(hex)
}

fn parse_ipv6(text: &str) -> Result<Ipv6Addr, HostError> {
    let bad = || HostError::Ipv6(text.escape_debug().to_string());
    let inner = match text.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').ok_or_else(bad)?,
        None => text,
    };
    let address: Ipv6Addr = inner.parse().map_err(|_| bad())?;
    match embedded_ipv4(address) {
        Some(v4) => Err(HostError::Embedded(address, v4)),
        None => Ok(address),
    }
}

/// The IPv4 address in a mapped (`::ffff:a.b.c.d`) or compatible (`::a.b.c.d`) IPv6 address.
pub(crate) fn embedded_ipv4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let low = address.to_bits();
    match low >> 32 {
        0xffff => address.to_ipv4_mapped(),
        0 if low > 1 => Some(Ipv4Addr::from_bits(u32::try_from(low).ok()?)),
        _ => None,
    }
}

/// Checks a lower-case ASCII name and strips one trailing dot.
fn canonical_name(lower: &str) -> Result<String, HostError> {
    let plain = lower.strip_suffix('.').unwrap_or(lower);
    if let Some(c) = plain
        .chars()
        .find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '-' | '_' | '.'))
    {
        return Err(HostError::Character(c));
    }
    if plain.len() > 253 {
        return Err(HostError::TooLong);
    }
    for label in plain.split('.') {
        if label.is_empty() {
            return Err(HostError::EmptyLabel(lower.to_owned()));
        }
        if label.len() > 63 {
            return Err(HostError::TooLong);
        }
        if label.starts_with('-') || label.ends_with('-') {
            return Err(HostError::Hyphen(lower.to_owned()));
        }
        if label.starts_with("xn--") && !is_valid_punycode(label) {
            return Err(HostError::Punycode(lower.to_owned()));
        }
    }
    Ok(plain.to_owned())
}

/// Whether decoding and encoding a label gives the same label.
fn is_valid_punycode(label: &str) -> bool {
    let (unicode, result) = idna::domain_to_unicode(label);
    result.is_ok() && !unicode.is_ascii() && idna::domain_to_ascii_strict(&unicode).is_ok_and(|ascii| ascii == label)
}

/// A pattern over hosts: a name, an address, or a name with `*` and `**` as whole labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPattern {
    text: String,
    kind: HostPatternKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostPatternKind {
    Ip(IpAddr),
    Labels(Segments),
}

impl HostPattern {
    /// The pattern in canonical form.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the pattern matches this host.
    pub fn matches(&self, host: &Host) -> bool {
        match (&self.kind, host) {
            (HostPatternKind::Ip(mine), Host::Ip(theirs)) => mine == theirs,
            (HostPatternKind::Labels(labels), Host::Name(name)) => labels.covers(&Segments::literal(name.0.split('.'))),
            (HostPatternKind::Ip(_), Host::Name(_)) | (HostPatternKind::Labels(_), Host::Ip(_)) => false,
        }
    }

    /// Whether this pattern matches every host that `other` matches.
    pub fn contains(&self, other: &Self) -> bool {
        match (&self.kind, &other.kind) {
            (HostPatternKind::Ip(mine), HostPatternKind::Ip(theirs)) => mine == theirs,
            (HostPatternKind::Labels(mine), HostPatternKind::Labels(theirs)) => mine.covers(theirs),
            (HostPatternKind::Ip(_), HostPatternKind::Labels(_))
            | (HostPatternKind::Labels(_), HostPatternKind::Ip(_)) => false,
        }
    }
}

impl FromStr for HostPattern {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        if !text.contains('*') {
            let ascii = if text.is_ascii() {
                None
            } else {
                Some(idna::domain_to_ascii_strict(text).map_err(|_| not_ascii_error(text))?)
            };
            let host: Host = ascii.as_deref().unwrap_or(text).parse()?;
            let kind = match &host {
                Host::Ip(address) => HostPatternKind::Ip(*address),
                Host::Name(name) => HostPatternKind::Labels(Segments::literal(name.0.split('.'))),
            };
            return Ok(Self {
                text: host.to_string(),
                kind,
            });
        }
        parse_wildcard(text)
    }
}

fn parse_wildcard(text: &str) -> Result<HostPattern, HostError> {
    let mut parts = Vec::new();
    let mut labels = Vec::new();
    let mut fixed = Vec::new();
    for label in text.strip_suffix('.').unwrap_or(text).split('.') {
        let part = match label {
            "*" => PatternPart::any(),
            "**" => PatternPart::Many,
            label if label.contains('*') => return Err(HostError::Wildcard(text.to_owned())),
            label => {
                let literal = HostPattern::from_str(label);
                // A single numeric label is valid inside a name: the whole host is checked below.
                let literal = match literal {
                    Err(HostError::Numeric(digits)) => canonical_name(&digits)?,
                    other => other?.text,
                };
                let part = Segments::literal(std::iter::once(literal.as_str()));
                fixed.push(literal.clone());
                labels.push(literal);
                parts.extend(part.parts().iter().cloned());
                continue;
            }
        };
        parts.push(part);
        labels.push(label.to_owned());
        // Only the labels right of the last wildcard determine the owner of the names.
        fixed.clear();
    }
    let base = fixed.join(".");
    if is_numeric(&base) {
        return Err(HostError::Numeric(text.to_owned()));
    }
    let owned = psl::domain_str(&base).is_some();
    if !owned {
        let suffix = if base.is_empty() {
            "a public suffix".to_owned()
        } else {
            base
        };
        return Err(HostError::TooWide(text.to_owned(), suffix));
    }
    if labels.join(".").len() > 253 {
        return Err(HostError::TooLong);
    }
    Ok(HostPattern {
        text: labels.join("."),
        kind: HostPatternKind::Labels(Segments::new(at_least_one(parts))),
    })
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

text_type!(
    HostPattern,
    "A host: a name, an address, or a name with `*` as one whole label and `**` as one or more."
);

#[cfg(test)]
mod tests;
