//! National numbers of people. Numbers that rarely occur by chance (a date and a checksum, or a form of their own)
//! are found anywhere; others need a word nearby.

use super::Scan;
use super::checks::{is_day, luhn, mod11_10, number, verhoeff, weighed};
use super::context::{self, Context};
use super::number::{Run, Sep, is_word};
use crate::kind::Kind;

/// Finds a number of digits that begins with a group. Returns the group after it, and its kind.
pub(super) fn numbered(
    scan: &Scan<'_>,
    run: &Run,
    from: usize,
    to: usize,
    around: &mut Context,
) -> Option<(usize, Kind)> {
    if let Some(next) = social(scan, run, from, to) {
        return Some((next, Kind::Ssn));
    }
    if let Some(next) = formed(scan, run, from, to) {
        return Some((next, Kind::NationalId));
    }
    let size = run.size(from);
    if (10..=18).contains(&size) {
        let digits = run.digits(scan, from, from + 1)?;
        if dated(digits.get()) {
            return Some((from + 1, Kind::NationalId));
        }
    }
    if !(2..=12).contains(&size) || !(8..=12).contains(&spoken_total(run, from, to)) {
        return None;
    }
    if size == 9 && around.has(scan, context::SSN) {
        return Some((from + 1, Kind::Ssn));
    }
    if !around.has(scan, context::NATIONAL) {
        return None;
    }
    let next = spoken_end(run, from, to);
    let digits = run.digits(scan, from, next)?;
    spoken(digits.get()).then_some((next, Kind::NationalId))
}

/// Finds three, two and four digits of the United States. Areas that were never assigned are excluded.
fn social(scan: &Scan<'_>, run: &Run, from: usize, to: usize) -> Option<usize> {
    let next = from + 3;
    if next > to || !run.shaped(from, &[3, 2, 4]) || !matches!(run.same_sep(from, next), Some(Sep::Dash | Sep::Space)) {
        return None;
    }
    let more =
        run.count() > next && run.sep(next) == run.sep(from + 1) || from > 0 && run.sep(from) == run.sep(from + 1);
    let parts = [
        run.value(scan, from),
        run.value(scan, from + 1),
        run.value(scan, from + 2),
    ];
    (!more && !matches!(parts[0], 0 | 666) && parts[1] != 0 && parts[2] != 0).then_some(next)
}

/// Finds numbers by their grouping, with their checksums.
fn formed(scan: &Scan<'_>, run: &Run, from: usize, to: usize) -> Option<usize> {
    let seps = |next: usize, wanted: &[Sep]| (from + 1..next).zip(wanted).all(|(group, sep)| run.sep(group) == *sep);
    let good = |sizes: &[usize], wanted: &[Sep], check: fn(&[u8]) -> bool| {
        let next = from + sizes.len();
        let fits = next <= to && run.shaped(from, sizes) && seps(next, wanted);
        let digits = fits.then(|| run.digits(scan, from, next)).flatten();
        digits.is_some_and(|digits| check(digits.get())).then_some(next)
    };
    let (dot, dash, slash, space) = (Sep::Dot, Sep::Dash, Sep::Slash, Sep::Space);
    // Brazil, Switzerland, Belgium.
    good(&[3, 3, 3, 2], &[dot, dot, dash], brazil)
        .or_else(|| good(&[3, 4, 4, 2], &[dot, dot, dot], swiss))
        .or_else(|| good(&[2, 2, 2, 3, 2], &[dot, dot, dash, dot], belgium))
        // Sweden, Denmark, Korea, Czechia and Slovakia.
        .or_else(|| good(&[6, 4], &[dash], |digits| swedish(digits) || danish(digits)))
        .or_else(|| good(&[8, 4], &[dash], |digits| swedish(&digits[2..])))
        .or_else(|| good(&[6, 7], &[dash], korean))
        .or_else(|| good(&[6, 4], &[slash], czech))
        // France, India, Argentina, Chile, Norway.
        .or_else(|| good(&[1, 2, 2, 2, 3, 3, 2], &[space; 6], french))
        .or_else(|| good(&[4, 4, 4], &[space; 2], indian))
        .or_else(|| good(&[2, 8, 1], &[dash; 2], argentine))
        .or_else(|| good(&[2, 3, 3, 1], &[dot, dot, dash], chilean))
        .or_else(|| good(&[1, 3, 3, 1], &[dot, dot, dash], chilean))
        .or_else(|| good(&[6, 5], &[space], norwegian))
}

