//! Actions that a query requests and that tools perform, by their verbs. A tool that does the opposite of the request ranks
//! lower, and so does a tool that writes if the query only reads.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::index::SearchIndex;
use crate::ranking_weights::{OPPOSITE_FACTOR, UNASKED_WRITE_FACTOR, UNSURE_WRITE_FACTOR};
use crate::terms::{TermStemmer, for_each_word};
use crate::tool::Tool;

/// Verbs of tools that change nothing, and words of queries that request no change.
const READ_VERBS: &str = "get list search find read fetch show view describe query lookup look count check browse retrieve inspect \
validate verify preview diff is has exist what which who when where whose display see tell many";

/// Verbs of tools that change something.
const WRITE_VERBS: &str = "create add insert write save store put post patch update edit modify change set rename move delete remove \
drop erase clear purge truncate send publish unpublish submit upload push merge commit close reopen archive unarchive restore \
lock unlock block unblock enable disable activate deactivate restart kill terminate cancel approve reject decline assign \
unassign invite ban unban mute unmute subscribe unsubscribe follow unfollow pin unpin star unstar install uninstall deploy \
rollback revoke grant reset transfer pay refund charge append replace reply forward register attach detach unlink mark toggle \
upsert destroy void adjust share";

/// Further words of queries that may request a change. They are nouns in the names of too many tools to classify those.
const POSSIBLE_WRITE_WORDS: &str = "make new generate build prepare order book reserve buy purchase sell draw design produce compose draft \
record log note remember download export import convert fill click type press complete finish turn start stop pause resume end \
run execute launch open schedule plan organize copy sync apply do perform help translate email message notify remind tag label \
increase decrease raise lower ship deliver return escalate solve resolve hire fire promote analyze summarize report";

/// Pairs of words with opposite meanings. A word and its form with `un` need no entry.
const OPPOSITE_PAIRS: &[(&str, &str)] = &[
    ("enable", "disable"),
    ("activate", "deactivate"),
    ("connect", "disconnect"),
    ("attach", "detach"),
    ("encrypt", "decrypt"),
    ("encode", "decode"),
    ("compress", "decompress"),
    ("increase", "decrease"),
    ("start", "stop"),
    ("pause", "resume"),
    ("reopen", "close"),
    ("open", "close"),
    ("show", "hide"),
    ("approve", "reject"),
    ("approve", "decline"),
    ("accept", "reject"),
    ("accept", "decline"),
    ("allow", "deny"),
    ("grant", "revoke"),
    ("login", "logout"),
    ("win", "lose"),
    ("mount", "umount"),
];

/// The fewest letters of a word whose form with `un` counts as its opposite.
const MIN_OPPOSITE_LETTERS: usize = 4;

struct VerbLists {
    reads: HashSet<String>,
    writes: HashSet<String>,
    may_write: HashSet<String>,
    opposites: HashMap<String, Vec<String>>,
}

static VERB_LISTS: LazyLock<VerbLists> = LazyLock::new(|| {
    let stems = TermStemmer::new();
    let all = |list: &str| list.split_whitespace().map(|word| stems.stem(word)).collect();
    let mut opposites: HashMap<String, Vec<String>> = HashMap::new();
    for (one, other) in OPPOSITE_PAIRS {
        let (one, other) = (stems.stem(one), stems.stem(other));
        opposites.entry(one.clone()).or_default().push(other.clone());
        opposites.entry(other).or_default().push(one);
    }
    VerbLists {
        reads: all(READ_VERBS),
        writes: all(WRITE_VERBS),
        may_write: all(POSSIBLE_WRITE_WORDS),
        opposites,
    }
});

/// Whether the word with this stem is a verb that changes something.
pub(crate) fn is_write_verb(stem: &str) -> bool {
    VERB_LISTS.writes.contains(stem)
}

/// The effect of a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum ToolEffect {
    /// The tool only reads, or its effect is unknown.
    #[default]
    Reads,
    /// The tool writes; the stem of its verb.
    Writes(String),
}

