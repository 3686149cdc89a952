//! Finds names of people in running text, by dictionaries and surrounding words. Organisations and much else need a
//! reader with a model: see [`crate::ProseReader`].

mod address;
mod dictionary;
mod tokens;

use std::sync::LazyLock;

use crate::finding::{Evidence, SensitiveSpan};
use crate::kind::{SensitiveKind, SensitiveKinds};
use crate::word_lists::WordLists;
pub(crate) use dictionary::{fold_word, look_up};
use tokens::{TextWord, split_words};

/// Finds the names in a text.
pub(crate) fn find_names(text: &str, kinds: SensitiveKinds, out: &mut Vec<SensitiveSpan>) {
    if !kinds.contains(SensitiveKind::Name) && !kinds.contains(SensitiveKind::Address) {
        return;
    }
    let words = split_words(text, &WORD_LISTS);
    let small = !words.iter().any(|word| word.capital);
    let mut at = 0;
    while at < words.len() {
        if let Some(to) = address::address_end(&words, at).filter(|_| kinds.contains(SensitiveKind::Address)) {
            out.push(SensitiveSpan {
                start: words[at].start,
                end: words[to - 1].end,
                kind: SensitiveKind::Address,
                by: Evidence::Prose,
            });
            at = to;
            continue;
        }
        match name_at(&words, at, small) {
            ParsedName::Name(_, to) if !kinds.contains(SensitiveKind::Name) => at = to,
            ParsedName::Name(from, to) => {
                out.push(SensitiveSpan {
                    start: words[from].start,
                    end: words[to - 1].end,
                    kind: SensitiveKind::Name,
                    by: Evidence::Prose,
                });
                at = to;
            }
            ParsedName::Other(to) => at = to,
        }
    }
}

/// What a run of words was read as.
enum ParsedName {
    /// A name: its first word and the word after its last.
    Name(usize, usize),
    /// Something else, up to that word.
    Other(usize),
}

/// Most words of one name.
const MAX_NAME_WORDS: usize = 6;

