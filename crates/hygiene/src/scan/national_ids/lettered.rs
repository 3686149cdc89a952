//! National numbers that contain letters.

use super::{is_chinese_id, is_end};
use crate::kind::SensitiveKind;
use crate::scan::Scan;
use crate::scan::checksums::{digits_value, is_day};
use crate::scan::number::{DigitRun, Digits, Separator, is_word_byte};

/// Most bytes of such a number.
const MAX_ID_BYTES: usize = 18;

/// Finds a number that begins with letters and has its first digit here.
pub(in crate::scan) fn scan_lettered_id(scan: &mut Scan<'_>, at: usize) -> Option<usize> {
    let lowest = scan.floor.max(at.saturating_sub(8));
    let mut start = at;
    while start > lowest && scan.bytes[start - 1].is_ascii_alphabetic() {
        start -= 1;
    }
    if is_word_byte(scan.byte_before(start)) || at - start > 6 {
        return None;
    }
    let mut token = [0; MAX_ID_BYTES + 1];
    let mut length = 0;
    while length <= MAX_ID_BYTES
        && scan.byte_at(start + length).is_ascii_alphanumeric()
        && start + length < scan.bytes.len()
    {
        token[length] = scan.bytes[start + length].to_ascii_uppercase();
        length += 1;
    }
    let end = start + length;
    if scan.byte_at(end) == b'('
        && is_hong_kong_id(&token[..length], scan.byte_at(end + 1))
        && scan.byte_at(end + 2) == b')'
    {
        return Some(scan.add_finding(start, end + 3, SensitiveKind::NationalId));
    }
    let token = token
        .get(..length)
        .filter(|_| length <= MAX_ID_BYTES && is_end(scan, end))?;
    let good = match (at - start, length) {
        (1, 9) => is_spanish_foreigner_id(token) || is_singapore_id(token),
        (2, 9) => is_british_insurance_id(token),
        (5, 10) => is_indian_tax_id(token),
        (6, 16) => is_italian_id(token),
        (4, 18) => is_mexican_id(token),
        _ => false,
    };
    good.then(|| scan.add_finding(start, end, SensitiveKind::NationalId))
}

/// Finds a number that begins with digits and whose last group ends with letters. Returns its range.
pub(in crate::scan) fn trailing_letter_id(
    scan: &Scan<'_>,
    run: &DigitRun,
    last: usize,
) -> Option<(usize, usize, SensitiveKind)> {
    let end = run.end(last);
    let letters = scan.bytes[end..]
        .iter()
        .take(3)
        .take_while(|byte| byte.is_ascii_alphabetic())
        .count();
    let letter = scan.byte_at(end).to_ascii_uppercase();
    if !matches!(letters, 1 | 2) || !is_end(scan, end + letters) {
        // Finnish numbers of this century have a letter between date and number.
        return new_finnish_id(scan, run, last);
    }
    let group = |back: usize| {
        last.checked_sub(back)
            .filter(|group| !is_word_byte(scan.byte_before(run.start(*group))))
    };
    let first = group(0)?;
    let digits = run.digits(scan, last, last + 1)?;
    let digits = digits.get();
    let spanish = letters == 1 && digits.len() == 8 && spanish_check_letter(digits_value(digits)) == letter;
    let irish = digits.len() == 7 && irish_check_letter(digits, scan.byte_at(end + 1), letters) == letter;
    let chinese = letters == 1 && letter == b'X' && digits.len() == 17 && is_chinese_id(digits, 10);
    if spanish || irish || chinese {
        return Some((run.start(first), end + letters, SensitiveKind::NationalId));
    }
    if letters == 1
        && digits.len() == 3
        && last > 0
        && run.group_size(last - 1) == 6
        && run.separator_before(last) == Separator::Dash
    {
        let whole = run.digits(scan, last - 1, last + 1)?;
        return is_finnish_id(whole.get(), letter).then(|| (run.start(last - 1), end + 1, SensitiveKind::NationalId));
    }
    None
}

/// Finds numbers of the form `010203A123X`.
fn new_finnish_id(scan: &Scan<'_>, run: &DigitRun, last: usize) -> Option<(usize, usize, SensitiveKind)> {
    let (start, end) = (run.start(last), run.end(last));
    let tail = scan.bytes.get(end..end + 5)?;
    let shaped = run.group_size(last) == 6
        && matches!(tail[0], b'A'..=b'F' | b'U'..=b'Y')
        && tail[1..4].iter().all(u8::is_ascii_digit);
    if !shaped || !is_end(scan, end + 5) || is_word_byte(scan.byte_before(start)) {
        return None;
    }
    let digits = Digits::from_text(&scan.bytes[start..end + 4])?;
    is_finnish_id(digits.get(), tail[4].to_ascii_uppercase()).then_some((start, end + 5, SensitiveKind::NationalId))
}

fn parse_digits(token: &[u8]) -> Option<Digits> {
    token
        .iter()
        .all(u8::is_ascii_digit)
        .then(|| Digits::from_text(token))
        .flatten()
}

fn spanish_check_letter(number: u64) -> u8 {
    b"TRWAGMYFPDXBNJZSQVHLCKE"[usize::try_from(number % 23).unwrap_or(0)]
}

/// Numbers of foreigners in Spain: `X`, `Y` or `Z` replaces the first digit.
fn is_spanish_foreigner_id(token: &[u8]) -> bool {
    let first = match token[0] {
        b'X' => 0,
        b'Y' => 1,
        b'Z' => 2,
        _ => return false,
    };
    parse_digits(&token[1..8])
        .is_some_and(|digits| spanish_check_letter(first * 10_000_000 + digits_value(digits.get())) == token[8])
}

