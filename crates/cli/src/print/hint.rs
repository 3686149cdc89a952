//! Hints in the words of the command line. Some are written for clients, which have arguments where a person has flags.

/// What a person at a terminal says instead of what a client says; the longer first.
const WORDS: [(&str, &str); 5] = [
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

/// The same hint for a person at a terminal.
pub(crate) fn for_terminal(hint: &str) -> String {
    WORDS
        .iter()
        .fold(hint.to_owned(), |text, (client, person)| text.replace(client, person))
}

#[cfg(test)]
mod tests;
