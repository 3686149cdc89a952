//! Bare values directly after a `=`, with no mark of their end.

use super::label::{LabelKey, add_value_finding, text_until};
use super::{Scan, surrounding_keys};
use crate::finding::Evidence;
use crate::keys::{KeyHint, NameOwner};
use crate::kind::SensitiveKind;
use crate::value::{self, HintSource};

/// Scans a bare value directly after `key=`, up to where the next may begin: `phone=0301234567 id=4`,
/// `?name=Ann&zip=90210`.
pub(super) fn scan_assigned_value(
    scan: &mut Scan<'_>,
    key: &LabelKey<'_>,
    telling: KeyHint,
    start: usize,
    value: &str,
) {
    let kind = telling.kind;
    // In a URL a town or a company is a search term.
    if start < scan.page
        && [
            SensitiveKind::Place,
            SensitiveKind::Organisation,
            SensitiveKind::Address,
        ]
        .contains(&kind)
    {
        return;
    }
    let all = text_until(
        value,
        &['\t', '\n', '\r', '&', ';', ',', ')', ']', '}', '"', '\'', '⟦', '#'],
    );
    let word = text_until(all, &[' ']).trim_end_matches('.');
    if [SensitiveKind::Name, SensitiveKind::Place].contains(&kind) {
        let words = leading_name_words(all).trim_end_matches('.');
        if words.len() > word.len() && value::looks_titled(words) {
            let alone =
                value::is_person_name(words) || kind == SensitiveKind::Place && words.len() == all.trim_end().len();
            let whose = || surrounding_keys::name_owner_around(scan, key.start, start + words.len());
            let whose = if alone { NameOwner::Unknown } else { whose() };
            let good = alone || matches!(whose, NameOwner::People | NameOwner::Contacts);
            if good && value::kind_of_value(telling, whose, words).is_some() {
                add_value_finding(scan, start, (0, words.len()), kind, Evidence::Key);
                return;
            }
        }
    }
    let numbered = kind.is_structured() || kind == SensitiveKind::Address;
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let good = if numbered {
        digits >= if kind == SensitiveKind::Phone { 6 } else { 2 }
    } else {
        [SensitiveKind::Name, SensitiveKind::Place].contains(&kind) && value::looks_titled(word)
    };
    if !good || value::kind_of_value(telling, NameOwner::Unknown, word).is_none() {
        return;
    }
    if let Some(part) = value::confirmed_part(word, kind, HintSource::Label) {
        add_value_finding(scan, start, part, kind, Evidence::Key);
    }
}

/// Returns the first words of a text that could be one name: all capitalised, none the key of what follows it.
fn leading_name_words(text: &str) -> &str {
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
