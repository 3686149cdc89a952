//! Finds names of people in running text, by dictionaries and surrounding words. Organisations and much else need a
//! reader with a model: see [`crate::Prose`].

mod address;
mod dictionary;
mod words;

use std::sync::LazyLock;

use crate::finding::{Evidence, Finding};
use crate::kind::{Kind, Kinds};
use crate::lists::Lists;
pub(crate) use dictionary::{folded, look_up};
use words::{Word, words};

/// Finds the names in a text.
pub(crate) fn find(text: &str, kinds: Kinds, out: &mut Vec<Finding>) {
    if !kinds.has(Kind::Name) && !kinds.has(Kind::Address) {
        return;
    }
    let words = words(text, &WORDS);
    let small = !words.iter().any(|word| word.capital);
    let mut at = 0;
    while at < words.len() {
        if let Some(to) = address::at(&words, at).filter(|_| kinds.has(Kind::Address)) {
            out.push(Finding {
                start: words[at].start,
                end: words[to - 1].end,
                kind: Kind::Address,
                by: Evidence::Prose,
            });
            at = to;
            continue;
        }
        match name_at(&words, at, small) {
            Read::Name(_, to) if !kinds.has(Kind::Name) => at = to,
            Read::Name(from, to) => {
                out.push(Finding {
                    start: words[from].start,
                    end: words[to - 1].end,
                    kind: Kind::Name,
                    by: Evidence::Prose,
                });
                at = to;
            }
            Read::Other(to) => at = to,
        }
    }
}

/// What a run of words was read as.
enum Read {
    /// A name: its first word and the word after its last.
    Name(usize, usize),
    /// Something else, up to that word.
    Other(usize),
}

/// Most words of one name.
const LONGEST: usize = 6;

