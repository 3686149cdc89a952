//! International bank account numbers: the country's length and the remainder modulo 97.

use super::Scan;
use super::checksums::mod97;
use super::number::is_word_byte;
use crate::kind::SensitiveKind;

/// Countries in order, each with the length of its numbers.
const COUNTRY_LENGTHS: &[u8] =
    b"AD24AE23AL28AT20AZ28BA20BE16BG22BH22BI27BR29BY28CH21CR22CY28CZ24DE22DJ27DK18DO28EE20EG29ES24FI18FK18FO18FR27\
    GB22GE22GI23GL18GR27GT28HN28HR21HU28IE22IL23IQ23IS26IT27JO30KW30KZ20LB28LC32LI21LT20LU20LV21LY25MC27MD24ME22\
    MK19MN20MR27MT31MU30NI28NL18NO15OM23PK24PL28PS29PT25QA29RO24RS22RU33SA24SC31SD18SE24SI19SK24SM27SO23ST25SV28\
    TL23TN24TR26UA29VA22VG24XK20YE30";

/// Finds a number whose two check digits begin here.
pub(super) fn iban_end(scan: &mut Scan<'_>, at: usize) -> Option<usize> {
    let start = at.checked_sub(2)?;
    let country = [
        scan.bytes[start].to_ascii_uppercase(),
        scan.bytes[start + 1].to_ascii_uppercase(),
    ];
    if start < scan.floor || is_word_byte(scan.byte_before(start)) || !scan.byte_at(at + 1).is_ascii_digit() {
        return None;
    }
    let length = country_length(country)?;
    let mut letters = [0; 34];
    let mut count = 0;
    let mut end = start;
    let mut last = start;
    while count < length {
        let byte = scan.byte_at(end);
        if byte.is_ascii_alphanumeric() && end < scan.bytes.len() {
            letters[count] = byte.to_ascii_uppercase();
            count += 1;
            end += 1;
            last = end;
            continue;
        }
        let gap = separator_length(scan, end);
        if gap == 0 || end != last {
            return None;
        }
        end += gap;
    }
    if is_word_byte(scan.byte_at(last)) || !mod97(&letters[..length]) {
        return None;
    }
    Some(scan.add_finding(start, last, SensitiveKind::Iban))
}

/// Returns the length of the number that a group of letters and digits begins, if it can begin one.
pub(crate) fn begun_iban_length(group: &str) -> Option<usize> {
    let (country, rest) = group.as_bytes().split_first_chunk::<2>()?;
    let checked = rest.len() >= 2 && rest[..2].iter().all(u8::is_ascii_digit);
    country_length(country.map(|letter| letter.to_ascii_uppercase())).filter(|_| checked)
}

/// Returns the length of a country's numbers.
fn country_length(country: [u8; 2]) -> Option<usize> {
    let known = COUNTRY_LENGTHS.chunks_exact(4).find(|known| known[..2] == country)?;
    Some(usize::from(known[2] - b'0') * 10 + usize::from(known[3] - b'0'))
}

/// Returns the length of a space or dash of any kind.
fn separator_length(scan: &Scan<'_>, at: usize) -> usize {
    match (scan.byte_at(at), scan.byte_at(at + 1), scan.byte_at(at + 2)) {
        _ if at >= scan.bytes.len() => 0,
        (b' ' | b'-' | b'.', _, _) => 1,
        (0xC2, 0xA0, _) => 2,
        (0xE2, 0x80, 0x80..=0x8A | 0x90..=0x95 | 0xAF) => 3,
        _ => 0,
    }
}
