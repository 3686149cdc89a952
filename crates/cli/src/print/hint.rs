//! Rewords hints for the command line: libraries write some of them for clients, which have arguments instead of flags.

/// Wordings for clients and their replacements for a terminal; longer ones come first.
const TERMINAL_WORDING: [(&str, &str); 5] = [
    (
        "give a short name as `session_id` to open one",
        "give a short name with `--session` to open one",
    ),
    (
        "name the `session_id` of an open session",
        "name an open session with `--session`",
    ),
    ("`session_id`", "`--session`"),
    ("`sandbox_policy`", "`--set`"),
    (
        "tool servers are named in `ringfence.yaml`",
        "name tool servers with `--servers` or in `ringfence.yaml`",
    ),
];

/// Rewords the hint for a person at a terminal.
pub(crate) fn for_terminal(hint: &str) -> String {
    TERMINAL_WORDING
        .iter()
        .fold(hint.to_owned(), |text, (client, person)| text.replace(client, person))
}

#[cfg(test)]
mod tests;
