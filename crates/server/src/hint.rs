//! Hints in the words of who reads them. They are written once, for the command line; a client of MCP or of the JSON API has
//! arguments instead of flags, the same in both, and no shell on the operator's machine.

/// What a client says instead of what a person at the command line says. `--set` has a rule of its own.
const WORDS: [(&str, &str); 12] = [
    (
        "tool servers are named in `ringfence.yaml`",
        "the operator names tool servers in `ringfence.yaml`",
    ),
    (
        "`skills save NAME --file PROGRAM` saves a program from a file",
        "a program given as `code` can be saved too",
    ),
    (
        "`skills save --from-run … --allow-personal-data`",
        "so at the command line",
    ),
    ("give it a longer `--timeout`", "give it a longer `timeout`"),
    ("bring it in with `--file`", "bring it in by `files`"),
    (
        "take files out with `--out`",
        "write to `/workspace`: its files come back with the result",
    ),
    (
        "add `--force` to overwrite it, or name another folder",
        "name another folder",
    ),
    (
        "add `--force` to overwrite, or name another folder",
        "name another folder",
    ),
    ("; or run without `--require-hard`", ""),
    ("run without `--require-hard`, or where", "run it where"),
    ("; `--program PATH` takes another file of it", ""),
    (
        "choose a policy with `--policy`",
        "send what the run needs as `sandbox_policy`",
    ),
];

/// The beginning of a key that a person sets at the command line, such as `` `--set proc.mem_limit=…` ``.
const SET: &str = "`--set ";
/// A command of ours, which only the operator can run.
const COMMAND: &str = "`ringfence ";
/// What says whose commands those are.
const OPERATOR: &str = "operator";

/// The same hint for a client.
pub(crate) fn for_client(hint: &str) -> String {
    let mut text = hint.to_owned();
    for (person, client) in WORDS {
        text = text.replace(person, client);
    }
    text = set_by_draft(&text);
    if text.contains(COMMAND) && !text.contains(OPERATOR) {
        text.push_str("; `ringfence` commands are for the operator of this server");
    }
    text
}

/// Each `--set KEY=VALUE` as a key of the request's own draft.
fn set_by_draft(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, from)) = rest.split_once(SET) {
        let Some((change, after)) = from.split_once('`') else {
            break;
        };
        let change = change.trim_matches('\'');
        let told = match change.split_once('=') {
            Some((key, value)) if value != "…" => format!("`{key}: {value}` in `sandbox_policy`"),
            Some((key, _)) => format!("`{key}` in `sandbox_policy`"),
            None => "`sandbox_policy`".to_owned(),
        };
        out.extend([before, told.as_str()]);
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests;
