//! Machine addresses: IPv4 among numbers, IPv6 and MAC addresses around a `:` or `-`.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::Scan;
use super::number::DigitRun;
use crate::kind::SensitiveKind;

/// Finds four numbers with dots. Addresses of no specific machine (loopback, unspecified, masks) are left alone.
pub(super) fn ipv4_end(scan: &Scan<'_>, run: &DigitRun, from: usize) -> Option<usize> {
    let to = from + 4;
    if run.count() < to || run.count() > to && run.separator_before(to) == super::number::Separator::Dot {
        return None;
    }
    let dotted = (from + 1..to).all(|index| run.separator_before(index) == super::number::Separator::Dot);
    if !dotted || from > 0 && run.separator_before(from) == super::number::Separator::Dot {
        return None;
    }
    let address: Ipv4Addr = scan.text.get(run.start(from)..run.end(to - 1))?.parse().ok()?;
    let start = run.start(from);
    // `Chrome/120.0.0.0` is a version.
    let product = scan.byte_before(start) == b'/' && start >= 2 && scan.byte_at(start - 2).is_ascii_alphabetic();
    let octets = address.octets();
    let version = product && octets[2..] == [0, 0];
    let nobody = address.is_loopback() || address.is_unspecified() || octets[0] == 255 || version;
    (!nobody).then_some(to)
}

/// Whether a byte may be part of an IPv6 address.
fn is_ipv6_byte(byte: u8) -> bool {
    byte.is_ascii_hexdigit() || byte == b':'
}

/// Scans an IPv6 or MAC address around a `:`. `Some` says how far the text is done.
pub(super) fn scan_hex(scan: &mut Scan<'_>, at: usize) -> Option<usize> {
    let mut start = at;
    while start > 0 && at - start < 4 && scan.bytes[start - 1].is_ascii_hexdigit() {
        start -= 1;
    }
    let before = scan.byte_before(start);
    if before.is_ascii_alphanumeric() || before == b'_' {
        return None;
    }
    let rest = &scan.bytes[at..scan.bytes.len().min(at + 48)];
    let length = rest.iter().position(|byte| !is_ipv6_byte(*byte)).unwrap_or(rest.len());
    let mut end = at + length;
    if length < 3 {
        return None;
    }
    // The last numbers may be written as IPv4.
    if scan.byte_at(end) == b'.' && scan.byte_before(end).is_ascii_digit() {
        let tail = &scan.bytes[end..scan.bytes.len().min(end + 12)];
        let more = tail.iter().position(|byte| !(byte.is_ascii_digit() || *byte == b'.'));
        let whole = end + more.unwrap_or(tail.len());
        if scan.text[start..whole]
            .trim_end_matches('.')
            .parse::<Ipv6Addr>()
            .is_ok()
        {
            end = whole;
        }
    }
    while end > at && matches!(scan.bytes[end - 1], b'.')
        || scan.text[start..end].ends_with(':') && !scan.text[start..end].ends_with("::")
    {
        end -= 1;
    }
    let after = scan.byte_at(end);
    if after.is_ascii_alphanumeric() || after == b'_' {
        return None;
    }
    let written = &scan.text[start..end];
    if is_mac(written.as_bytes(), b':') {
        return Some(scan.add_finding(start, end, SensitiveKind::Mac));
    }
    let address: Ipv6Addr = written.parse().ok()?;
    // `::` alone is a path in many languages, and `a::b` a name.
    let telling = written.bytes().filter(u8::is_ascii_digit).count() >= 1 && written.len() >= 6;
    let nobody = address.is_loopback() || address.is_unspecified();
    (telling && !nobody).then(|| scan.add_finding(start, end, SensitiveKind::Ip))
}

/// Finds six pairs with dashes, or three groups of four with dots, at a digit.
pub(super) fn mac_span(scan: &Scan<'_>, token: usize) -> Option<(usize, usize)> {
    let mut start = token;
    while start > 0
        && token - start < 16
        && (scan.bytes[start - 1].is_ascii_hexdigit() || matches!(scan.bytes[start - 1], b'-'))
    {
        start -= 1;
    }
    let free = |at: usize| {
        let byte = scan.byte_at(at);
        !byte.is_ascii_alphanumeric() && byte != b'-' && byte != b'_'
    };
    let dashes = scan.bytes.get(start..start + 17).filter(|part| is_mac(part, b'-'));
    if dashes.is_some() && free(start + 17) && !scan.byte_before(start).is_ascii_alphanumeric() {
        return Some((start, start + 17));
    }
    let dots = scan.bytes.get(token..token + 14).filter(|part| is_dotted_mac(part));
    (dots.is_some() && free(token + 14) && scan.byte_at(token + 14) != b'.').then_some((token, token + 14))
}

fn is_mac(part: &[u8], separator: u8) -> bool {
    let pairs = part.len() == 17
        && part.iter().enumerate().all(|(index, byte)| {
            if index % 3 == 2 {
                *byte == separator
            } else {
                byte.is_ascii_hexdigit()
            }
        });
    pairs
        && part
            .iter()
            .any(|byte| !matches!(byte, b'0' | b'f' | b'F') && *byte != separator)
}

fn is_dotted_mac(part: &[u8]) -> bool {
    let shape = part.iter().enumerate().all(|(index, byte)| {
        if index % 5 == 4 {
            *byte == b'.'
        } else {
            byte.is_ascii_hexdigit()
        }
    });
    shape && part.iter().any(u8::is_ascii_alphabetic)
}
