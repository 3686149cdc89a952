//! Telephone numbers, national and international. Forms that only telephone numbers have are found anywhere; others
//! need a word nearby, or must be a whole value.

use super::number::{DigitRun, Separator, is_word_byte};
use super::word_context::{self, WordContext};
use super::{Scan, ScanScope};

/// How much the form of a number suggests a telephone number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PhoneForm {
    /// No telephone number looks like this.
    Never,
    /// Some do, and so do other numbers.
    Possible,
    /// Groups as people write telephone numbers; enough if the value has nothing else.
    Likely,
    /// Hardly anything else looks like this.
    Sure,
}

/// Finds a telephone number that begins with a group. Returns its range, and the group after it.
pub(super) fn phone_at(
    scan: &Scan<'_>,
    run: &DigitRun,
    from: usize,
    to: usize,
    around: &mut WordContext,
) -> Option<(usize, usize, usize)> {
    let most = (from + 7).min(to);
    let lead = PhonePrefix::before(scan, run.start(from));
    for next in (from + 1..=most).rev() {
        let form = phone_form(scan, run, from, next, lead);
        let good = match form {
            PhoneForm::Never => false,
            PhoneForm::Sure => {
                lead.is_plus()
                    || around.has(scan, word_context::PHONE)
                    || !word_context::numbers_a_thing(scan, run.start(from))
            }
            PhoneForm::Likely if is_whole_value(scan, run, from, next, lead) => true,
            PhoneForm::Likely | PhoneForm::Possible => around.has(scan, word_context::PHONE),
        };
        if good {
            let end = run.end(next - 1);
            let end = if next == to {
                extension_end(scan, end).unwrap_or(end)
            } else {
                end
            };
            return Some((lead.start(run.start(from)), end, next));
        }
    }
    None
}

/// The text before the first digit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PhonePrefix {
    None,
    Plus,
    Paren,
    PlusParen,
    /// Something that no telephone number follows: money, a sign, a fraction.
    Other,
}

impl PhonePrefix {
    fn before(scan: &Scan<'_>, start: usize) -> PhonePrefix {
        let two = start.checked_sub(2).map_or(b' ', |index| scan.byte_at(index));
        match (two, scan.byte_before(start)) {
            (b'+', b'(') | (b'(', b'+') => PhonePrefix::PlusParen,
            (_, b'+') => PhonePrefix::Plus,
            (_, b'(') => PhonePrefix::Paren,
            (_, b'$' | b'#' | b'.' | b'-' | b'/' | b'=' | b'_' | b'*' | b'~' | b'^' | b'<' | b'>') => {
                PhonePrefix::Other
            }
            _ => PhonePrefix::None,
        }
    }

    fn start(self, first: usize) -> usize {
        match self {
            PhonePrefix::None | PhonePrefix::Other => first,
            PhonePrefix::Plus | PhonePrefix::Paren => first - 1,
            PhonePrefix::PlusParen => first - 2,
        }
    }

    fn is_plus(self) -> bool {
        matches!(self, PhonePrefix::Plus | PhonePrefix::PlusParen)
    }
}

fn phone_form(scan: &Scan<'_>, run: &DigitRun, from: usize, next: usize, lead: PhonePrefix) -> PhoneForm {
    let total = run.digit_count(from, next);
    if !(6..=15).contains(&total)
        || run.count() > next
            && matches!(
                run.separator_before(next),
                Separator::Dot | Separator::Dash | Separator::Slash
            )
    {
        return PhoneForm::Never;
    }
    let first = run.group_size(from);
    let sizes = (from + 1..next).map(|group| run.group_size(group));
    let slashes = (from + 1..next)
        .filter(|group| run.separator_before(*group) == Separator::Slash)
        .count();
    if slashes > 1 {
        return PhoneForm::Never;
    }
    if lead.is_plus() {
        return international_form(scan, run, from, next, total);
    }
    let zeros = scan.byte_at(run.start(from)) == b'0';
    let double = zeros && scan.byte_at(run.start(from) + 1) == b'0';
    let country = matches!(scan.byte_at(run.start(from) + 2), b'1'..=b'9');
    if double && country && first >= 3 && total >= 10 && next > from + 1 {
        return PhoneForm::Sure;
    }
    if is_american(scan, run, from, next) || lead == PhonePrefix::None && is_national(scan, run, from, next) {
        return PhoneForm::Sure;
    }
    let closed = from + 1 < next && run.separator_before(from + 1) == Separator::Paren;
    if lead == PhonePrefix::Paren
        && closed
        && (2..=5).contains(&first)
        && (7..=11).contains(&total)
        && sizes.clone().all(|size| size >= 2)
    {
        return PhoneForm::Sure;
    }
    if lead == PhonePrefix::Other || lead == PhonePrefix::Paren {
        return PhoneForm::Never;
    }
    let even = sizes.clone().all(|size| (2..=8).contains(&size));
    let same = run.common_separator(from, next);
    let groups = next - from;
    let grouped = even && (1..=5).contains(&first) && same.is_some_and(|sep| sep != Separator::Slash);
    if zeros
        && !double
        && groups >= 3
        && first >= 2
        && (9..=11).contains(&total)
        && grouped
        && sizes.clone().all(|size| size <= 4)
    {
        return PhoneForm::Sure;
    }
    if groups == 2 && same == Some(Separator::Dot) {
        return PhoneForm::Never;
    }
    if groups >= 2 && first >= 2 && grouped {
        let usual = (7..=11).contains(&total) && (groups >= 3 || zeros || sizes.clone().all(|size| size == 4));
        return if usual { PhoneForm::Likely } else { PhoneForm::Possible };
    }
    let bare = groups == 1 && (7..=12).contains(&total);
    if bare || even && groups >= 2 && (7..=12).contains(&total) {
        return PhoneForm::Possible;
    }
    PhoneForm::Never
}