/// Reads what begins at a word, or after the title there.
fn name_at(words: &[TextWord<'_>], at: usize, small: bool) -> ParsedName {
    let word = &words[at];
    let next = words
        .get(at + 1)
        .filter(|next| next.follows_directly() && !next.number && !next.is_in_lists(NON_NAME_WORDS));
    if let Some(next) = next {
        let title = word.is_in_lists(TITLE_WORDS) && (next.capital || small && !next.known.is_common_word());
        let role = word.is_in_lists(ROLE_WORDS) && next.capital && !next.is_all_caps() && next.gap == " ";
        if title || role {
            let to = name_run_end(words, at + 1, small, NameCue::Strong);
            return if to > at + 1 {
                ParsedName::Name(at + 1, to)
            } else {
                ParsedName::Other(at + 1)
            };
        }
    }
    let cue = cue_before(words, at);
    let eligible = word.capital || small && (word.known.is_given() || cue == NameCue::Strong);
    if !eligible
        || word.number
        || word.is_in_lists(NON_NAME_WORDS)
        || word.is_all_caps() && !small && cue != NameCue::Strong
    {
        return ParsedName::Other(at + 1);
    }
    let to = name_run_end(words, at, small, cue).max(at + 1);
    if is_not_a_person(words, at, to) {
        return ParsedName::Other(to);
    }
    let before = at.checked_sub(1).map(|before| &words[before]);
    if is_believable_name(&words[at..to], cue, words.get(to), before) || heads_block(words, at, to) {
        return ParsedName::Name(at, to);
    }
    ParsedName::Other(at + 1)
}

/// Whether the words are the first line of several with numbers in them: the address block below a letter.
fn heads_block(words: &[TextWord<'_>], at: usize, to: usize) -> bool {
    let run = &words[at..to];
    let first = words[..at].iter().all(|word| word.gap.is_empty()) && run[0].opens_sentence();
    let alone = words.get(to).is_some_and(|next| next.gap.contains('\n'));
    let plain = run
        .iter()
        .all(|word| !word.known.is_common_word() && !word.is_all_caps());
    first && at == 0 && alone && plain && (2..=4).contains(&run.len()) && words[to..].iter().any(|word| word.number)
}

/// How strongly the words before suggest a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NameCue {
    None,
    /// A name may follow, and so may other things.
    Weak,
    /// A name follows, even if no dictionary has it.
    Strong,
}

fn cue_before(words: &[TextWord<'_>], at: usize) -> NameCue {
    let back = |count: usize| at.checked_sub(count).map(|index| &words[index]);
    let Some(before) = back(1) else { return NameCue::None };
    let gap = words[at].gap;
    let close = gap.trim().is_empty() && !gap.contains('\n');
    let said = |count: usize, wanted: &[&str]| back(count).is_some_and(|word| word.is_any_of(wanted));
    if gap.contains('\n') {
        return NameCue::None;
    }
    let joined_key =
        before.gap.ends_with(['_', '.', '-']) || before.end > before.start && before.gap.is_empty() && at > 1;
    let named = !joined_key
        && before.is_any_of(&["name", "surname", "forename"])
        && (gap.contains(['?', ':']) || close && words[at].capital);
    let is = close && before.is_any_of(&["is", "was"]) && said(2, &["name", "surname"]);
    let called = close && before.is_any_of(&["named", "called", "nicknamed"]) && words[at].capital;
    let me = close && before.is_any_of(&["me"]) && said(2, &["call", "calls"]);
    let speaks = close
        && before.is_any_of(&["says", "said", "asked", "replied"])
        && words[at].capital
        && !words[at].is_all_caps();
    if named || is || called || me || speaks {
        return NameCue::Strong;
    }
    let greeted = before.is_any_of(&[
        "hi", "hello", "dear", "hey", "im", "i'm", "mr", "by", "says", "said", "with", "told", "ask", "contact",
        "under",
    ]);
    let joined = before.is_any_of(&["starring", "features", "featuring", "early", "between", "met", "ex"]);
    if close && (greeted || joined) {
        NameCue::Weak
    } else {
        NameCue::None
    }
}

/// Returns where the words that could be one name end.
fn name_run_end(words: &[TextWord<'_>], at: usize, small: bool, cue: NameCue) -> usize {
    let mut end = at;
    while end < words.len() && end - at < MAX_NAME_WORDS {
        let word = &words[end];
        let joined = end == at
            || word.follows_directly() && (word.gap != ". " && word.gap != "." || words[end - 1].is_initial());
        let dotted =
            word.is_initial() && words.get(end + 1).is_some_and(|next| next.gap == ". " && next.capital) && end > at;
        if dotted {
            end += 1;
            continue;
        }
        if !joined
            || word.number
            || word.is_in_lists(NON_NAME_WORDS)
            || end > at && word.is_all_caps() && !words[at].is_all_caps()
        {
            break;
        }
        let particle = end > at && word.is_in_lists(PARTICLE_WORDS) && leads_to_name(&words[end + 1..]);
        let plain = small && (word.known.is_surely_name() || end == at && cue == NameCue::Strong);
        let cued = end == at && cue == NameCue::Strong;
        if !(word.capital || particle || plain || cued) {
            break;
        }
        end += 1;
    }
    end
}

/// Whether a capitalised word follows, after at most two more particles: `van de Berg`.
fn leads_to_name(words: &[TextWord<'_>]) -> bool {
    let particle = |word: &&TextWord<'_>| word.follows_directly() && word.is_in_lists(PARTICLE_WORDS) && !word.capital;
    let mut next = words.iter().take(3).skip_while(particle);
    next.next().is_some_and(|word| word.capital && word.follows_directly())
}

/// Whether the words belong to an address, an organisation or a place.
fn is_not_a_person(words: &[TextWord<'_>], at: usize, to: usize) -> bool {
    let before = at.checked_sub(1).map(|index| &words[index]);
    let after = words.get(to);
    let numbered = before.is_some_and(|word| word.number && words[at].follows_directly());
    let body = words[at..to]
        .iter()
        .chain(after.filter(|word| word.follows_directly()))
        .any(|word| word.is_in_lists(ORGANISATION_WORDS));
    let street = words[at..to]
        .iter()
        .chain(after.filter(|word| word.follows_directly()))
        .any(|word| word.is_in_lists(STREET_WORDS));
    // A line below one with numbers continues the address.
    let under = before.is_some_and(|word| word.number) && words[at].opens_line();
    let coded =
        after.is_some_and(|word| word.gap.trim() == "," && (word.number || word.is_all_caps() && word.text.len() == 2));
    let house = after.is_some_and(|word| word.number && matches!(word.gap, " "))
        && before.is_none_or(|word| word.number || words[at].opens_line());
    numbered || body || street || house || under || coded
}

/// Whether a run of words is a name.
fn is_believable_name(
    run: &[TextWord<'_>],
    cue: NameCue,
    after: Option<&TextWord<'_>>,
    before: Option<&TextWord<'_>>,
) -> bool {
    if cue == NameCue::Strong {
        return true;
    }
    let placed =
        before.is_some_and(|word| word.is_any_of(&["in", "near", "from", "into", "to"]) && run[0].follows_directly());
    let after = after.filter(|word| word.follows_directly());
    let acts = after.is_some_and(|word| word.is_in_lists(ACTIVITY_WORDS));
    let alive = after.is_some_and(|word| word.is_in_lists(HUMAN_ACTIVITY_WORDS));
    let sure = run.iter().filter(|word| word.known.is_surely_name()).count();
    let [first, .., last] = run else {
        let one = &run[0];
        if one.known.is_given() && one.known.is_surely_name() {
            return !placed;
        }
        let known = one.known.is_surely_name() && !placed && (acts || cue == NameCue::Weak && !one.opens_sentence());
        return known || alive && one.opens_sentence() && one.text.len() >= 3;
    };
    if first.known.is_common_word() && !last.known.is_surely_name() {
        return false;
    }
    let good = first.known.is_given() || last.known.is_family() && last.known.is_surely_name();
    good && sure >= 1 && (!placed || first.known.is_given())
}

/// Titles that come before a name.
const TITLE_WORDS: u16 = 1 << 0;
/// Particles that occur inside a name.
const PARTICLE_WORDS: u16 = 1 << 1;
/// Capitalised words that begin sentences or name times and peoples, but never people.
const NON_NAME_WORDS: u16 = 1 << 2;
/// Words in the names of companies and other organisations.
const ORGANISATION_WORDS: u16 = 1 << 3;
/// Words that occur in street addresses.
const STREET_WORDS: u16 = 1 << 4;
/// Words after a name that say what someone does.
const ACTIVITY_WORDS: u16 = 1 << 5;
/// Words for what only people do.
const HUMAN_ACTIVITY_WORDS: u16 = 1 << 6;
/// Relations and professions: a name may follow.
const ROLE_WORDS: u16 = 1 << 7;

static WORD_LISTS: LazyLock<WordLists> = LazyLock::new(|| {
    WordLists::new(&[
        (
            TITLE_WORDS,
            "mr mrs ms miss dr prof professor sir madam mister herr frau señor señora monsieur madame lord",
        ),
        (TITLE_WORDS, "lady mme sra"),
        (
            PARTICLE_WORDS,
            "de van der den von la da di del dos du le bin al el ibn af av zu ter ten y",
        ),
        (
            NON_NAME_WORDS,
            "i a an the my your his her our their we you he she it they this that and or but so if in on at",
        ),
        (
            NON_NAME_WORDS,
            "to of for as is are was be not no yes can what who how why when where there here i'm i'd",
        ),
        (
            ORGANISATION_WORDS,
            "inc llc ltd corp gmbh plc group company university institute bank college school hospital",
        ),
        (
            ORGANISATION_WORDS,
            "museum foundation consulting software systems technologies labs weekly times airport church",
        ),
        (ORGANISATION_WORDS, "limited"),
        (
            STREET_WORDS,
            "street st road rd avenue ave drive lane court place way boulevard blvd square terrace parkway",
        ),
        (
            STREET_WORDS,
            "crescent close rue via calle rua avenida plaza apt suite unit psc apo fpo dpo box strasse straat laan gata vej creek",
        ),
        (STREET_WORDS, "forks"),
        (ACTIVITY_WORDS, "is was has had will would called works points sent"),
        (
            HUMAN_ACTIVITY_WORDS,
            "says said lives lived began wrote writes asked told worked went came spent shouted explained",
        ),
        (
            HUMAN_ACTIVITY_WORDS,
            "paid bought flew smiled laughed thinks thought wants wanted moved married",
        ),
        (
            ROLE_WORDS,
            "producer songwriter player director author singer actor actress president ceo kid son daughter",
        ),
        (
            ROLE_WORDS,
            "wife husband brother sister mother father friend partner colleague boss uncle aunt cousin nurse",
        ),
        (
            ROLE_WORDS,
            "teacher professor commenter minister senator captain officer customer patient",
        ),
    ])
});

#[cfg(test)]
mod tests;