/// Whether unbroken digits contain a date and a checksum.
fn dated(digits: &[u8]) -> bool {
    match digits.len() {
        11 => polish(digits) || norwegian(digits) || baltic(digits),
        13 => romanian(digits) || south_african(digits) || swiss(digits),
        15 => french(digits),
        18 => chinese(digits, u32::from(digits[17])),
        _ => false,
    }
}

/// Whether digits with only a checksum match; a word nearby must label them.
fn spoken(digits: &[u8]) -> bool {
    match digits.len() {
        8 | 9 => dutch(digits) || luhn(digits) || portuguese(digits) || australian(digits),
        10 => british(digits) || bulgarian(digits) || swedish(digits) || danish(digits) || czech(digits),
        11 => brazil(digits) || belgium(digits) || mod11_10(digits) || turkish(digits) || luhn(digits) || dated(digits),
        12 => verhoeff(digits) || japanese(digits),
        _ => false,
    }
}

fn spoken_end(run: &Run, from: usize, to: usize) -> usize {
    let alike = |next: &usize| matches!(run.sep(*next), Sep::Space | Sep::Dash | Sep::Dot);
    (from + 1..to).find(|next| !alike(next)).unwrap_or(to)
}

fn spoken_total(run: &Run, from: usize, to: usize) -> usize {
    run.total(from, spoken_end(run, from, to))
}

fn day_at(digits: &[u8], month: usize, day: usize) -> bool {
    is_day(number(&digits[month..month + 2]), number(&digits[day..day + 2]))
}

fn brazil(digits: &[u8]) -> bool {
    let check = |count: usize| {
        let sum: u32 = (0..count)
            .map(|index| u32::from(digits[index]) * u32::try_from(count + 1 - index).unwrap_or(0))
            .sum();
        sum * 10 % 11 % 10 == u32::from(digits[count])
    };
    digits.len() == 11 && digits.iter().any(|digit| *digit != digits[0]) && check(9) && check(10)
}

fn swiss(digits: &[u8]) -> bool {
    digits.len() == 13
        && digits[..3] == [7, 5, 6]
        && weighed(digits, &[1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1]).is_multiple_of(10)
}

fn belgium(digits: &[u8]) -> bool {
    let born = number(&digits[..9]);
    let rest = number(&digits[9..]);
    digits.len() == 11 && (97 - born % 97 == rest || 97 - (2_000_000_000 + born) % 97 == rest)
}

fn swedish(digits: &[u8]) -> bool {
    let day = number(&digits[4..6]);
    let day = if day > 60 { day - 60 } else { day };
    digits.len() == 10 && is_day(number(&digits[2..4]), day) && luhn(digits)
}

fn danish(digits: &[u8]) -> bool {
    digits.len() == 10 && day_at(digits, 2, 0)
}

fn korean(digits: &[u8]) -> bool {
    digits.len() == 13 && day_at(digits, 2, 4) && (1..=8).contains(&digits[6])
}

fn czech(digits: &[u8]) -> bool {
    let month = number(&digits[2..4]) % 50;
    let month = if month > 20 { month - 20 } else { month };
    digits.len() == 10 && is_day(month, number(&digits[4..6])) && number(digits).is_multiple_of(11)
}

fn french(digits: &[u8]) -> bool {
    let (body, key) = digits.split_at(digits.len().min(13));
    digits.len() == 15 && matches!(digits[0], 1 | 2) && 97 - number(body) % 97 == number(key)
}

fn indian(digits: &[u8]) -> bool {
    digits.len() == 12 && digits[0] > 1 && verhoeff(digits)
}

