//! Payment card numbers: length, issuer and Luhn checksum.

use super::Scan;
use super::checks::luhn;
use super::context::{self, Context};
use super::number::{Digits, Run, Sep, is_word};

/// The usual groupings of card numbers, longest first.
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

/// Finds a card number that begins with a group. Returns the group after it.
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

/// Finds a card number with another grouping: all digits of the run, in groups of one size, or next to a word for
/// cards.
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

/// Returns the end of a card number that a line break splits, if the run is its first part.
pub(super) fn broken(scan: &Scan<'_>, run: &Run) -> Option<usize> {
    let to = run.count();
    let end = run.end(to - 1);
    let total = run.total(0, to);
    if !(2..=17).contains(&total) {
        return None;
    }
    let next = after_break(scan, end)?;
    let rest = Run::at(scan, next);
    let last = rest.end(rest.count() - 1);
    if total + rest.total(0, rest.count()) > 19 || is_word(scan.byte(last)) || !is_parted(scan, run, &rest) {
        return None;
    }
    let digits = Digits::of(&scan.bytes[run.start(0)..last])?;
    let digits = digits.get();
    let varied = digits.iter().any(|digit| *digit != digits[0]);
    (matches!(digits.len(), 15 | 16) && varied && luhn(digits) && issued(digits)).then_some(last)
}

/// Returns the next digit after one line break, with the space, dash or quotation mark around the break.
fn after_break(scan: &Scan<'_>, end: usize) -> Option<usize> {
    let space = |byte: u8| matches!(byte, b' ' | b'\t' | b'\r' | b'-');
    let mut at = end;
    while at < end + 3 && space(scan.byte(at)) {
        at += 1;
    }
    if scan.byte(at) != b'\n' {
        return None;
    }
    at += 1;
    let begun = at;
    while at < begun + 16 && matches!(scan.byte(at), b' ' | b'\t' | b'>') {
        at += 1;
    }
    scan.byte(at).is_ascii_digit().then_some(at)
}

/// Whether two runs are parts of one card number, rather than numbers of a list.
fn is_parted(scan: &Scan<'_>, run: &Run, rest: &Run) -> bool {
    let sizes = |run: &Run| (0..run.count()).map(|group| run.size(group)).collect::<Vec<_>>();
    let (first, second) = (sizes(run), sizes(rest));
    let usual = |sizes: &[usize]| matches!(sizes, [4, 4, 4, 4] | [4, 6, 5]);
    let apart = [first.as_slice(), second.as_slice()].concat();
    let mut joined = apart.clone();
    joined[first.len() - 1] += joined.remove(first.len());
    let alone = first.len() == 1 && second.len() == 1;
    let grouped = !alone && (usual(&apart) || usual(&joined));
    let alike = |run: &Run| matches!(run.same_sep(0, run.count()), Some(Sep::None | Sep::Space | Sep::Dash));
    if !alike(run) || !alike(rest) || !(grouped || alone) {
        return false;
    }
    // A list has a number at the start of each line, all of one length.
    let lead = scan.bytes[..run.start(0)]
        .iter()
        .rev()
        .take_while(|byte| matches!(byte, b' ' | b'\t' | b'>'))
        .count();
    let begins = run.start(0) - lead;
    let listed = begins == 0 || scan.bytes[begins - 1] == b'\n';
    let above = scan.bytes[..begins]
        .trim_ascii_end()
        .last()
        .is_some_and(u8::is_ascii_digit);
    let below = after_break(scan, rest.end(rest.count() - 1)).is_some();
    let uneven = alone && first != second;
    !listed || !above && !below && (uneven || grouped)
}

fn is_card(scan: &Scan<'_>, run: &Run, from: usize, next: usize, around: &mut Context) -> bool {
    let Some(digits) = run.digits(scan, from, next) else {
        return false;
    };
    let digits = digits.get();
    let varied = digits.iter().any(|digit| *digit != digits[0]);
    varied && luhn(digits) && (issued(digits) || around.has(scan, context::CARD))
}

/// Whether an issuer uses numbers with this length and these first digits.
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