/// Returns the form of a number after a plus: a country code, then groups of any size.
fn international_form(scan: &Scan<'_>, run: &DigitRun, from: usize, next: usize, total: usize) -> PhoneForm {
    let written = next > from + 1 || total >= 9;
    let begins = scan.byte_at(run.start(from)) != b'0';
    let last = run.group_size(next - 1);
    if begins && written && total >= 8 && last >= 2 {
        PhoneForm::Sure
    } else {
        PhoneForm::Never
    }
}

/// Whether the groups form a national number that hardly anything else looks like, for the most populous countries.
fn is_national(scan: &Scan<'_>, run: &DigitRun, from: usize, next: usize) -> bool {
    let digit = |index: usize| scan.byte_at(run.start(from) + index);
    let (one, two) = (digit(0), digit(1));
    let shaped = |sizes: &[usize]| next == from + sizes.len() && run.has_sizes(from, sizes);
    let plain = (from + 1..next).all(|group| matches!(run.separator_before(group), Separator::Space | Separator::Dash));
    if !plain {
        // Russia, with brackets around the area code after the eight.
        let second = run.count() > from + 1 && matches!(scan.byte_at(run.start(from + 1)), b'3' | b'4' | b'8' | b'9');
        return one == b'8' && shaped(&[1, 3, 3, 2, 2]) && second;
    }
    let dashed = next > from + 1 && run.separator_before(next - 1) == Separator::Dash;
    // Columns of numbers have such groups too.
    let spoken = || {
        let before = scan.bytes[..run.start(from)].trim_ascii_end();
        from == 0
            && next == run.count()
            && before
                .last()
                .is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b':')
    };
    match one {
        // China; numbers of Japan and others are recognised by their leading zero.
        b'1' if shaped(&[3, 4, 4]) => matches!(two, b'3'..=b'9'),
        // Brazil, Mexico, Russia, India.
        b'1'..=b'9' if shaped(&[2, 5, 4]) => dashed && scan.byte_at(run.start(from + 1)) == b'9',
        b'3' | b'5' | b'8' if shaped(&[2, 4, 4]) => {
            spoken() && matches!((one, two), (b'5', b'5' | b'6') | (b'3', b'3') | (b'8', b'1'))
        }
        b'8' if shaped(&[1, 3, 3, 2, 2]) => true,
        b'6'..=b'9' => shaped(&[5, 5]) && spoken(),
        // Indonesia, Pakistan, Bangladesh, Nigeria, Germany.
        b'0' => {
            two == b'8' && (shaped(&[4, 4, 4]) || shaped(&[4, 4, 3]) || shaped(&[4, 4, 5]))
                || two == b'3' && shaped(&[4, 7])
                || two == b'1' && (shaped(&[5, 6]) || shaped(&[4, 7]) && matches!(digit(2), b'5'..=b'7'))
        }
        _ => false,
    }
}

/// Whether there are three, three and four digits, with or without a leading one, or without a separator after
/// brackets.
fn is_american(scan: &Scan<'_>, run: &DigitRun, from: usize, next: usize) -> bool {
    let one = scan.byte_at(run.start(from)) == b'1' && run.group_size(from) == 1;
    let area = from + usize::from(one);
    if next != area + 3 || !run.has_sizes(area, &[3, 3, 4]) {
        return false;
    }
    let brackets = run.separator_before(area + 1) == Separator::Paren;
    let last = run.separator_before(area + 2);
    brackets && matches!(last, Separator::Dash | Separator::Dot | Separator::Space)
        || run.separator_before(area + 1) == last && matches!(last, Separator::Dash | Separator::Dot)
        || one && run.separator_before(area + 1) == last && last == Separator::Space
}

/// Whether the value contains only the number.
fn is_whole_value(scan: &Scan<'_>, run: &DigitRun, from: usize, next: usize, lead: PhonePrefix) -> bool {
    let end = run.end(next - 1);
    scan.place == ScanScope::Value
        && scan.text[..lead.start(run.start(from))].trim().is_empty()
        && scan.text[extension_end(scan, end).unwrap_or(end)..].trim().is_empty()
}

/// Whether letters after a number begin an extension.
pub(super) fn has_extension(scan: &Scan<'_>, end: usize) -> bool {
    extension_end(scan, end).is_some()
}

/// Returns the end of an extension: `x123`, `ext. 123`.
fn extension_end(scan: &Scan<'_>, end: usize) -> Option<usize> {
    let rest = &scan.bytes[end..scan.bytes.len().min(end + 16)];
    let gap = usize::from(rest.first() == Some(&b' '));
    let rest = rest.get(gap..)?;
    let word = rest.iter().position(|byte| !byte.is_ascii_alphabetic())?;
    if !matches!(&rest[..word], b"x" | b"X" | b"ext" | b"Ext" | b"EXT" | b"extension") {
        return None;
    }
    let skip = rest[word..].iter().position(|byte| !matches!(byte, b'.' | b' '))?;
    let digits = rest[word + skip..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let last = end + gap + word + skip + digits;
    ((1..=6).contains(&digits) && !is_word_byte(scan.byte_at(last))).then_some(last)
}
