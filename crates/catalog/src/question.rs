//! A question in plain words, made ready for the index: links and paths become words for what they are, and a question that
//! asks for several things falls into clauses.

use crate::lexicon;

/// Characters of a question that are read; the rest is not part of it.
const LONGEST: usize = 2_000;
/// Clauses of a question that are looked at.
const CLAUSES: usize = 6;

/// After these, `and` begins another thing to do.
const VERBS: &[&str] = &[
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

/// Words before a path that say something is put there.
const SAVING: &[&str] = &[
    "save", "saved", "saving", "write", "writing", "store", "export", "output",
];

/// The question as it is looked up: the whole, and its clauses if there are several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) whole: String,
    pub(crate) clauses: Vec<String>,
}

impl Question {
    pub(crate) fn read(text: &str) -> Question {
        let end = text.char_indices().nth(LONGEST).map_or(text.len(), |(end, _)| end);
        let text = text.get(..end).unwrap_or_default();
        let clauses: Vec<String> = clauses(text)
            .iter()
            .map(|clause| typed(clause))
            .filter(|clause| clause.chars().any(char::is_alphanumeric))
            .take(CLAUSES)
            .collect();
        Question {
            whole: typed(text),
            clauses: if clauses.len() > 1 { clauses } else { Vec::new() },
        }
    }
}

/// The words of `text`, with links and paths as what they are.
fn typed(text: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    let mut saving = false;
    for word in text.split_whitespace() {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '/' | '~'));
        let lower = bare.to_lowercase();
        if lower.starts_with("http://") || lower.starts_with("https://") || lower.starts_with("www.") {
            words.push("url web page");
        } else if let Some(kind) = path(&lower) {
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
        saving |= SAVING.contains(&lower.as_str());
    }
    words.join(" ")
}

/// What a path is of, in words; `None` for what is no path.
fn path(word: &str) -> Option<&'static str> {
    let rooted = word.len() > 1 && (word.starts_with('/') || word.starts_with("./") || word.starts_with("~/"));
    let ending = word
        .rsplit_once('.')
        .filter(|(name, _)| !name.is_empty())
        .and_then(|(_, ending)| lexicon::ending(ending));
    match (rooted, ending) {
        (true, kind) => Some(kind.unwrap_or("")),
        // `Next.js` is a name, `src/next.js` a file.
        (false, Some(kind)) if word.contains('/') || !kind.ends_with("code") => Some(kind),
        (false, _) => None,
    }
}

/// `text` cut at the ends of sentences and where `and` or `then` begins another thing to do.
fn clauses(text: &str) -> Vec<String> {
    let mut clauses = vec![Vec::new()];
    let words: Vec<&str> = text.split_whitespace().collect();
    for (place, word) in words.iter().enumerate() {
        let next = words.get(place + 1).map(|next| bare(next)).unwrap_or_default();
        let this = bare(word);
        let begins = match this.as_str() {
            "and" => next == "then" || VERBS.contains(&next.as_str()),
            "then" => place > 0,
            "well" => place > 0 && next == "as",
            _ => false,
        };
        if begins {
            clauses.push(Vec::new());
        } else if let Some(last) = clauses.last_mut() {
            last.push(*word);
        }
        let ends = word.ends_with(['.', '!', '?', ';', '。', '；', '！', '？'])
            || word.ends_with(',') && VERBS.contains(&next.as_str());
        if ends {
            clauses.push(Vec::new());
        }
    }
    clauses
        .into_iter()
        .filter(|clause| !clause.is_empty())
        .map(|clause| clause.join(" "))
        .collect()
}

fn bare(word: &str) -> String {
    word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase()
}

#[cfg(test)]
mod tests;
