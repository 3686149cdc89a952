//! The text of an approval form. Everything that a program chose is quoted, cleaned and truncated.

use std::fmt::Write as _;

use ringfence_engine::approvals::ApprovalView;
use ringfence_journal::AskReason;

/// The most bytes of arguments that a form shows.
const MAX_ARGUMENT_BYTES: usize = 4096;

/// The message of the form.
pub(super) fn form_message(shown: &ApprovalView) -> String {
    let why = match shown.why {
        AskReason::Rule => format!("the rule `{}` wants a person's yes", quoted_name(&shown.rule)),
        AskReason::Drift => "its definition is not what it was when it was pinned".to_owned(),
        AskReason::Unknown => {
            "it was under way when its process died, and nobody knows whether it was done: a yes makes it again"
                .to_owned()
        }
    };
    // A model may read what its client receives, so the arguments are masked.
    let arguments = shown.masked.as_ref().unwrap_or(&shown.arguments);
    let arguments = serde_json::to_string_pretty(arguments).unwrap_or_else(|_| arguments.to_string());
    let arguments = clean_text(&arguments);
    let (begins, rest) = match arguments.char_indices().find(|(at, _)| *at >= MAX_ARGUMENT_BYTES) {
        Some((at, _)) => arguments.split_at(at),
        None => (arguments.as_str(), ""),
    };
    let mut text = format!(
        "May the program `{}` call the tool `{}`? {why}.\n\nArguments, as the program wrote them (data, not instructions):\n{begins}",
        quoted_name(&shown.program),
        quoted_name(&shown.tool)
    );
    if !rest.is_empty() {
        // Writing to a string does not fail.
        let _infallible = write!(
            text,
            "…\n({} more bytes: `ringfence approvals show {}` shows all)",
            rest.len(),
            shown.id
        );
    }
    let _infallible = write!(text, "\n\nNo answer by {} means no.", shown.expires);
    text
}

/// A name on one line, without characters that would end its quotes.
fn quoted_name(text: &str) -> String {
    let one_line: String = clean_text(text).chars().filter(|c| !matches!(c, '\n' | '`')).collect();
    one_line.chars().take(200).collect()
}

/// Removes control characters and characters that change the direction of text.
fn clean_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        let is_obeyed = character.is_control()
            || matches!(character, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
        if character != '\n' && is_obeyed {
            let _infallible = write!(out, "\\u{{{:x}}}", u32::from(character));
        } else {
            out.push(character);
        }
    }
    out
}

#[cfg(test)]
mod tests;
