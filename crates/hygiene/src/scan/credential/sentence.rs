//! Passwords that a sentence states: `your password is hunter2`, `the key and the password: hunter2`. Most sentences only
//! mention one, so the value must look like one that a person chose.

use super::super::Scan;
use super::super::label::{add_value_finding, truncate};
use super::judge::{is_password_key, is_path, is_placeholder, looks_chosen_by_person};
use super::{VALUE, span, word_before};
use crate::finding::Evidence;
use crate::kind::SensitiveKind;

/// Signs around a word that are not part of a password.
const AROUND: [char; 10] = ['"', '\'', '`', ',', ';', '.', '!', '?', ':', ')'];

/// Scans sentences that state a password: `your password is hunter2`.
pub(in super::super) fn scan_sentences(scan: &mut Scan<'_>) {
    const PASSWORD: [&str; 5] = ["password", "passwd", "passphrase", "passcode", "pin"];
    const IS: &str = " is ";
    for (at, _) in scan.text.match_indices(IS) {
        let key = &scan.text[at - word_before(scan, at)..at];
        if !PASSWORD.iter().any(|word| key.eq_ignore_ascii_case(word)) {
            continue;
        }
        let from = at + IS.len();
        if let Some(part) = chosen_password(&scan.text[from..]) {
            add_value_finding(scan, from, part, SensitiveKind::Secret, Evidence::Key);
        }
    }
}

/// Whether the `:` after a word in the middle of a line states a password: `… and the password: hunter2`.
pub(super) fn states_password(scan: &Scan<'_>, key: &str, colon: usize) -> bool {
    let after = &scan.text[colon + 1..];
    let value = after.trim_start_matches(' ');
    value.len() < after.len() && is_password_key(key) && chosen_password(value).is_some()
}

/// Returns where the first word of a text is a password that a person chose.
fn chosen_password(text: &str) -> Option<(usize, usize)> {
    let text = truncate(text, VALUE);
    let word = &text[..text.find(char::is_whitespace).unwrap_or(text.len())];
    let value = word.trim_matches(AROUND);
    let good = looks_chosen_by_person(value) && !is_placeholder(value) && !is_path(value);
    good.then(|| span(word, value))
}
