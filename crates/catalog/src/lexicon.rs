//! General knowledge about words in the domain of tools: stop words, groups of synonyms, a Chinese glossary, and the meaning of
//! file extensions. No entry is specific to a product's tools.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::glossary;
use crate::terms::TermStemmer;

/// Words that do not describe what a tool does. They include verbs of asking, but no verbs of action.
const STOP_WORDS: &str = "a about above across after again all also am an and any are as at be because been before being below \
between both but by can could did do does doing done during each etc few for from further had has have having he her here \
hers him his how i if in into is it its itself just like may me might mine more most must my myself no nor not now of off \
on once only or other our ours out over own per please same shall she should so some such than that the their theirs them \
then there these they this those through to too under until up upon us use used useful user uses using very via want was \
we well were what when where whether which while who whom whose why will with within without would you your yours yourself \
need help let tell give provide provided provides based given specific specified various e g s t re ve ll d m";

/// Each line is a group of synonyms: a query with one of the words also matches the others, with less weight.
const SYNONYM_GROUPS: &[&str] = &[
    "create add new make insert",
    "delete remove drop erase",
    "get fetch retrieve obtain read load",
    "list show enumerate browse display",
    "search find lookup query discover",
    "update edit modify change set",
    "write save store export",
    "send post publish submit",
    "run execute launch start invoke",
    "stop kill terminate cancel end",
    "convert transform format",
    "compute calculate evaluate math calculator",
    "compare diff difference",
    "image picture photo photograph img",
    "movie film cinema",
    "video clip youtube",
    "music song audio track sound",
    "chart plot graph visualization diagram",
    "draw paint canvas sketch",
    "ppt powerpoint slide presentation pptx",
    "excel spreadsheet workbook worksheet xlsx sheet",
    "word docx document paragraph",
    "price cost quote",
    "stock share equity ticker",
    "finance financial economic economy income earnings balance",
    "llm ai gpt chatbot artificial intelligence",
    "technology tech digital electronics gadget",
    "crypto cryptocurrency bitcoin coin btc eth",
    "currency exchange forex",
    "weather forecast temperature climate",
    "route direction navigation path commute",
    "place location poi spot venue",
    "map geocode coordinate latitude longitude address",
    "nearby around near surrounding",
    "bike bicycle cycling",
    "train railway rail",
    "flight airline airport",
    "ticket booking reservation",
    "hotel accommodation lodging homestay airbnb",
    "restaurant dining cafe",
    "recipe dish meal cook cooking food",
    "paper article publication literature research",
    "summary summarize overview abstract",
    "news headline trend trending",
    "today current now latest recent",
    "time date clock timezone",
    "calendar event schedule meeting appointment",
    "email mail inbox gmail",
    "message chat conversation",
    "directory folder",
    "repository repo git",
    "code source program script",
    "commit revision",
    "issue ticket bug",
    "package library dependency module npm",
    "documentation docs doc reference",
    "website webpage web page site url",
    "browser navigate open visit",
    "click press tap",
    "type fill input enter",
    "download fetch wget",
    "screenshot capture snapshot",
    "database sql table query",
    "translate translation language",
    "task todo reminder",
    "note memo memory",
    "person people contact profile",
    "company business organization corporation",
    "drug medicine medication",
    "disease condition symptom medical health clinical trial",
    "game player gaming match character",
    "random pick choose lottery",
    "domain dns whois",
    "scan recon reconnaissance vulnerability",
    "product item goods shopping purchase buy",
    "sale selling seller bestseller",
    "job career vacancy",
    "book novel reading",
    "log logs logging",
    "error exception failure",
    "metric statistic stat analytics",
];

/// The meaning of file extensions, in words that tools use.
const FILE_ENDINGS: &[(&str, &str)] = &[
    ("ppt", "powerpoint presentation slide"),
    ("pptx", "powerpoint presentation slide"),
    ("xls", "excel spreadsheet workbook"),
    ("xlsx", "excel spreadsheet workbook"),
    ("csv", "csv data table"),
    ("doc", "word document"),
    ("docx", "word document"),
    ("pdf", "pdf document"),
    ("md", "markdown text"),
    ("txt", "text"),
    ("log", "log text"),
    ("json", "json"),
    ("xml", "xml"),
    ("yaml", "yaml"),
    ("yml", "yaml"),
    ("html", "html page"),
    ("htm", "html page"),
    ("png", "image"),
    ("jpg", "image"),
    ("jpeg", "image"),
    ("gif", "image"),
    ("svg", "svg image"),
    ("webp", "image"),
    ("mp3", "audio music"),
    ("wav", "audio music"),
    ("flac", "audio music"),
    ("mp4", "video"),
    ("mov", "video"),
    ("mkv", "video"),
    ("zip", "archive"),
    ("tar", "archive"),
    ("gz", "archive"),
    ("db", "database"),
    ("sqlite", "sqlite database"),
    ("sql", "sql"),
    ("py", "python code"),
    ("js", "javascript code"),
    ("ts", "typescript code"),
    ("rs", "rust code"),
    ("go", "go code"),
    ("sh", "shell script"),
    ("ipynb", "notebook"),
    ("bib", "bibliography reference text"),
    ("tex", "latex text"),
];

static STOP_WORD_SET: LazyLock<HashSet<&str>> = LazyLock::new(|| STOP_WORDS.split(' ').collect());
static SYNONYM_STEMS: LazyLock<HashMap<String, Vec<String>>> = LazyLock::new(|| {
    let stems = TermStemmer::new();
    let mut like: HashMap<String, Vec<String>> = HashMap::new();
    for group in SYNONYM_GROUPS {
        let group: Vec<String> = group.split(' ').filter_map(|word| stems.term(word)).collect();
        for one in &group {
            let others = group.iter().filter(|other| *other != one).cloned();
            like.entry(one.clone()).or_default().extend(others);
        }
    }
    like
});

/// Whether a word is a stop word.
pub(crate) fn is_stop_word(word: &str) -> bool {
    STOP_WORD_SET.contains(word)
}

/// The stems of the synonyms of this stem.
pub(crate) fn synonyms(stem: &str) -> &'static [String] {
    SYNONYM_STEMS.get(stem).map(Vec::as_slice).unwrap_or_default()
}

/// The kind of file with this extension.
pub(crate) fn file_ending_words(ending: &str) -> Option<&'static str> {
    FILE_ENDINGS
        .iter()
        .find(|(known, _)| *known == ending)
        .map(|(_, words)| *words)
}

/// Emits the English words for the Chinese words in `run`, the longest match first. The weight of each is one divided by the
/// number of English words for the Chinese word.
pub(crate) fn gloss_chinese(run: &str, word: &mut impl FnMut(&str, f32)) {
    let chars: Vec<(usize, char)> = run.char_indices().collect();
    let mut place = 0;
    while let Some((start, _)) = chars.get(place) {
        let found = (1..=glossary::MAX_WORD_CHARS).rev().find_map(|length| {
            let end = chars.get(place + length).map_or(run.len(), |(end, _)| *end);
            (place + length <= chars.len())
                .then(|| glossary::translate_chinese(run.get(*start..end)?))
                .flatten()
                .map(|words| (length, words))
        });
        if let Some((length, words)) = found {
            let part = words.split(' ').fold(0.0, |sum, _| sum + 1.0_f32).recip();
            words.split(' ').for_each(|one| word(one, part));
            place += length;
        } else {
            place += 1;
        }
    }
}

#[cfg(test)]
mod tests;
