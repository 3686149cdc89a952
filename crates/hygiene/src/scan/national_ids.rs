//! National numbers of people. Numbers that rarely occur by chance (a date and a checksum, or a form of their own)
//! are found anywhere; others need a word nearby.

use super::Scan;
use super::checksums::{digits_value, is_day, luhn, mod11_10, verhoeff, weighted_sum};
use super::number::{DigitRun, Separator, is_word_byte};
use super::word_context::{self, WordContext};
use crate::kind::SensitiveKind;

/// Finds a number of digits that begins with a group. Returns the group after it, and its kind.
pub(super) fn national_id_at(
    scan: &Scan<'_>,
    run: &DigitRun,
    from: usize,
    to: usize,
    around: &mut WordContext,
) -> Option<(usize, SensitiveKind)> {
    if let Some(next) = us_ssn_end(scan, run, from, to)
        && (around.has(scan, word_context::SSN) || !word_context::numbers_a_thing(scan, run.start(from)))
    {
        return Some((next, SensitiveKind::Ssn));
    }
    if let Some(next) = grouped_id_end(scan, run, from, to) {
        return Some((next, SensitiveKind::NationalId));
    }
    let size = run.group_size(from);
    if (10..=18).contains(&size) {
        let digits = run.digits(scan, from, from + 1)?;
        if is_dated_id(digits.get()) {
            return Some((from + 1, SensitiveKind::NationalId));
        }
    }
    if !(2..=12).contains(&size) || !(8..=12).contains(&labelled_id_digits(run, from, to)) {
        return None;
    }
    if size == 9 && around.has(scan, word_context::SSN) {
        return Some((from + 1, SensitiveKind::Ssn));
    }
    if !around.has(scan, word_context::NATIONAL) {
        return None;
    }
    let next = labelled_id_end(run, from, to);
    let digits = run.digits(scan, from, next)?;
    is_labelled_id(digits.get()).then_some((next, SensitiveKind::NationalId))
}

/// Finds three, two and four digits of the United States. Areas that were never assigned are excluded.
fn us_ssn_end(scan: &Scan<'_>, run: &DigitRun, from: usize, to: usize) -> Option<usize> {
    let next = from + 3;
    if next > to
        || !run.has_sizes(from, &[3, 2, 4])
        || !matches!(
            run.common_separator(from, next),
            Some(Separator::Dash | Separator::Space)
        )
    {
        return None;
    }
    let more = run.count() > next && run.separator_before(next) == run.separator_before(from + 1)
        || from > 0 && run.separator_before(from) == run.separator_before(from + 1);
    let parts = [
        run.group_value(scan, from),
        run.group_value(scan, from + 1),
        run.group_value(scan, from + 2),
    ];
    (!more && !matches!(parts[0], 0 | 666) && parts[1] != 0 && parts[2] != 0).then_some(next)
}

/// Finds numbers by their grouping, with their checksums.
fn grouped_id_end(scan: &Scan<'_>, run: &DigitRun, from: usize, to: usize) -> Option<usize> {
    let seps = |next: usize, wanted: &[Separator]| {
        (from + 1..next)
            .zip(wanted)
            .all(|(group, sep)| run.separator_before(group) == *sep)
    };
    let good = |sizes: &[usize], wanted: &[Separator], check: fn(&[u8]) -> bool| {
        let next = from + sizes.len();
        let fits = next <= to && run.has_sizes(from, sizes) && seps(next, wanted);
        let digits = fits.then(|| run.digits(scan, from, next)).flatten();
        digits.is_some_and(|digits| check(digits.get())).then_some(next)
    };
    let (dot, dash, slash, space) = (Separator::Dot, Separator::Dash, Separator::Slash, Separator::Space);
    // Brazil, Switzerland, Belgium.
    good(&[3, 3, 3, 2], &[dot, dot, dash], is_brazilian_id)
        .or_else(|| good(&[3, 4, 4, 2], &[dot, dot, dot], is_swiss_id))
        .or_else(|| good(&[2, 2, 2, 3, 2], &[dot, dot, dash, dot], is_belgian_id))
        // Sweden, Denmark, Korea, Czechia and Slovakia.
        .or_else(|| good(&[6, 4], &[dash], |digits| is_swedish_id(digits) || is_danish_id(digits)))
        .or_else(|| good(&[8, 4], &[dash], |digits| is_swedish_id(&digits[2..])))
        .or_else(|| good(&[6, 7], &[dash], is_korean_id))
        .or_else(|| good(&[6, 4], &[slash], is_czech_id))
        // France, India, Argentina, Chile, Norway.
        .or_else(|| good(&[1, 2, 2, 2, 3, 3, 2], &[space; 6], is_french_id))
        .or_else(|| good(&[4, 4, 4], &[space; 2], is_indian_id))
        .or_else(|| good(&[2, 8, 1], &[dash; 2], is_argentine_id))
        .or_else(|| good(&[2, 3, 3, 1], &[dot, dot, dash], is_chilean_id))
        .or_else(|| good(&[1, 3, 3, 1], &[dot, dot, dash], is_chilean_id))
        .or_else(|| good(&[6, 5], &[space], is_norwegian_id))
}

