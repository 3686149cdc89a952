//! Telephone numbers, national and international. Forms that only telephone numbers have are found anywhere; others
//! need a word nearby, or must be a whole value.

use super::context::{self, Context};
use super::number::{Run, Sep, is_word};
use super::{Place, Scan};

/// How much the form of a number suggests a telephone number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
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
pub(super) fn at(
    scan: &Scan<'_>,
    run: &Run,
    from: usize,
    to: usize,
    around: &mut Context,
) -> Option<(usize, usize, usize)> {
    let most = (from + 7).min(to);
    let lead = Lead::before(scan, run.start(from));
    for next in (from + 1..=most).rev() {
        let form = form(scan, run, from, next, lead);
        let good = match form {
            Form::Never => false,
            Form::Sure => true,
            Form::Likely if whole(scan, run, from, next, lead) => true,
            Form::Likely | Form::Possible => around.has(scan, context::PHONE),
        };
        if good {
            let end = run.end(next - 1);
            let end = if next == to {
                extension(scan, end).unwrap_or(end)
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
enum Lead {
    None,
    Plus,
    Paren,
    PlusParen,
    /// Something that no telephone number follows: money, a sign, a fraction.
    Other,
}

impl Lead {
    fn before(scan: &Scan<'_>, start: usize) -> Lead {
        let two = start.checked_sub(2).map_or(b' ', |index| scan.byte(index));
        match (two, scan.before(start)) {
            (b'+', b'(') | (b'(', b'+') => Lead::PlusParen,
            (_, b'+') => Lead::Plus,
            (_, b'(') => Lead::Paren,
            (_, b'$' | b'#' | b'.' | b'-' | b'/' | b'=' | b'_' | b'*' | b'~' | b'^' | b'<' | b'>') => Lead::Other,
            _ => Lead::None,
        }
    }

    fn start(self, first: usize) -> usize {
        match self {
            Lead::None | Lead::Other => first,
            Lead::Plus | Lead::Paren => first - 1,
            Lead::PlusParen => first - 2,
        }
    }

    fn is_plus(self) -> bool {
        matches!(self, Lead::Plus | Lead::PlusParen)
    }
}

fn form(scan: &Scan<'_>, run: &Run, from: usize, next: usize, lead: Lead) -> Form {
    let total = run.total(from, next);
    if !(6..=15).contains(&total) || run.count() > next && matches!(run.sep(next), Sep::Dot | Sep::Dash | Sep::Slash) {
        return Form::Never;
    }
    let first = run.size(from);
    let sizes = (from + 1..next).map(|group| run.size(group));
    let slashes = (from + 1..next).filter(|group| run.sep(*group) == Sep::Slash).count();
    if slashes > 1 {
        return Form::Never;
    }
    if lead.is_plus() {
        return international(scan, run, from, next, total);
    }
    let zeros = scan.byte(run.start(from)) == b'0';
    let double = zeros && scan.byte(run.start(from) + 1) == b'0';
    let country = matches!(scan.byte(run.start(from) + 2), b'1'..=b'9');
    if double && country && first >= 3 && total >= 10 && next > from + 1 {
        return Form::Sure;
    }
    if american(scan, run, from, next) || lead == Lead::None && national(scan, run, from, next) {
        return Form::Sure;
    }
    let closed = from + 1 < next && run.sep(from + 1) == Sep::Paren;
    if lead == Lead::Paren
        && closed
        && (2..=5).contains(&first)
        && (7..=11).contains(&total)
        && sizes.clone().all(|size| size >= 2)
    {
        return Form::Sure;
    }
    if lead == Lead::Other || lead == Lead::Paren {
        return Form::Never;
    }
    let even = sizes.clone().all(|size| (2..=8).contains(&size));
    let same = run.same_sep(from, next);
    let groups = next - from;
    let grouped = even && (1..=5).contains(&first) && same.is_some_and(|sep| sep != Sep::Slash);
    if zeros
        && !double
        && groups >= 3
        && first >= 2
        && (9..=11).contains(&total)
        && grouped
        && sizes.clone().all(|size| size <= 4)
    {
        return Form::Sure;
    }
    if groups == 2 && same == Some(Sep::Dot) {
        return Form::Never;
    }
    if groups >= 2 && first >= 2 && grouped {
        let usual = (7..=11).contains(&total) && (groups >= 3 || zeros || sizes.clone().all(|size| size == 4));
        return if usual { Form::Likely } else { Form::Possible };
    }
    let bare = groups == 1 && (7..=12).contains(&total);
    if bare || even && groups >= 2 && (7..=12).contains(&total) {
        return Form::Possible;
    }
    Form::Never
}

/// Returns the form of a number after a plus: a country code, then groups of any size.
fn international(scan: &Scan<'_>, run: &Run, from: usize, next: usize, total: usize) -> Form {
    let written = next > from + 1 || total >= 9;
    let begins = scan.byte(run.start(from)) != b'0';
    let last = run.size(next - 1);
    if begins && written && total >= 8 && last >= 2 {
        Form::Sure
    } else {
        Form::Never
    }
}

/// Whether the groups form a national number that hardly anything else looks like, for the most populous countries.
fn national(scan: &Scan<'_>, run: &Run, from: usize, next: usize) -> bool {
    let digit = |index: usize| scan.byte(run.start(from) + index);
    let (one, two) = (digit(0), digit(1));
    let shaped = |sizes: &[usize]| next == from + sizes.len() && run.shaped(from, sizes);
    let plain = (from + 1..next).all(|group| matches!(run.sep(group), Sep::Space | Sep::Dash));
    if !plain {
        // Russia, with brackets around the area code after the eight.
        let second = run.count() > from + 1 && matches!(scan.byte(run.start(from + 1)), b'3' | b'4' | b'8' | b'9');
        return one == b'8' && shaped(&[1, 3, 3, 2, 2]) && second;
    }
    let dashed = next > from + 1 && run.sep(next - 1) == Sep::Dash;
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
        b'1'..=b'9' if shaped(&[2, 5, 4]) => dashed && scan.byte(run.start(from + 1)) == b'9',
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
fn american(scan: &Scan<'_>, run: &Run, from: usize, next: usize) -> bool {
    let one = scan.byte(run.start(from)) == b'1' && run.size(from) == 1;
    let area = from + usize::from(one);
    if next != area + 3 || !run.shaped(area, &[3, 3, 4]) {
        return false;
    }
    let brackets = run.sep(area + 1) == Sep::Paren;
    let last = run.sep(area + 2);
    brackets && matches!(last, Sep::Dash | Sep::Dot | Sep::Space)
        || run.sep(area + 1) == last && matches!(last, Sep::Dash | Sep::Dot)
        || one && run.sep(area + 1) == last && last == Sep::Space
}

/// Whether the value contains only the number.
fn whole(scan: &Scan<'_>, run: &Run, from: usize, next: usize, lead: Lead) -> bool {
    let end = run.end(next - 1);
    scan.place == Place::Value
        && scan.text[..lead.start(run.start(from))].trim().is_empty()
        && scan.text[extension(scan, end).unwrap_or(end)..].trim().is_empty()
}

/// Whether letters after a number begin an extension.
pub(super) fn extends(scan: &Scan<'_>, end: usize) -> bool {
    extension(scan, end).is_some()
}

/// Returns the end of an extension: `x123`, `ext. 123`.
fn extension(scan: &Scan<'_>, end: usize) -> Option<usize> {
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
    ((1..=6).contains(&digits) && !is_word(scan.byte(last))).then_some(last)
}
