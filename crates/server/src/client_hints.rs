//! Rewords hints for their reader. Hints are written for the command line; a client of MCP or of the JSON API has arguments
//! instead of flags, and no shell on the operator's machine.

/// Wordings of the command line with those for a client. `--set` has its own rule.
const CLIENT_WORDING: [(&str, &str); 12] = [
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

/// The start of a key that is set on the command line, such as `` `--set proc.mem_limit=…` ``.
const SET_FLAG: &str = "`--set ";
/// The start of a Ringfence command, which only the operator can run.
const COMMAND_PREFIX: &str = "`ringfence ";
/// The word by which a hint already names the operator.
const OPERATOR_WORD: &str = "operator";

/// Rewords a hint for a client.
pub(crate) fn for_client(hint: &str) -> String {
    let mut text = hint.to_owned();
    for (person, client) in CLIENT_WORDING {
        text = text.replace(person, client);
    }
    text = reword_set_flags(&text);
    if text.contains(COMMAND_PREFIX) && !text.contains(OPERATOR_WORD) {
        text.push_str("; `ringfence` commands are for the operator of this server");
    }
    text
}

/// Rewords each `--set KEY=VALUE` as a key of the request's own draft.
fn reword_set_flags(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, from)) = rest.split_once(SET_FLAG) {
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
