//! Prepares a natural-language query for the index: links and paths become words for their kind, and a query with several
//! requests is split into clauses.

use crate::actions::is_write_verb;
use crate::lexicon;
use crate::terms::TermStemmer;

/// The most characters of a query; the rest is ignored.
const MAX_QUERY_CHARS: usize = 8_000;
/// The most clauses of a query that are searched separately; above that, neighbours are joined.
const MAX_CLAUSES: usize = 12;
/// The most words before a comma that may be a connective.
const MAX_CONNECTIVE_WORDS: usize = 4;
/// The number of words after a negation to which it may apply.
const MAX_NEGATED_WORDS: usize = 2;

/// Words that connect requests but request nothing themselves.
const CONNECTIVES: &[&str] = &[
    "additionally",
    "afterward",
    "afterwards",
    "besides",
    "consequently",
    "eventually",
    "finally",
    "firstly",
    "furthermore",
    "hence",
    "however",
    "kindly",
    "lastly",
    "meanwhile",
    "moreover",
    "secondly",
    "subsequently",
    "therefore",
    "thirdly",
    "thus",
];

/// Words that are connectives only before a comma or a colon, alone or among stop words: `In the end,`.
const CONNECTIVES_BEFORE_A_COMMA: &[&str] = &[
    "addition",
    "case",
    "conclusion",
    "course",
    "done",
    "end",
    "first",
    "last",
    "next",
    "ok",
    "okay",
    "otherwise",
    "result",
    "second",
    "step",
    "thanks",
    "third",
];

/// Words after which a verb names an unwanted action.
const NEGATIONS: &[&str] = &[
    "not",
    "never",
    "without",
    "don't",
    "dont",
    "doesn't",
    "didn't",
    "can't",
    "cannot",
    "won't",
    "shouldn't",
    "mustn't",
];

/// Verbs before which `and` starts another request.
const CLAUSE_VERBS: &[&str] = &[
    "add",
    "analyze",
    "analyse",
    "build",
    "calculate",
    "call",
    "change",
    "check",
    "compare",
    "compute",
    "convert",
    "copy",
    "create",
    "delete",
    "describe",
    "download",
    "draw",
    "edit",
    "estimate",
    "execute",
    "export",
    "extract",
    "fetch",
    "find",
    "generate",
    "get",
    "give",
    "identify",
    "insert",
    "install",
    "list",
    "load",
    "look",
    "make",
    "merge",
    "move",
    "open",
    "organize",
    "plan",
    "plot",
    "post",
    "provide",
    "publish",
    "read",
    "recommend",
    "remove",
    "rename",
    "retrieve",
    "run",
    "save",
    "search",
    "send",
    "set",
    "show",
    "start",
    "stop",
    "store",
    "summarize",
    "tell",
    "translate",
    "update",
    "upload",
    "use",
    "write",
];

/// Words before a path that mean writing to it.
const SAVE_WORDS: &[&str] = &[
    "save", "saved", "saving", "write", "writing", "store", "export", "output",
];

/// A query as it is searched: the whole text, and its clauses if there are several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SearchQuery {
    pub(crate) whole: String,
    pub(crate) clauses: Vec<String>,
}

impl SearchQuery {
    pub(crate) fn parse(text: &str) -> SearchQuery {
        let end = text
            .char_indices()
            .nth(MAX_QUERY_CHARS)
            .map_or(text.len(), |(end, _)| end);
        let text = text.get(..end).unwrap_or_default();
        let words = asking_words(text);
        let mut clauses: Vec<String> = Vec::new();
        for clause in split_clauses(&words).iter().map(|clause| replace_paths(clause)) {
            if is_searchable(&clause) && !clauses.contains(&clause) {
                clauses.push(clause);
            }
        }
        SearchQuery {
            whole: replace_paths(&words),
            clauses: if clauses.len() > 1 {
                join_clauses(&clauses)
            } else {
                Vec::new()
            },
        }
    }
}

/// Joins neighbouring clauses, as evenly as possible, until there are few enough to search. The end of a long query counts as
/// much as its beginning.
fn join_clauses(clauses: &[String]) -> Vec<String> {
    let number = clauses.len().min(MAX_CLAUSES);
    let bound = |place: usize| place * clauses.len() / number.max(1);
    (0..number)
        .map(|place| {
            let some = clauses.get(bound(place)..bound(place + 1));
            some.unwrap_or_default().join(" ")
        })
        .collect()
}

/// Whether a clause has a word by which a tool can be found.
fn is_searchable(clause: &str) -> bool {
    let stems = TermStemmer::new();
    let mut says = false;
    crate::terms::for_each_word(clause, |word| says |= stems.term(word).is_some());
    says
}

