//! Parses the head of an HTTP/1 request strictly: input that two programs could read differently is refused, never
//! repaired.

use ringfence_policy::Host;

use super::refuse;
use crate::refusal::RequestRefusal;

/// Most bytes of a head.
pub(super) const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Most lines of a head.
pub(super) const MAX_HEAD_LINES: usize = 128;

/// How the end of a request body is determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyFraming {
    None,
    Length(u64),
    Chunked,
}

/// The parts of a head that say where it goes and where it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestHead {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) host: Option<String>,
    pub(super) framing: BodyFraming,
    /// The request asks for another protocol: the guard does not frame what follows.
    pub(super) upgrade: bool,
}

/// Returns where the head ends in `bytes`, its empty line included.
pub(super) fn find_end(bytes: &[u8], from: usize) -> Option<usize> {
    let from = from.saturating_sub(3);
    let found = bytes.get(from..)?.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some(from + found + 4)
}

/// Parses a whole head, its empty line included.
pub(super) fn parse_head(bytes: &[u8]) -> Result<RequestHead, RequestRefusal> {
    let bad = |message: &str| refuse::protocol(format!("the request cannot be read in one way only: {message}"));
    let text = bytes
        .strip_suffix(b"\r\n\r\n")
        .ok_or_else(|| bad("its head has no end"))?;
    let mut lines = Vec::new();
    for line in split_lines(text) {
        if line.iter().any(|byte| matches!(byte, 0..=8 | 10..=31 | 127)) {
            return Err(bad("a control character in its head"));
        }
        lines.push(line);
    }
    if lines.len() > MAX_HEAD_LINES {
        return Err(bad("too many lines in its head"));
    }
    let (first, fields) = lines.split_first().ok_or_else(|| bad("its head is empty"))?;
    let (method, target, version) = parse_request_line(first).ok_or_else(|| bad("its first line"))?;
    let mut fields_read = HeadFields::default();
    for field in fields {
        fields_read.parse_line(field).map_err(bad)?;
    }
    let framing = match (fields_read.length, fields_read.chunked) {
        (Some(_), true) => return Err(bad("both a length and a transfer coding")),
        (None, true) if version == HttpVersion::Http10 => return Err(bad("a transfer coding in HTTP/1.0")),
        (None, true) => BodyFraming::Chunked,
        (Some(length), false) => BodyFraming::Length(length),
        (None, false) => BodyFraming::None,
    };
    if fields_read.host.is_none() && version == HttpVersion::Http11 {
        return Err(bad("it has no `Host`"));
    }
    Ok(RequestHead {
        method,
        target,
        host: fields_read.host,
        framing,
        upgrade: fields_read.upgrade && fields_read.connection_upgrade,
    })
}

/// Checks that a target is a URL; the refusal names the host if that is invalid.
pub(super) fn check_target(target: &str) -> Result<(), RequestRefusal> {
    if target.parse::<http::Uri>().is_ok() {
        return Ok(());
    }
    let place = target.split_once("://").map(|(_, rest)| rest);
    let place = place.and_then(|rest| rest.split(['/', '?', '#']).next());
    place.map_or(Ok(()), |place| parse_authority(place).map(drop))?;
    Err(refuse::protocol("the URL of the request is none"))
}

/// Splits at CRLF; a lone CR or LF stays in its line, where it is refused.
fn split_lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        match text.windows(2).position(|two| two == b"\r\n") {
            Some(end) => {
                rest = Some(&text[end + 2..]);
                Some(&text[..end])
            }
            None => rest.take(),
        }
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum HttpVersion {
    Http10,
    Http11,
}

fn parse_request_line(line: &[u8]) -> Option<(String, String, HttpVersion)> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let version = match version {
        "HTTP/1.1" => HttpVersion::Http11,
        "HTTP/1.0" => HttpVersion::Http10,
        _ => return None,
    };
    let named = !method.is_empty()
        && method.len() <= 24
        && method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
    let visible = !target.is_empty() && target.bytes().all(|byte| byte.is_ascii_graphic());
    (named && visible && words.next().is_none()).then(|| (method.to_owned(), target.to_owned(), version))
}

#[derive(Default)]
struct HeadFields {
    host: Option<String>,
    length: Option<u64>,
    chunked: bool,
    upgrade: bool,
    connection_upgrade: bool,
}

impl HeadFields {
    fn parse_line(&mut self, line: &[u8]) -> Result<(), &'static str> {
        if line.first().is_some_and(|byte| matches!(byte, b' ' | b'\t')) {
            return Err("a folded line in its head");
        }
        let colon = line
            .iter()
            .position(|byte| *byte == b':')
            .ok_or("a line without a name in its head")?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) {
            return Err("a name in its head that is none");
        }
        match name.to_ascii_lowercase().as_slice() {
            b"host" => {
                let host = std::str::from_utf8(value).map_err(|_| "a `Host` that is none")?;
                if self.host.replace(host.to_owned()).is_some() {
                    return Err("two `Host` lines");
                }
            }
            b"content-length" => {
                let digits = !value.is_empty() && value.len() <= 18 && value.iter().all(u8::is_ascii_digit);
                let length = std::str::from_utf8(value).ok().filter(|_| digits);
                let length = length
                    .and_then(|length| length.parse().ok())
                    .ok_or("a length that is none")?;
                if self.length.replace(length).is_some() {
                    return Err("two lengths");
                }
            }
            b"transfer-encoding" => {
                if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                    return Err("a transfer coding other than one `chunked`");
                }
                self.chunked = true;
            }
            b"upgrade" => self.upgrade = true,
            b"connection" => {
                let words = value.split(|byte| *byte == b',');
                self.connection_upgrade |= words
                    .into_iter()
                    .any(|word| word.trim_ascii().eq_ignore_ascii_case(b"upgrade"));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Whether a byte may be part of a header name.
pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Parses a host and a port, as `Host`, `:authority` and CONNECT write them. A name with a user or without a host is
/// refused.
pub(super) fn parse_authority(text: &str) -> Result<(Host, Option<u16>), RequestRefusal> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    };
    if host.contains(':') && !host.starts_with('[') {
        return Err(refuse::protocol(
            "an IPv6 address stands in brackets where a port may follow",
        ));
    }
    let host = host.parse().map_err(|error| refuse::host(&error))?;
    let port = match port {
        None => None,
        Some(port) => {
            let digits = !port.is_empty() && port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
            let number = port.parse().ok().filter(|number: &u16| digits && *number != 0);
            Some(number.ok_or_else(|| refuse::protocol("the port is no number from 1 to 65535"))?)
        }
    };
    Ok((host, port))
}

#[cfg(test)]
mod tests;