impl ToolEffect {
    /// Classifies a tool by the hints of its server, otherwise by the first verb of its name.
    pub(crate) fn classify(tool: &Tool, stems: &TermStemmer) -> ToolEffect {
        let mut name = Vec::new();
        for_each_word(tool.short_name(), |word| name.push(stems.stem(word)));
        let verb = name
            .iter()
            .find(|stem| VERB_LISTS.reads.contains(*stem) || is_write_verb(stem));
        let hints = tool.definition.hints;
        let writes = match (hints.read_only, hints.destructive) {
            (Some(true), _) => false,
            (Some(false), _) | (None, Some(true)) => true,
            (None, _) => verb.is_some_and(|stem| is_write_verb(stem)),
        };
        match verb.filter(|stem| is_write_verb(stem)).or(name.first()) {
            Some(verb) if writes => ToolEffect::Writes(verb.clone()),
            _ => ToolEffect::Reads,
        }
    }
}

/// Whether two stems have opposite meanings.
fn are_opposite(one: &str, other: &str) -> bool {
    let without = |word: &str, base: &str| word.strip_prefix("un") == Some(base) && base.len() >= MIN_OPPOSITE_LETTERS;
    without(one, other)
        || without(other, one)
        || VERB_LISTS
            .opposites
            .get(one)
            .is_some_and(|list| list.iter().any(|opposite| opposite == other))
}

/// The stems with the opposite meaning of this one.
fn opposite_stems(stem: &str) -> Vec<String> {
    let mut all = VERB_LISTS.opposites.get(stem).cloned().unwrap_or_default();
    all.extend(
        stem.strip_prefix("un")
            .filter(|base| base.len() >= MIN_OPPOSITE_LETTERS)
            .map(str::to_owned),
    );
    if stem.len() >= MIN_OPPOSITE_LETTERS {
        all.push(format!("un{stem}"));
    }
    all
}

/// The actions that a query requests, by the stems of its words.
pub(crate) struct AskedActions<'a> {
    stems: &'a HashMap<String, f32>,
    opposites: Vec<(String, &'a str)>,
    /// The factor for the score of a tool that writes without being asked to.
    write: f32,
}

impl<'a> AskedActions<'a> {
    /// `all` are the stems of all words in their order, stop words included. The first verb determines the requested action; a
    /// later verb may be a noun and only makes it less certain.
    pub(crate) fn new(stems: &'a HashMap<String, f32>, all: &[String]) -> AskedActions<'a> {
        let mut list: Vec<(String, &str)> = stems
            .keys()
            .flat_map(|stem| {
                opposite_stems(stem)
                    .into_iter()
                    .map(move |opposite| (opposite, stem.as_str()))
            })
            .filter(|(opposite, _)| !stems.contains_key(opposite))
            .collect();
        list.sort_unstable();
        let reads = |stem: &String| VERB_LISTS.reads.contains(stem);
        let may_write = |stem: &String| is_write_verb(stem) || VERB_LISTS.may_write.contains(stem);
        let write = match all.iter().find(|stem| reads(stem) || may_write(stem)) {
            Some(first) if !reads(first) => 1.0,
            Some(_) if !all.iter().any(may_write) => UNASKED_WRITE_FACTOR,
            Some(_) | None => UNSURE_WRITE_FACTOR,
        };
        AskedActions {
            stems,
            opposites: list,
            write,
        }
    }
}

impl SearchIndex {
    /// Lowers the scores of tools that do the opposite of the request, or write without being asked to.
    pub(crate) fn weigh_actions(&self, scores: &mut [f32], asked: &AskedActions<'_>) {
        let mut lowered = HashSet::new();
        for (opposite, stem) in &asked.opposites {
            for tool in self.tools_named(opposite) {
                if !self.tools_named(stem).contains(tool) && lowered.insert(*tool) {
                    scores[*tool as usize] *= OPPOSITE_FACTOR;
                }
            }
        }
        if asked.write < 1.0 {
            for (score, effect) in scores.iter_mut().zip(&self.effects) {
                if let ToolEffect::Writes(verb) = effect
                    && !asked.stems.contains_key(verb)
                {
                    *score *= asked.write;
                }
            }
        }
    }

    /// Whether the names of two tools have opposite meanings: then neither can replace the other.
    pub(crate) fn are_opposite(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.names[one], &self.names[other]);
        let only = |these: &'_ [String], those: &'_ [String]| -> Vec<String> {
            these.iter().filter(|stem| !those.contains(stem)).cloned().collect()
        };
        let (ours, theirs) = (only(one, other), only(other, one));
        ours.iter()
            .any(|stem| theirs.iter().any(|other| are_opposite(stem, other)))
    }
}

#[cfg(test)]
mod tests;
