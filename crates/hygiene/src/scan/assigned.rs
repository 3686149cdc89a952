//! Bare values directly after a `=`, with no mark of their end.

use super::label::{Key, note, up_to};
use super::{Scan, around};
use crate::finding::Evidence;
use crate::keys::{Telling, Whose};
use crate::kind::Kind;
use crate::value::{self, Ground};

/// Scans a bare value directly after `key=`, up to where the next may begin: `phone=0301234567 id=4`,
/// `?name=Ann&zip=90210`.
pub(super) fn value(scan: &mut Scan<'_>, key: &Key<'_>, telling: Telling, start: usize, value: &str) {
    let kind = telling.kind;
    // In a URL a town or a company is a search term.
    if start < scan.page && [Kind::Place, Kind::Organisation, Kind::Address].contains(&kind) {
        return;
    }
    let all = up_to(
        value,
        &['\t', '\n', '\r', '&', ';', ',', ')', ']', '}', '"', '\'', '⟦', '#'],
    );
    let word = up_to(all, &[' ']).trim_end_matches('.');
    if [Kind::Name, Kind::Place].contains(&kind) {
        let words = words_of_a_name(all).trim_end_matches('.');
        if words.len() > word.len() && value::looks_titled(words) {
            let alone = value::is_persons(words) || kind == Kind::Place && words.len() == all.trim_end().len();
            let whose = || around::whose(scan, key.start, start + words.len());
            let whose = if alone { Whose::Unsaid } else { whose() };
            let good = alone || matches!(whose, Whose::Peoples | Whose::Reached);
            if good && value::meant(telling, whose, words).is_some() {
                note(scan, start, (0, words.len()), kind, Evidence::Key);
                return;
            }
        }
    }
    let numbered = kind.is_structured() || kind == Kind::Address;
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let good = if numbered {
        digits >= if kind == Kind::Phone { 6 } else { 2 }
    } else {
        [Kind::Name, Kind::Place].contains(&kind) && value::looks_titled(word)
    };
    if !good || value::meant(telling, Whose::Unsaid, word).is_none() {
        return;
    }
    if let Some(part) = value::borne_out(word, kind, Ground::Label) {
        note(scan, start, part, kind, Evidence::Key);
    }
}

/// Returns the first words of a text that could be one name: all capitalised, none the key of what follows it.
fn words_of_a_name(text: &str) -> &str {
    let mut end = 0;
    for word in text.split(' ').take(4) {
        let capital = word.chars().next().is_some_and(char::is_uppercase);
        let key = word.contains(['=', ':', '/', '|', '(', '[', '{', '<', '>', '@']);
        if key
            || !capital && end == 0
            || !capital && !matches!(word, "de" | "van" | "der" | "von" | "da" | "di" | "la" | "del")
        {
            break;
        }
        end = word.as_ptr() as usize - text.as_ptr() as usize + word.len();
        if word.ends_with('.') && word.len() > 3 {
            break;
        }
    }
    &text[..end]
}