/// Whether unbroken digits contain a date and a checksum.
fn is_dated_id(digits: &[u8]) -> bool {
    match digits.len() {
        11 => is_polish_id(digits) || is_norwegian_id(digits) || is_baltic_id(digits),
        13 => is_romanian_id(digits) || is_south_african_id(digits) || is_swiss_id(digits),
        15 => is_french_id(digits),
        18 => is_chinese_id(digits, u32::from(digits[17])),
        _ => false,
    }
}

/// Whether digits with only a checksum match; a word nearby must label them.
fn is_labelled_id(digits: &[u8]) -> bool {
    match digits.len() {
        8 | 9 => is_dutch_id(digits) || luhn(digits) || is_portuguese_id(digits) || is_australian_id(digits),
        10 => {
            is_british_id(digits)
                || is_bulgarian_id(digits)
                || is_swedish_id(digits)
                || is_danish_id(digits)
                || is_czech_id(digits)
        }
        11 => {
            is_brazilian_id(digits)
                || is_belgian_id(digits)
                || mod11_10(digits)
                || is_turkish_id(digits)
                || luhn(digits)
                || is_dated_id(digits)
        }
        12 => verhoeff(digits) || is_japanese_id(digits),
        _ => false,
    }
}

fn labelled_id_end(run: &DigitRun, from: usize, to: usize) -> usize {
    let alike = |next: &usize| {
        matches!(
            run.separator_before(*next),
            Separator::Space | Separator::Dash | Separator::Dot
        )
    };
    (from + 1..to).find(|next| !alike(next)).unwrap_or(to)
}

fn labelled_id_digits(run: &DigitRun, from: usize, to: usize) -> usize {
    run.digit_count(from, labelled_id_end(run, from, to))
}

fn has_day_at(digits: &[u8], month: usize, day: usize) -> bool {
    is_day(
        digits_value(&digits[month..month + 2]),
        digits_value(&digits[day..day + 2]),
    )
}

fn is_brazilian_id(digits: &[u8]) -> bool {
    let check = |count: usize| {
        let sum: u32 = (0..count)
            .map(|index| u32::from(digits[index]) * u32::try_from(count + 1 - index).unwrap_or(0))
            .sum();
        sum * 10 % 11 % 10 == u32::from(digits[count])
    };
    digits.len() == 11 && digits.iter().any(|digit| *digit != digits[0]) && check(9) && check(10)
}

fn is_swiss_id(digits: &[u8]) -> bool {
    digits.len() == 13
        && digits[..3] == [7, 5, 6]
        && weighted_sum(digits, &[1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1]).is_multiple_of(10)
}

fn is_belgian_id(digits: &[u8]) -> bool {
    let born = digits_value(&digits[..9]);
    let rest = digits_value(&digits[9..]);
    digits.len() == 11 && (97 - born % 97 == rest || 97 - (2_000_000_000 + born) % 97 == rest)
}

fn is_swedish_id(digits: &[u8]) -> bool {
    let day = digits_value(&digits[4..6]);
    let day = if day > 60 { day - 60 } else { day };
    digits.len() == 10 && is_day(digits_value(&digits[2..4]), day) && luhn(digits)
}

fn is_danish_id(digits: &[u8]) -> bool {
    digits.len() == 10 && has_day_at(digits, 2, 0)
}

fn is_korean_id(digits: &[u8]) -> bool {
    digits.len() == 13 && has_day_at(digits, 2, 4) && (1..=8).contains(&digits[6])
}

fn is_czech_id(digits: &[u8]) -> bool {
    let month = digits_value(&digits[2..4]) % 50;
    let month = if month > 20 { month - 20 } else { month };
    digits.len() == 10 && is_day(month, digits_value(&digits[4..6])) && digits_value(digits).is_multiple_of(11)
}

fn is_french_id(digits: &[u8]) -> bool {
    let (body, key) = digits.split_at(digits.len().min(13));
    digits.len() == 15 && matches!(digits[0], 1 | 2) && 97 - digits_value(body) % 97 == digits_value(key)
}

fn is_indian_id(digits: &[u8]) -> bool {
    digits.len() == 12 && digits[0] > 1 && verhoeff(digits)
}

fn is_argentine_id(digits: &[u8]) -> bool {
    let rest = weighted_sum(digits, &[5, 4, 3, 2, 7, 6, 5, 4, 3, 2]) % 11;
    digits.len() == 11
        && (11 - rest) % 11 == u32::from(digits[10])
        && matches!(digits_value(&digits[..2]), 20 | 23 | 24 | 27 | 30 | 33 | 34)
}