fn argentine(digits: &[u8]) -> bool {
    let rest = weighed(digits, &[5, 4, 3, 2, 7, 6, 5, 4, 3, 2]) % 11;
    digits.len() == 11
        && (11 - rest) % 11 == u32::from(digits[10])
        && matches!(number(&digits[..2]), 20 | 23 | 24 | 27 | 30 | 33 | 34)
}

fn chilean(digits: &[u8]) -> bool {
    digits
        .split_last()
        .is_some_and(|(check, body)| chile_check(body) == u32::from(*check))
}

fn chile_check(body: &[u8]) -> u32 {
    let sum: u32 = body
        .iter()
        .rev()
        .zip((2..=7).cycle())
        .map(|(digit, weight)| u32::from(*digit) * weight)
        .sum();
    (11 - sum % 11) % 11
}

fn norwegian(digits: &[u8]) -> bool {
    let day = number(&digits[..2]) % 40;
    digits.len() == 11
        && is_day(number(&digits[2..4]) % 40, day)
        && weighed(digits, &[3, 7, 6, 1, 8, 9, 4, 5, 2, 1]).is_multiple_of(11)
        && weighed(digits, &[5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1]).is_multiple_of(11)
}

fn polish(digits: &[u8]) -> bool {
    let month = number(&digits[2..4]) % 20;
    is_day(month, number(&digits[4..6])) && weighed(digits, &[1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1]).is_multiple_of(10)
}

/// Checks numbers of Estonia and Lithuania.
fn baltic(digits: &[u8]) -> bool {
    let first = weighed(digits, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 1]) % 11;
    let second = weighed(digits, &[3, 4, 5, 6, 7, 8, 9, 1, 2, 3]) % 11;
    let check = if first < 10 { first } else { second % 10 };
    (1..=6).contains(&digits[0]) && day_at(digits, 3, 5) && check == u32::from(digits[10])
}

fn romanian(digits: &[u8]) -> bool {
    let check = weighed(digits, &[2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9]) % 11;
    let check = if check == 10 { 1 } else { check };
    (1..=8).contains(&digits[0])
        && day_at(digits, 3, 5)
        && (1..=52).contains(&number(&digits[7..9]))
        && check == u32::from(digits[12])
}

fn south_african(digits: &[u8]) -> bool {
    day_at(digits, 2, 4) && digits[10] <= 1 && luhn(digits)
}

fn chinese(digits: &[u8], check: u32) -> bool {
    let rest = weighed(&digits[..17], &[7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2]) % 11;
    matches!(number(&digits[6..8]), 18..=20) && day_at(digits, 10, 12) && (12 - rest) % 11 == check
}

fn dutch(digits: &[u8]) -> bool {
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

fn portuguese(digits: &[u8]) -> bool {
    let rest = weighed(digits, &[9, 8, 7, 6, 5, 4, 3, 2]) % 11;
    let check = if rest < 2 { 0 } else { 11 - rest };
    digits.len() == 9 && check == u32::from(digits[8])
}

fn australian(digits: &[u8]) -> bool {
    digits.len() == 9 && weighed(digits, &[1, 4, 3, 7, 5, 8, 6, 9, 10]).is_multiple_of(11)
}

fn british(digits: &[u8]) -> bool {
    let check = (11 - weighed(digits, &[10, 9, 8, 7, 6, 5, 4, 3, 2]) % 11) % 11;
    check == u32::from(digits[9])
}

fn bulgarian(digits: &[u8]) -> bool {
    let check = weighed(digits, &[2, 4, 8, 5, 10, 9, 7, 3, 6]) % 11 % 10;
    is_day(number(&digits[2..4]) % 20, number(&digits[4..6])) && check == u32::from(digits[9])
}

fn turkish(digits: &[u8]) -> bool {
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

fn japanese(digits: &[u8]) -> bool {
    let rest = weighed(digits, &[6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2]) % 11;
    let check = if rest <= 1 { 0 } else { 11 - rest };
    check == u32::from(digits[11])
}

mod letters;
pub(super) use letters::{lettered, trailed};

fn ends(scan: &Scan<'_>, at: usize) -> bool {
    !is_word(scan.byte(at))
}