fn is_singapore_id(token: &[u8]) -> bool {
    let Some(digits) = parse_digits(&token[1..8]) else {
        return false;
    };
    let sum = crate::scan::checksums::weighted_sum(digits.get(), &[2, 7, 6, 5, 4, 3, 2]);
    let (offset, letters) = match token[0] {
        b'S' => (0, b"JZIHGFEDCBA"),
        b'T' => (4, b"JZIHGFEDCBA"),
        b'F' => (0, b"XWUTRQPNMLK"),
        b'G' => (4, b"XWUTRQPNMLK"),
        b'M' => (3, b"KLJNPQRTUWX"),
        _ => return false,
    };
    let rest = usize::try_from((sum + offset) % 11).unwrap_or(0);
    let rest = if token[0] == b'M' { 10 - rest } else { rest };
    letters[rest] == token[8]
}

/// National insurance numbers of the United Kingdom: without checksum, but some letters are never assigned.
fn is_british_insurance_id(token: &[u8]) -> bool {
    let never = [b"BG", b"GB", b"KN", b"NK", b"NT", b"TN", b"ZZ"];
    token[2..8].iter().all(u8::is_ascii_digit)
        && matches!(token[8], b'A'..=b'D')
        && !matches!(token[0], b'D' | b'F' | b'I' | b'Q' | b'U' | b'V')
        && !matches!(token[1], b'D' | b'F' | b'I' | b'O' | b'Q' | b'U' | b'V')
        && !never.iter().any(|pair| token[..2] == **pair)
}

/// Tax numbers of India: the fourth letter states the type of holder.
fn is_indian_tax_id(token: &[u8]) -> bool {
    token[..5].iter().all(u8::is_ascii_uppercase)
        && matches!(
            token[3],
            b'P' | b'C' | b'H' | b'F' | b'A' | b'T' | b'B' | b'L' | b'J' | b'G'
        )
        && token[5..9].iter().all(u8::is_ascii_digit)
        && token[9].is_ascii_uppercase()
}

fn is_italian_id(token: &[u8]) -> bool {
    const ODD: [u8; 26] = [
        1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23,
    ];
    let shaped =
        token[6..8].iter().all(u8::is_ascii_digit) && token[8].is_ascii_uppercase() && token[15].is_ascii_uppercase();
    if !shaped || !matches!(token[8], b'A'..=b'E' | b'H' | b'L' | b'M' | b'P' | b'R'..=b'T') {
        return false;
    }
    let place = |byte: u8| {
        if byte.is_ascii_digit() {
            byte - b'0'
        } else {
            byte - b'A'
        }
    };
    let worth = |(index, byte): (usize, &u8)| match index % 2 {
        0 => u32::from(ODD[usize::from(place(*byte))]),
        _ => u32::from(place(*byte)),
    };
    let sum: u32 = token[..15].iter().enumerate().map(worth).sum();
    sum % 26 == u32::from(token[15] - b'A')
}

fn is_mexican_id(token: &[u8]) -> bool {
    const LETTERS: &[u8] = "0123456789ABCDEFGHIJKLMN_OPQRSTUVWXYZ".as_bytes();
    let Some(born) = parse_digits(&token[4..10]) else {
        return false;
    };
    let sexed = matches!(token[10], b'H' | b'M' | b'X');
    if !sexed
        || !is_day(digits_value(&born.get()[2..4]), digits_value(&born.get()[4..6]))
        || !token[17].is_ascii_digit()
    {
        return false;
    }
    let worth = |(index, byte): (usize, &u8)| {
        let value = LETTERS.iter().position(|letter| letter == byte).unwrap_or(0);
        value * (18 - index)
    };
    let sum: usize = token[..17].iter().enumerate().map(worth).sum();
    (10 - sum % 10) % 10 == usize::from(token[17] - b'0')
}

fn is_hong_kong_id(token: &[u8], check: u8) -> bool {
    let (letters, digits) = match token.len() {
        7 => (&token[..1], &token[1..]),
        8 => (&token[..2], &token[2..]),
        _ => return false,
    };
    let Some(digits) = parse_digits(digits).filter(|_| letters.iter().all(u8::is_ascii_uppercase)) else {
        return false;
    };
    let value = |letter: u8| u32::from(letter - b'A') + 10;
    let head = match letters {
        [one] => 36 * 9 + value(*one) * 8,
        [one, two] => value(*one) * 9 + value(*two) * 8,
        _ => return false,
    };
    let sum = head + crate::scan::checksums::weighted_sum(digits.get(), &[7, 6, 5, 4, 3, 2]);
    let wanted = match check.to_ascii_uppercase() {
        b'A' => 10,
        digit @ b'0'..=b'9' => u32::from(digit - b'0'),
        _ => return false,
    };
    (sum + wanted).is_multiple_of(11)
}

fn is_finnish_id(digits: &[u8], letter: u8) -> bool {
    const LETTERS: &[u8] = b"0123456789ABCDEFHJKLMNPRSTUVWXY";
    let rest = usize::try_from(digits_value(digits) % 31).unwrap_or(0);
    digits.len() == 9 && is_day(digits_value(&digits[2..4]), digits_value(&digits[..2])) && LETTERS[rest] == letter
}

fn irish_check_letter(digits: &[u8], second: u8, letters: usize) -> u8 {
    let extra = match (letters, second.to_ascii_uppercase()) {
        (2, letter @ b'A'..=b'I') => u32::from(letter - b'A' + 1) * 9,
        (2, b'W') | (1, _) => 0,
        _ => return 0,
    };
    let rest = (crate::scan::checksums::weighted_sum(digits, &[8, 7, 6, 5, 4, 3, 2]) + extra) % 23;
    b"WABCDEFGHIJKLMNOPQRSTUV"[usize::try_from(rest).unwrap_or(0)]
}
