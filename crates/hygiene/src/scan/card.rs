//! Numbers of payment cards: length, issuer and the Luhn checksum.

use super::Scan;
use super::checks::luhn;
use super::context::{self, Context};
use super::number::{Digits, Run, Sep, is_word};

/// Ways in which cards are grouped, longest first.
const GROUPED: [&[usize]; 8] = [
    &[4, 4, 4, 4, 3],
    &[4, 4, 4, 4],
    &[4, 6, 5],
    &[4, 6, 4],
    &[4, 4, 4, 3],
    &[4, 4, 4, 2],
    &[4, 4, 4, 1],
    &[4, 4, 4],
];

/// A card that begins with a group. Answers the group after it.
pub(super) fn at(scan: &Scan<'_>, run: &Run, from: usize, to: usize, around: &mut Context) -> Option<usize> {
    let usual = match run.size(from) {
        12..=19 => is_card(scan, run, from, from + 1, around).then_some(from + 1),
        4 => GROUPED.iter().find_map(|sizes| {
            let next = from + sizes.len();
            let one = next <= to && run.shaped(from, sizes);
            let alike = one && matches!(run.same_sep(from, next), Some(Sep::Space | Sep::Dash | Sep::Dot));
            (alike && is_card(scan, run, from, next, around)).then_some(next)
        }),
        _ => None,
    };
    usual.or_else(|| grouped(scan, run, from, to, around))
}

/// A card grouped in any other way: all digits of the run, in groups of one size, or beside a word for cards.
fn grouped(scan: &Scan<'_>, run: &Run, from: usize, to: usize, around: &mut Context) -> Option<usize> {
    let whole = from == 0 && to == run.count() && to > 1;
    if !whole || !matches!(run.same_sep(from, to), Some(Sep::Space | Sep::Dash)) {
        return None;
    }
    let total = run.total(from, to);
    let size = run.size(from);
    let even = (from..to - 1).all(|group| run.size(group) == size) && run.size(to - 1) <= size;
    let known = match total {
        16 => even && size != 3,
        15 => even,
        13 | 14 | 17..=19 => false,
        _ => return None,
    };
    let said = known || around.has(scan, context::CARD);
    (said && is_card(scan, run, from, to, around)).then_some(to)
}

/// The end of a card that a line break parts, if the run is its first part.
pub(super) fn broken(scan: &Scan<'_>, run: &Run) -> Option<usize> {
    let to = run.count();
    let end = run.end(to - 1);
    let gap = match (scan.byte(end), scan.byte(end + 1)) {
        (b'\n', _) => 1,
        (b'\r' | b' ' | b'-', b'\n') => 2,
        _ => return None,
    };
    let total = run.total(0, to);
    // A list has a number at the beginning of each line.
    let listed = matches!(scan.before(run.start(0)), b'\n') || run.start(0) == 0;
    if listed || !(4..=15).contains(&total) || !scan.byte(end + gap).is_ascii_digit() {
        return None;
    }
    let rest = Run::at(scan, end + gap);
    let (last, all) = (rest.count(), total + rest.total(0, rest.count()));
    let fours = |run: &Run| (0..run.count()).all(|group| run.size(group) == 4);
    let plain = to == 1 && last == 1 || fours(run) && fours(&rest);
    let alike = |run: &Run| matches!(run.same_sep(0, run.count()), Some(Sep::None | Sep::Space | Sep::Dash));
    if all != 16 || !plain || !alike(run) || !alike(&rest) || is_word(scan.byte(rest.end(last - 1))) {
        return None;
    }
    let digits = Digits::of(&scan.bytes[run.start(0)..rest.end(last - 1)])?;
    let digits = digits.get();
    let varied = digits.iter().any(|digit| *digit != digits[0]);
    (varied && luhn(digits) && issued(digits)).then(|| rest.end(last - 1))
}

fn is_card(scan: &Scan<'_>, run: &Run, from: usize, next: usize, around: &mut Context) -> bool {
    let Some(digits) = run.digits(scan, from, next) else {
        return false;
    };
    let digits = digits.get();
    let varied = digits.iter().any(|digit| *digit != digits[0]);
    varied && luhn(digits) && (issued(digits) || around.has(scan, context::CARD))
}

/// Whether an issuer gives numbers of this length that begin so.
fn issued(digits: &[u8]) -> bool {
    let first = |count: usize| {
        digits[..count]
            .iter()
            .fold(0, |sum, digit| sum * 10 + u32::from(*digit))
    };
    let (two, three, four) = (first(2), first(3), first(4));
    match digits.len() {
        12 => maestro(two, four),
        13 => digits[0] == 4 || maestro(two, four),
        14 => diners(two, three, four) || maestro(two, four),
        15 => matches!(two, 34 | 37) || matches!(four, 1800 | 2131) || maestro(two, four),
        16 => {
            digits[0] == 4
                || matches!(two, 35 | 51..=55 | 60 | 62 | 65 | 81 | 82)
                || matches!(three, 508 | 644..=649)
                || matches!(four, 2200..=2204 | 2221..=2720 | 9792)
                || diners(two, three, four)
                || maestro(two, four)
        }
        17..=19 => {
            digits[0] == 4 && digits.len() == 19
                || matches!(two, 62 | 65)
                || matches!(four, 6011 | 3528..=3589)
                || maestro(two, four)
        }
        _ => false,
    }
}

fn maestro(two: u32, four: u32) -> bool {
    matches!(four, 5018 | 5020 | 5038 | 5893 | 6304 | 6390 | 6759 | 6761..=6763 | 604) || matches!(two, 56..=58)
}

fn diners(two: u32, three: u32, four: u32) -> bool {
    matches!(two, 36 | 38 | 39) || matches!(three, 300..=305) || four == 3095
}