/// The words of `text` without connectives and without verbs of unwanted actions.
fn asking_words(text: &str) -> Vec<&str> {
    let ends = |c: char| c.is_whitespace() || matches!(c, '。' | '；' | '！' | '？');
    let all: Vec<&str> = text
        .split_inclusive(ends)
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .collect();
    let stems = TermStemmer::new();
    let mut words: Vec<&str> = Vec::with_capacity(all.len());
    let mut place = 0;
    let mut negated = 0usize;
    while let Some(word) = all.get(place) {
        let begins = words.last().is_none_or(|last| ends_sentence(last));
        let skipped = if begins { connective_length(&all[place..]) } else { 0 };
        if skipped > 0 {
            place += skipped;
            continue;
        }
        let this = strip_punctuation(word);
        let is_unwanted = negated > 0 && is_write_verb(&stems.stem(&this));
        let is_connective = CONNECTIVES.contains(&this.as_str());
        negated = if NEGATIONS.contains(&this.as_str()) {
            MAX_NEGATED_WORDS
        } else {
            negated.saturating_sub(1)
        };
        if !(is_unwanted || is_connective) {
            words.push(word);
        } else if ends_sentence(word) {
            words.push(".");
        }
        place += 1;
    }
    words
}

/// The number of leading words that form a connective with its comma: `Finally,`, `After that,`, `In the end,`.
fn connective_length(words: &[&str]) -> usize {
    let head = words.iter().take(MAX_CONNECTIVE_WORDS);
    let Some(comma) = head.clone().position(|word| word.ends_with([',', ':', '，', '：'])) else {
        return 0;
    };
    let is_connective = |word: &&str| {
        let word = strip_punctuation(word);
        CONNECTIVES.contains(&word.as_str())
            || CONNECTIVES_BEFORE_A_COMMA.contains(&word.as_str())
            || word.chars().all(|c| c.is_ascii_digit())
            || lexicon::is_stop_word(&word)
    };
    if head.take(comma + 1).all(is_connective) {
        comma + 1
    } else {
        0
    }
}

fn ends_sentence(word: &str) -> bool {
    word.ends_with(['.', '!', '?', ';', '。', '；', '！', '？'])
}

/// The words with links and paths replaced by words for their kind.
fn replace_paths(text: &[&str]) -> String {
    let mut words: Vec<&str> = Vec::new();
    let mut saving = false;
    for word in text {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '/' | '~'));
        let lower = bare.to_lowercase();
        if lower.starts_with("http://") || lower.starts_with("https://") || lower.starts_with("www.") {
            words.push("url web page");
        } else if let Some(kind) = path_words(&lower) {
            words.push("file");
            words.push(kind);
            if saving {
                words.push("write file");
            }
        } else if lower == "path" && saving {
            words.push("write file");
        } else {
            words.push(word);
        }
        saving |= SAVE_WORDS.contains(&lower.as_str());
    }
    words.join(" ")
}

/// The words for the kind of a path; `None` if the word is not a path.
fn path_words(word: &str) -> Option<&'static str> {
    let rooted = word.len() > 1 && (word.starts_with('/') || word.starts_with("./") || word.starts_with("~/"));
    let ending = word
        .rsplit_once('.')
        .filter(|(name, _)| !name.is_empty())
        .and_then(|(_, ending)| lexicon::file_ending_words(ending));
    match (rooted, ending) {
        (true, kind) => Some(kind.unwrap_or("")),
        // `Next.js` is a name, `src/next.js` a file.
        (false, Some(kind)) if word.contains('/') || !kind.ends_with("code") => Some(kind),
        (false, _) => None,
    }
}

/// Splits the words at the ends of sentences, and where `and` or `then` starts another request.
fn split_clauses<'a>(words: &[&'a str]) -> Vec<Vec<&'a str>> {
    let mut clauses = vec![Vec::new()];
    for (place, word) in words.iter().enumerate() {
        let next = words
            .get(place + 1)
            .map(|next| strip_punctuation(next))
            .unwrap_or_default();
        let this = strip_punctuation(word);
        let begins = match this.as_str() {
            "and" => next == "then" || CLAUSE_VERBS.contains(&next.as_str()),
            "then" => place > 0,
            "well" => place > 0 && next == "as",
            _ => false,
        };
        if begins {
            clauses.push(Vec::new());
        } else if let Some(last) = clauses.last_mut() {
            last.push(*word);
        }
        let ends = ends_sentence(word) || word.ends_with(',') && CLAUSE_VERBS.contains(&next.as_str());
        if ends {
            clauses.push(Vec::new());
        }
    }
    clauses.retain(|clause| !clause.is_empty());
    clauses
}

fn strip_punctuation(word: &str) -> String {
    word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase()
}

#[cfg(test)]
mod tests;