/// Reads what begins at a word, or after the title there.
fn name_at(words: &[Word<'_>], at: usize, small: bool) -> Read {
    let word = &words[at];
    let next = words
        .get(at + 1)
        .filter(|next| next.follows() && !next.number && !next.has(NEVER));
    if let Some(next) = next {
        let title = word.has(TITLES) && (next.capital || small && !next.known.common());
        let role = word.has(ROLES) && next.capital && !next.shouted() && next.gap == " ";
        if title || role {
            let to = run_end(words, at + 1, small, Cue::Strong);
            return if to > at + 1 {
                Read::Name(at + 1, to)
            } else {
                Read::Other(at + 1)
            };
        }
    }
    let cue = cue(words, at);
    let eligible = word.capital || small && (word.known.given() || cue == Cue::Strong);
    if !eligible || word.number || word.has(NEVER) || word.shouted() && !small && cue != Cue::Strong {
        return Read::Other(at + 1);
    }
    let to = run_end(words, at, small, cue).max(at + 1);
    if is_elsewhere(words, at, to) {
        return Read::Other(to);
    }
    let before = at.checked_sub(1).map(|before| &words[before]);
    if believed(&words[at..to], cue, words.get(to), before) || heads_a_block(words, at, to) {
        return Read::Name(at, to);
    }
    Read::Other(at + 1)
}

/// Whether the words are the first line of several with numbers in them: the address block below a letter.
fn heads_a_block(words: &[Word<'_>], at: usize, to: usize) -> bool {
    let run = &words[at..to];
    let first = words[..at].iter().all(|word| word.gap.is_empty()) && run[0].opens();
    let alone = words.get(to).is_some_and(|next| next.gap.contains('\n'));
    let plain = run.iter().all(|word| !word.known.common() && !word.shouted());
    first && at == 0 && alone && plain && (2..=4).contains(&run.len()) && words[to..].iter().any(|word| word.number)
}

/// How strongly the words before suggest a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cue {
    None,
    /// A name may follow, and so may other things.
    Weak,
    /// A name follows, even if no dictionary has it.
    Strong,
}

fn cue(words: &[Word<'_>], at: usize) -> Cue {
    let back = |count: usize| at.checked_sub(count).map(|index| &words[index]);
    let Some(before) = back(1) else { return Cue::None };
    let gap = words[at].gap;
    let close = gap.trim().is_empty() && !gap.contains('\n');
    let said = |count: usize, wanted: &[&str]| back(count).is_some_and(|word| word.is(wanted));
    if gap.contains('\n') {
        return Cue::None;
    }
    let joined_key =
        before.gap.ends_with(['_', '.', '-']) || before.end > before.start && before.gap.is_empty() && at > 1;
    let named = !joined_key
        && before.is(&["name", "surname", "forename"])
        && (gap.contains(['?', ':']) || close && words[at].capital);
    let is = close && before.is(&["is", "was"]) && said(2, &["name", "surname"]);
    let called = close && before.is(&["named", "called", "nicknamed"]) && words[at].capital;
    let me = close && before.is(&["me"]) && said(2, &["call", "calls"]);
    let speaks = close && before.is(&["says", "said", "asked", "replied"]) && words[at].capital && !words[at].shouted();
    if named || is || called || me || speaks {
        return Cue::Strong;
    }
    let greeted = before.is(&[
        "hi", "hello", "dear", "hey", "im", "i'm", "mr", "by", "says", "said", "with", "told", "ask", "contact",
        "under",
    ]);
    let joined = before.is(&["starring", "features", "featuring", "early", "between", "met", "ex"]);
    if close && (greeted || joined) {
        Cue::Weak
    } else {
        Cue::None
    }
}

/// Returns where the words that could be one name end.
fn run_end(words: &[Word<'_>], at: usize, small: bool, cue: Cue) -> usize {
    let mut end = at;
    while end < words.len() && end - at < LONGEST {
        let word = &words[end];
        let joined = end == at || word.follows() && (word.gap != ". " && word.gap != "." || words[end - 1].initial());
        let dotted =
            word.initial() && words.get(end + 1).is_some_and(|next| next.gap == ". " && next.capital) && end > at;
        if dotted {
            end += 1;
            continue;
        }
        if !joined || word.number || word.has(NEVER) || end > at && word.shouted() && !words[at].shouted() {
            break;
        }
        let particle = end > at && word.has(PARTICLES) && leads_to_a_name(&words[end + 1..]);
        let plain = small && (word.known.sure() || end == at && cue == Cue::Strong);
        let cued = end == at && cue == Cue::Strong;
        if !(word.capital || particle || plain || cued) {
            break;
        }
        end += 1;
    }
    end
}

/// Whether a capitalised word follows, after at most two more particles: `van de Berg`.
fn leads_to_a_name(words: &[Word<'_>]) -> bool {
    let particle = |word: &&Word<'_>| word.follows() && word.has(PARTICLES) && !word.capital;
    let mut next = words.iter().take(3).skip_while(particle);
    next.next().is_some_and(|word| word.capital && word.follows())
}

/// Whether the words belong to an address, an organisation or a place.
fn is_elsewhere(words: &[Word<'_>], at: usize, to: usize) -> bool {
    let before = at.checked_sub(1).map(|index| &words[index]);
    let after = words.get(to);
    let numbered = before.is_some_and(|word| word.number && words[at].follows());
    let body = words[at..to]
        .iter()
        .chain(after.filter(|word| word.follows()))
        .any(|word| word.has(BODIES));
    let street = words[at..to]
        .iter()
        .chain(after.filter(|word| word.follows()))
        .any(|word| word.has(STREETS));
    // A line below one with numbers continues the address.
    let under = before.is_some_and(|word| word.number) && words[at].opens_line();
    let coded =
        after.is_some_and(|word| word.gap.trim() == "," && (word.number || word.shouted() && word.text.len() == 2));
    let house = after.is_some_and(|word| word.number && matches!(word.gap, " "))
        && before.is_none_or(|word| word.number || words[at].opens_line());
    numbered || body || street || house || under || coded
}

/// Whether a run of words is a name.
fn believed(run: &[Word<'_>], cue: Cue, after: Option<&Word<'_>>, before: Option<&Word<'_>>) -> bool {
    if cue == Cue::Strong {
        return true;
    }
    let placed = before.is_some_and(|word| word.is(&["in", "near", "from", "into", "to"]) && run[0].follows());
    let after = after.filter(|word| word.follows());
    let acts = after.is_some_and(|word| word.has(ACTS));
    let alive = after.is_some_and(|word| word.has(ALIVE));
    let sure = run.iter().filter(|word| word.known.sure()).count();
    let [first, .., last] = run else {
        let one = &run[0];
        if one.known.given() && one.known.sure() {
            return !placed;
        }
        let known = one.known.sure() && !placed && (acts || cue == Cue::Weak && !one.opens());
        return known || alive && one.opens() && one.text.len() >= 3;
    };
    if first.known.common() && !last.known.sure() {
        return false;
    }
    let good = first.known.given() || last.known.family() && last.known.sure();
    good && sure >= 1 && (!placed || first.known.given())
}

/// Titles that come before a name.
const TITLES: u16 = 1 << 0;
/// Particles that occur inside a name.
const PARTICLES: u16 = 1 << 1;
/// Capitalised words that begin sentences or name times and peoples, but never people.
const NEVER: u16 = 1 << 2;
/// Words in the names of companies and other organisations.
const BODIES: u16 = 1 << 3;
/// Words that occur in street addresses.
const STREETS: u16 = 1 << 4;
/// Words after a name that say what someone does.
const ACTS: u16 = 1 << 5;
/// Words for what only people do.
const ALIVE: u16 = 1 << 6;
/// Relations and professions: a name may follow.
const ROLES: u16 = 1 << 7;

static WORDS: LazyLock<Lists> = LazyLock::new(|| {
    Lists::new(&[
        (
            TITLES,
            "mr mrs ms miss dr prof professor sir madam mister herr frau señor señora monsieur madame lord",
        ),
        (TITLES, "lady mme sra"),
        (
            PARTICLES,
            "de van der den von la da di del dos du le bin al el ibn af av zu ter ten y",
        ),
        (
            NEVER,
            "i a an the my your his her our their we you he she it they this that and or but so if in on at",
        ),
        (
            NEVER,
            "to of for as is are was be not no yes can what who how why when where there here i'm i'd",
        ),
        (
            BODIES,
            "inc llc ltd corp gmbh plc group company university institute bank college school hospital",
        ),
        (
            BODIES,
            "museum foundation consulting software systems technologies labs weekly times airport church",
        ),
        (BODIES, "limited"),
        (
            STREETS,
            "street st road rd avenue ave drive lane court place way boulevard blvd square terrace parkway",
        ),
        (
            STREETS,
            "crescent close rue via calle rua avenida plaza apt suite unit psc apo fpo dpo box strasse straat laan gata vej creek",
        ),
        (STREETS, "forks"),
        (ACTS, "is was has had will would called works points sent"),
        (
            ALIVE,
            "says said lives lived began wrote writes asked told worked went came spent shouted explained",
        ),
        (
            ALIVE,
            "paid bought flew smiled laughed thinks thought wants wanted moved married",
        ),
        (
            ROLES,
            "producer songwriter player director author singer actor actress president ceo kid son daughter",
        ),
        (
            ROLES,
            "wife husband brother sister mother father friend partner colleague boss uncle aunt cousin nurse",
        ),
        (
            ROLES,
            "teacher professor commenter minister senator captain officer customer patient",
        ),
    ])
});

#[cfg(test)]
mod tests;