fn is_chilean_id(digits: &[u8]) -> bool {
    digits
        .split_last()
        .is_some_and(|(check, body)| chilean_check_digit(body) == u32::from(*check))
}

fn chilean_check_digit(body: &[u8]) -> u32 {
    let sum: u32 = body
        .iter()
        .rev()
        .zip((2..=7).cycle())
        .map(|(digit, weight)| u32::from(*digit) * weight)
        .sum();
    (11 - sum % 11) % 11
}

fn is_norwegian_id(digits: &[u8]) -> bool {
    let day = digits_value(&digits[..2]) % 40;
    digits.len() == 11
        && is_day(digits_value(&digits[2..4]) % 40, day)
        && weighted_sum(digits, &[3, 7, 6, 1, 8, 9, 4, 5, 2, 1]).is_multiple_of(11)
        && weighted_sum(digits, &[5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1]).is_multiple_of(11)
}

fn is_polish_id(digits: &[u8]) -> bool {
    let month = digits_value(&digits[2..4]) % 20;
    is_day(month, digits_value(&digits[4..6]))
        && weighted_sum(digits, &[1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1]).is_multiple_of(10)
}

/// Checks numbers of Estonia and Lithuania.
fn is_baltic_id(digits: &[u8]) -> bool {
    let first = weighted_sum(digits, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 1]) % 11;
    let second = weighted_sum(digits, &[3, 4, 5, 6, 7, 8, 9, 1, 2, 3]) % 11;
    let check = if first < 10 { first } else { second % 10 };
    (1..=6).contains(&digits[0]) && has_day_at(digits, 3, 5) && check == u32::from(digits[10])
}

fn is_romanian_id(digits: &[u8]) -> bool {
    let check = weighted_sum(digits, &[2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9]) % 11;
    let check = if check == 10 { 1 } else { check };
    (1..=8).contains(&digits[0])
        && has_day_at(digits, 3, 5)
        && (1..=52).contains(&digits_value(&digits[7..9]))
        && check == u32::from(digits[12])
}

fn is_south_african_id(digits: &[u8]) -> bool {
    has_day_at(digits, 2, 4) && digits[10] <= 1 && luhn(digits)
}

fn is_chinese_id(digits: &[u8], check: u32) -> bool {
    let rest = weighted_sum(&digits[..17], &[7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2]) % 11;
    matches!(digits_value(&digits[6..8]), 18..=20) && has_day_at(digits, 10, 12) && (12 - rest) % 11 == check
}

fn is_dutch_id(digits: &[u8]) -> bool {
    let padded = 9 - digits.len();
    let sum: i64 = digits
        .iter()
        .enumerate()
        .map(|(index, digit)| {
            let weight = match i64::try_from(9 - index - padded) {
                Ok(1) | Err(_) => -1,
                Ok(weight) => weight,
            };
            weight * i64::from(*digit)
        })
        .sum();
    sum % 11 == 0 && sum != 0
}

fn is_portuguese_id(digits: &[u8]) -> bool {
    let rest = weighted_sum(digits, &[9, 8, 7, 6, 5, 4, 3, 2]) % 11;
    let check = if rest < 2 { 0 } else { 11 - rest };
    digits.len() == 9 && check == u32::from(digits[8])
}

fn is_australian_id(digits: &[u8]) -> bool {
    digits.len() == 9 && weighted_sum(digits, &[1, 4, 3, 7, 5, 8, 6, 9, 10]).is_multiple_of(11)
}

fn is_british_id(digits: &[u8]) -> bool {
    let check = (11 - weighted_sum(digits, &[10, 9, 8, 7, 6, 5, 4, 3, 2]) % 11) % 11;
    check == u32::from(digits[9])
}

fn is_bulgarian_id(digits: &[u8]) -> bool {
    let check = weighted_sum(digits, &[2, 4, 8, 5, 10, 9, 7, 3, 6]) % 11 % 10;
    is_day(digits_value(&digits[2..4]) % 20, digits_value(&digits[4..6])) && check == u32::from(digits[9])
}

fn is_turkish_id(digits: &[u8]) -> bool {
    let sum = |from: usize, to: usize, step: usize| {
        (from..to)
            .step_by(step)
            .map(|index| i64::from(digits[index]))
            .sum::<i64>()
    };
    digits[0] != 0
        && (sum(0, 9, 2) * 7 - sum(1, 8, 2)).rem_euclid(10) == i64::from(digits[9])
        && sum(0, 10, 1) % 10 == i64::from(digits[10])
}

fn is_japanese_id(digits: &[u8]) -> bool {
    let rest = weighted_sum(digits, &[6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2]) % 11;
    let check = if rest <= 1 { 0 } else { 11 - rest };
    check == u32::from(digits[11])
}

mod lettered;
pub(super) use lettered::{scan_lettered_id, trailing_letter_id};

fn is_end(scan: &Scan<'_>, at: usize) -> bool {
    !is_word_byte(scan.byte_at(at))
}
