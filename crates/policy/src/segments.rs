//! Patterns made of parts between separators: `*` within one part, `**` over many. One matcher serves names, hosts, URL paths and
//! file globs. It also decides containment: a pattern contains another if it matches the other with its wildcards as symbols.

use std::ops::RangeInclusive;

/// One symbol inside a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PatternToken {
    Literal(char),
    /// Any run of characters, including none.
    Star,
    /// Exactly one character, whichever.
    Question,
    /// One character of a bracket class. Boxed, because a pattern has many literals and few classes.
    Class(Box<CharClass>),
}

/// The characters between two brackets, or all others if negated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CharClass {
    pub(crate) negated: bool,
    pub(crate) ranges: Vec<RangeInclusive<char>>,
}

impl CharClass {
    fn contains(&self, c: char) -> bool {
        self.ranges.iter().any(|range| range.contains(&c)) != self.negated
    }
}

/// One part between separators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PatternPart {
    /// Any number of parts, including none.
    Many,
    One(Vec<PatternToken>),
}

impl PatternPart {
    pub(crate) fn any() -> Self {
        Self::One(vec![PatternToken::Star])
    }

    pub(crate) fn is_any(&self) -> bool {
        matches!(self, Self::One(pieces) if pieces.as_slice() == [PatternToken::Star])
    }

    /// Whether this part matches one name; never for `Many`, which stands for several names.
    pub(crate) fn is_name(&self, name: &str) -> bool {
        match self {
            Self::Many => false,
            Self::One(pieces) => pieces_match(pieces, name),
        }
    }
}

/// A pattern, or a text as a pattern of literals only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segments(Vec<PatternPart>);

impl Segments {
    /// Brings the parts into a normal order, so that equivalent wildcards compare equal.
    pub(crate) fn new(parts: Vec<PatternPart>) -> Self {
        let mut normal: Vec<PatternPart> = Vec::with_capacity(parts.len());
        let mut many = false;
        for part in parts {
            if part == PatternPart::Many {
                many = true;
            } else {
                // Within a run of wildcards, the single ones come first.
                if many && !part.is_any() {
                    normal.push(PatternPart::Many);
                    many = false;
                }
                normal.push(part);
            }
        }
        if many {
            normal.push(PatternPart::Many);
        }
        Self(normal)
    }

    /// A pattern that matches only the text with these parts.
    pub(crate) fn literal<'a>(parts: impl Iterator<Item = &'a str>) -> Self {
        Self(
            parts
                .map(|part| PatternPart::One(part.chars().map(PatternToken::Literal).collect()))
                .collect(),
        )
    }

    pub(crate) fn parts(&self) -> &[PatternPart] {
        &self.0
    }

    /// Whether this pattern matches every text that `other` matches. It never returns true wrongly.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match_wildcards(
            &self.0,
            &other.0,
            |part| *part == PatternPart::Many,
            |mine, theirs| match (mine, theirs) {
                (PatternPart::One(mine), PatternPart::One(theirs)) => part_covers(mine, theirs),
                (PatternPart::Many, _) | (_, PatternPart::Many) => false,
            },
        )
    }
}

fn part_covers(mine: &[PatternToken], theirs: &[PatternToken]) -> bool {
    match_wildcards(
        mine,
        theirs,
        |piece| *piece == PatternToken::Star,
        |mine, theirs| match (mine, theirs) {
            (PatternToken::Star, _) | (_, PatternToken::Star) => false,
            (PatternToken::Question, _) => true,
            (PatternToken::Class(class), PatternToken::Literal(c)) => class.contains(*c),
            (mine, theirs) => mine == theirs,
        },
    )
}

/// Like `walk`, but over the characters of a text without a copy.
fn pieces_match(pieces: &[PatternToken], text: &str) -> bool {
    let (mut p, mut rest) = (0, text.chars());
    let mut back: Option<(usize, std::str::Chars<'_>)> = None;
    loop {
        let mut ahead = rest.clone();
        let next = ahead.next();
        match (pieces.get(p), next) {
            (Some(PatternToken::Star), _) => {
                p += 1;
                back = Some((p, rest.clone()));
            }
            (None, None) => return true,
            (Some(piece), Some(c)) if matches_char(piece, c) => {
                p += 1;
                rest = ahead;
            }
            (_, None) => return false,
            (_, Some(_)) => {
                let Some((after, from)) = back.as_mut() else {
                    return false;
                };
                from.next();
                p = *after;
                rest = from.clone();
            }
        }
    }
}

fn matches_char(piece: &PatternToken, c: char) -> bool {
    match piece {
        PatternToken::Star => false,
        PatternToken::Question => true,
        PatternToken::Literal(literal) => *literal == c,
        PatternToken::Class(class) => class.contains(c),
    }
}

/// The two-pointer wildcard match: at most `pattern × text` steps, without recursion.
fn match_wildcards<T>(pattern: &[T], text: &[T], is_star: impl Fn(&T) -> bool, same: impl Fn(&T, &T) -> bool) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(symbol) if is_star(symbol) => {
                back = Some((p + 1, t));
                p += 1;
            }
            Some(symbol) if same(symbol, &text[t]) => {
                p += 1;
                t += 1;
            }
            _ => match back {
                Some((after, from)) => {
                    back = Some((after, from + 1));
                    p = after;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(is_star)
}

/// Parses one part with `*` as its only wildcard; `None` for a `**` inside a longer part.
pub(crate) fn parse_starred(part: &str) -> Option<PatternPart> {
    match part {
        "**" => Some(PatternPart::Many),
        part if part.contains("**") => None,
        part => Some(PatternPart::One(
            part.chars()
                .map(|c| {
                    if c == '*' {
                        PatternToken::Star
                    } else {
                        PatternToken::Literal(c)
                    }
                })
                .collect(),
        )),
    }
}

/// Reads `**` as "one or more": one part, then any number.
pub(crate) fn at_least_one(parts: Vec<PatternPart>) -> Vec<PatternPart> {
    parts
        .into_iter()
        .flat_map(|part| match part {
            PatternPart::Many => vec![PatternPart::any(), PatternPart::Many],
            one @ PatternPart::One(_) => vec![one],
        })
        .collect()
}
