//! Payment card numbers: length, issuer and Luhn checksum.

use super::Scan;
use super::checksums::luhn;
use super::number::{DigitRun, Digits, Separator, is_word_byte};
use super::word_context::{self, WordContext};

/// The usual groupings of card numbers, longest first.
const CARD_GROUPINGS: [&[usize]; 8] = [
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
pub(super) fn card_end(
    scan: &Scan<'_>,
    run: &DigitRun,
    from: usize,
    to: usize,
    around: &mut WordContext,
) -> Option<usize> {
    let usual = match run.group_size(from) {
        12..=19 => is_card(scan, run, from, from + 1, around).then_some(from + 1),
        4 => CARD_GROUPINGS.iter().find_map(|sizes| {
            let next = from + sizes.len();
            let one = next <= to && run.has_sizes(from, sizes);
            let alike = one
                && matches!(
                    run.common_separator(from, next),
                    Some(Separator::Space | Separator::Dash | Separator::Dot)
                );
            (alike && is_card(scan, run, from, next, around)).then_some(next)
        }),
        _ => None,
    };
    usual.or_else(|| regrouped_card_end(scan, run, from, to, around))
}

/// Finds a card number with another grouping: all digits of the run, in groups of one size, or next to a word for
/// cards.
fn regrouped_card_end(
    scan: &Scan<'_>,
    run: &DigitRun,
    from: usize,
    to: usize,
    around: &mut WordContext,
) -> Option<usize> {
    let whole = from == 0 && to == run.count() && to > 1;
    if !whole || !matches!(run.common_separator(from, to), Some(Separator::Space | Separator::Dash)) {
        return None;
    }
    let total = run.digit_count(from, to);
    let size = run.group_size(from);
    let even = (from..to - 1).all(|group| run.group_size(group) == size) && run.group_size(to - 1) <= size;
    let known = match total {
        16 => even && size != 3,
        15 => even,
        13 | 14 | 17..=19 => false,
        _ => return None,
    };
    let said = known || around.has(scan, word_context::CARD);
    (said && is_card(scan, run, from, to, around)).then_some(to)
}

/// Returns the end of a card number that a line break splits, if the run is its first part.
pub(super) fn broken_card_end(scan: &Scan<'_>, run: &DigitRun) -> Option<usize> {
    let to = run.count();
    let end = run.end(to - 1);
    let total = run.digit_count(0, to);
    if !(2..=17).contains(&total) {
        return None;
    }
    let next = after_break(scan, end)?;
    let rest = DigitRun::read(scan, next);
    let last = rest.end(rest.count() - 1);
    if total + rest.digit_count(0, rest.count()) > 19
        || is_word_byte(scan.byte_at(last))
        || !is_parted(scan, run, &rest)
    {
        return None;
    }
    let digits = Digits::from_text(&scan.bytes[run.start(0)..last])?;
    let digits = digits.get();
    let varied = digits.iter().any(|digit| *digit != digits[0]);
    (matches!(digits.len(), 15 | 16) && varied && luhn(digits) && is_issued(digits)).then_some(last)
}

/// Returns the next digit after one line break, with the space, dash or quotation mark around the break.
fn after_break(scan: &Scan<'_>, end: usize) -> Option<usize> {
    let space = |byte: u8| matches!(byte, b' ' | b'\t' | b'\r' | b'-');
    let mut at = end;
    while at < end + 3 && space(scan.byte_at(at)) {
        at += 1;
    }
    if scan.byte_at(at) != b'\n' {
        return None;
    }
    at += 1;
    let begun = at;
    while at < begun + 16 && matches!(scan.byte_at(at), b' ' | b'\t' | b'>') {
        at += 1;
    }
    scan.byte_at(at).is_ascii_digit().then_some(at)
}

/// Whether two runs are parts of one card number, rather than numbers of a list.
fn is_parted(scan: &Scan<'_>, run: &DigitRun, rest: &DigitRun) -> bool {
    let sizes = |run: &DigitRun| (0..run.count()).map(|group| run.group_size(group)).collect::<Vec<_>>();
    let (first, second) = (sizes(run), sizes(rest));
    let usual = |sizes: &[usize]| matches!(sizes, [4, 4, 4, 4] | [4, 6, 5]);
    let apart = [first.as_slice(), second.as_slice()].concat();
    let mut joined = apart.clone();
    joined[first.len() - 1] += joined.remove(first.len());
    let alone = first.len() == 1 && second.len() == 1;
    let grouped = !alone && (usual(&apart) || usual(&joined));
    let alike = |run: &DigitRun| {
        matches!(
            run.common_separator(0, run.count()),
            Some(Separator::None | Separator::Space | Separator::Dash)
        )
    };
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

fn is_card(scan: &Scan<'_>, run: &DigitRun, from: usize, next: usize, around: &mut WordContext) -> bool {
    let Some(digits) = run.digits(scan, from, next) else {
        return false;
    };
    let digits = digits.get();
    let varied = digits.iter().any(|digit| *digit != digits[0]);
    varied && luhn(digits) && (is_issued(digits) || around.has(scan, word_context::CARD))
}

/// Whether an issuer uses numbers with this length and these first digits.
fn is_issued(digits: &[u8]) -> bool {
    let first = |count: usize| {
        digits[..count]
            .iter()
            .fold(0, |sum, digit| sum * 10 + u32::from(*digit))
    };
    let (two, three, four) = (first(2), first(3), first(4));
    match digits.len() {
        12 => is_maestro(two, four),
        13 => digits[0] == 4 || is_maestro(two, four),
        14 => is_diners(two, three, four) || is_maestro(two, four),
        15 => matches!(two, 34 | 37) || matches!(four, 1800 | 2131) || is_maestro(two, four),
        16 => {
            digits[0] == 4
                || matches!(two, 35 | 51..=55 | 60 | 62 | 65 | 81 | 82)
                || matches!(three, 508 | 644..=649)
                || matches!(four, 2200..=2204 | 2221..=2720 | 9792)
                || is_diners(two, three, four)
                || is_maestro(two, four)
        }
        17..=19 => {
            digits[0] == 4 && digits.len() == 19
                || matches!(two, 62 | 65)
                || matches!(four, 6011 | 3528..=3589)
                || is_maestro(two, four)
        }
        _ => false,
    }
}

fn is_maestro(two: u32, four: u32) -> bool {
    matches!(four, 5018 | 5020 | 5038 | 5893 | 6304 | 6390 | 6759 | 6761..=6763 | 604) || matches!(two, 56..=58)
}

fn is_diners(two: u32, three: u32, four: u32) -> bool {
    matches!(two, 36 | 38 | 39) || matches!(three, 300..=305) || four == 3095
}
