//! E-mail addresses and URLs.

use super::Scan;
use crate::finding::Evidence;
use crate::kind::SensitiveKind;

/// Most bytes of a local part and of a domain.
const MAX_LOCAL_BYTES: usize = 64;
const MAX_DOMAIN_BYTES: usize = 255;
/// Most bytes of a URL; the rest is text again.
const MAX_URL_BYTES: usize = 4096;

/// Endings of files rather than domains: `icon@2x.png` is not an address.
const FILE_EXTENSIONS: [&str; 16] = [
    "png", "jpg", "jpeg", "gif", "svg", "webp", "css", "js", "mjs", "ts", "tsx", "jsx", "json", "html", "map", "md",
];

/// Scans an e-mail address around an `@`.
pub(super) fn scan_email(scan: &mut Scan<'_>, at: usize) -> usize {
    let start = local_start(scan, at);
    let end = domain_end(scan, at + 1);
    if start == at || end == at + 1 {
        return at + 1;
    }
    let remote =
        scan.byte_at(end) == b':' && scan.byte_at(end + 1).is_ascii_alphanumeric() && &scan.text[start..at] == "git";
    if remote {
        return end;
    }
    scan.add_finding(start, end, SensitiveKind::Email)
}

fn local_start(scan: &Scan<'_>, at: usize) -> usize {
    let lowest = scan.floor.max(at.saturating_sub(MAX_LOCAL_BYTES));
    let mut start = at;
    while start > lowest && is_local_byte(scan.bytes[start - 1]) {
        start -= 1;
    }
    while start < at && (!scan.text.is_char_boundary(start) || matches!(scan.bytes[start], b'.' | b'\'' | b'-')) {
        start += 1;
    }
    // Quotes, dashes and spaces beyond ASCII are not part of a name.
    let cut = scan.text[start..at]
        .char_indices()
        .rfind(|(_, letter)| !letter.is_ascii() && !letter.is_alphanumeric());
    cut.map_or(start, |(index, letter)| start + index + letter.len_utf8())
}

fn is_local_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || byte >= 0x80
        || matches!(
            byte,
            b'.' | b'_' | b'%' | b'+' | b'-' | b'\'' | b'&' | b'~' | b'!' | b'#' | b'$' | b'*'
        )
}

/// Returns where the domain after an `@` ends, or its start if it is invalid.
fn domain_end(scan: &Scan<'_>, from: usize) -> usize {
    let rest = &scan.bytes[from..scan.bytes.len().min(from + MAX_DOMAIN_BYTES)];
    let length = rest
        .iter()
        .position(|byte| !(byte.is_ascii_alphanumeric() || *byte >= 0x80 || matches!(byte, b'.' | b'-')))
        .unwrap_or(rest.len());
    let mut end = from + length;
    while !scan.text.is_char_boundary(end) {
        end -= 1;
    }
    let domain = &scan.text[from..end];
    let file = |name: &str| FILE_EXTENSIONS.iter().any(|file| name.eq_ignore_ascii_case(file));
    if from < scan.page && domain.rsplit('.').next().is_some_and(file) {
        return from;
    }
    let stray = domain.find(|letter: char| !letter.is_ascii() && !letter.is_alphanumeric());
    let domain = &domain[..stray.unwrap_or(domain.len())];
    let mut domain = domain.trim_end_matches(['.', '-']);
    // `a@example.com..` and a sentence that continues without a space (`a@example.com.Then`) end at the last valid
    // label.
    while let Some((rest, last)) = domain.rsplit_once('.') {
        let known = is_top_level(last) && rest.split('.').all(is_label);
        if known {
            return from + domain.len();
        }
        domain = rest.trim_end_matches('.');
    }
    from
}

fn is_label(label: &str) -> bool {
    !label.is_empty() && !label.starts_with('-') && !label.ends_with('-')
}

fn is_top_level(label: &str) -> bool {
    let letters = label.chars().all(char::is_alphabetic) && label.chars().count() >= 2 && label.len() <= 24;
    let encoded = label.len() > 4 && label.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("xn--"));
    (letters || encoded) && !FILE_EXTENSIONS.iter().any(|file| label.eq_ignore_ascii_case(file))
}

const SCHEMES: [&str; 6] = ["https", "http", "ftp", "ftps", "wss", "ws"];

/// Scans a URL around the `:` of its `://`.
pub(super) fn scan_url(scan: &mut Scan<'_>, at: usize) -> usize {
    let from = at + 3;
    let lowest = scan.floor.max(at.saturating_sub(5));
    let mut start = at;
    while start > lowest && scan.bytes[start - 1].is_ascii_alphabetic() {
        start -= 1;
    }
    let scheme = &scan.bytes[start..at];
    let known = SCHEMES.iter().any(|one| scheme.eq_ignore_ascii_case(one.as_bytes()));
    if !known || scan.byte_before(start).is_ascii_alphanumeric() {
        return from;
    }
    let end = url_end(scan, from);
    if end == from
        || !scan.byte_at(from).is_ascii_alphanumeric()
            && !matches!(scan.byte_at(from), b'[')
            && scan.byte_at(from) < 0x80
    {
        return from;
    }
    if scan.kinds.contains(SensitiveKind::Url) {
        scan.add_finding(start, end, SensitiveKind::Url)
    } else {
        end
    }
}

/// Scans the login before the host of a URL: its password is a secret. Returns where the host begins.
pub(super) fn login_at(scan: &mut Scan<'_>, from: usize) -> usize {
    let rest = &scan.bytes[from..scan.bytes.len().min(from + MAX_DOMAIN_BYTES)];
    let ends = |byte: &u8| {
        byte.is_ascii_whitespace() || matches!(byte, b'/' | b'?' | b'#' | b'"' | b'\'' | b'`' | b'<' | b'>')
    };
    let length = rest.iter().position(ends).unwrap_or(rest.len());
    let Some(at) = rest[..length].iter().rposition(|byte| *byte == b'@') else {
        return from;
    };
    if let Some(colon) = rest[..at].iter().position(|byte| *byte == b':') {
        let password = &rest[colon + 1..at];
        let shown = password.is_empty() || matches!(password[0], b'$' | b'{' | b'<' | b'*' | b'%');
        if !shown {
            scan.add_finding_by(from + colon + 1, from + at, SensitiveKind::Secret, Evidence::Form);
        }
    }
    // The text before the host is not an e-mail address.
    scan.floor = scan.floor.max(from + at + 1);
    from + at + 1
}

fn url_end(scan: &Scan<'_>, from: usize) -> usize {
    let mut most = scan.text.len().min(from + MAX_URL_BYTES);
    while !scan.text.is_char_boundary(most) {
        most -= 1;
    }
    let rest = &scan.text[from..most];
    let stop = |letter: char| {
        letter.is_whitespace()
            || letter.is_control()
            || matches!(
                letter,
                '<' | '>' | '"' | '`' | '{' | '}' | '|' | '\\' | '^' | '‹' | '›' | '«' | '»' | '“' | '”'
            )
    };
    let mut page = &rest[..rest.find(stop).unwrap_or(rest.len())];
    loop {
        let Some(last) = page.chars().next_back() else {
            return from;
        };
        let closes = match last {
            ')' => page.matches('(').count() < page.matches(')').count(),
            ']' => page.matches('[').count() < page.matches(']').count(),
            '.' | ',' | ';' | ':' | '!' | '?' | '\'' | '*' | '’' | '…' => true,
            _ => false,
        };
        if !closes {
            return from + page.len();
        }
        page = &page[..page.len() - last.len_utf8()];
    }
}
