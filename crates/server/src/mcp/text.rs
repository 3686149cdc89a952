//! Results as text: the same facts as the structured content, for clients that show only text.

use std::fmt::Write as _;

use ringfence_engine::approvals::PendingApproval;
use ringfence_journal::CleanText;
use ringfence_policy::escape_invisible;
use serde_json::{Map, Value};

/// A text that grows by lines, without errors.
#[derive(Debug, Default)]
struct TextLines(String);

impl TextLines {
    fn add(&mut self, line: impl AsRef<str>) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.0.push_str(line.as_ref().trim_end_matches('\n'));
    }
}

/// The text of an execution. The host's statements come first, with each quoted text on a line of the host; the program's output
/// follows, so that it cannot imitate a statement of the host.
pub(super) fn execution_text(object: &Map<String, Value>) -> String {
    let mut lines = TextLines::default();
    lines.add(headline(object));
    if let Some(error) = object.get("error").filter(|error| !error.is_null()) {
        lines.add(self::error_text(error));
    }
    for found in list_field(object, "diagnostics") {
        let place = format!("{}:{}:{}", quoted_line(&found["file"]), found["line"], found["column"]);
        lines.add(format!(
            "{place}: {} {}",
            quoted_line(&found["code"]),
            quoted_line(&found["message"])
        ));
    }
    for violation in list_field(object, "violations") {
        let (kind, detail) = (plain_text(&violation["kind"]), quoted_line(&violation["detail"]));
        let rule = match quoted_line(&violation["rule"]) {
            rule if rule.is_empty() => rule,
            rule => format!(" [rule {rule}]"),
        };
        lines.add(format!("blocked {kind}: {detail}{rule}"));
    }
    if let Some(calls) = calls_text(list_field(object, "calls")) {
        lines.add(one_line(&calls));
    }
    for file in list_field(object, "files") {
        let how = match plain_text(&file["type"]) {
            "" => plain_text(&file["change"]).to_owned(),
            media_type => format!("emitted as {}", one_line(media_type)),
        };
        lines.add(format!(
            "file {} ({how}, {} bytes)",
            quoted_line(&file["path"]),
            file["bytes"]
        ));
    }
    for notice in list_field(object, "notices") {
        lines.add(quoted_line(notice));
    }
    match object.get("value_begins").or(object.get("value")) {
        None | Some(Value::Null) => {}
        Some(Value::String(begins)) if object.contains_key("value_begins") => {
            lines.add(format!("value begins: {begins}"));
        }
        Some(value) => lines.add(format!("value: {value}")),
    }
    for name in ["stdout", "stderr"] {
        let text = text_field(object, name);
        if !text.trim().is_empty() {
            lines.add(format!("{name}:\n{text}"));
        }
    }
    lines.0
}

fn headline(object: &Map<String, Value>) -> String {
    let mut line = plain_text(object.get("status").unwrap_or(&Value::Null)).to_owned();
    if let Some(code) = object
        .get("exit_code")
        .and_then(Value::as_i64)
        .filter(|code| *code != 0)
    {
        // Writing to a string does not fail.
        let _infallible = write!(line, ", exit code {code}");
    }
    for (name, word) in [("session_id", "session"), ("execution_id", "execution")] {
        if let Some(id) = object.get(name).and_then(Value::as_str) {
            let _infallible = write!(line, " · {word} {id}");
        }
    }
    line
}

/// Calls by tool and outcome, in the order of the first of each.
fn calls_text(calls: &[Value]) -> Option<String> {
    let mut counted: Vec<((&str, &str, &str), u64)> = Vec::new();
    for call in calls {
        // An entry with a count stands for several calls.
        let times = call["count"].as_u64().unwrap_or(1);
        let key = (
            plain_text(&call["tool"]),
            plain_text(&call["outcome"]),
            plain_text(&call["rule"]),
        );
        match counted.iter_mut().find(|(known, _)| *known == key) {
            Some((_, count)) => *count += times,
            None => counted.push((key, times)),
        }
    }
    let words = counted.iter().map(|((tool, outcome, rule), count)| {
        let times = if *count == 1 {
            String::new()
        } else {
            format!(" ×{count}")
        };
        match (*outcome, *rule) {
            ("ok", _) | (_, "") => format!("{tool} {outcome}{times}"),
            _ => format!("{tool} {outcome}{times} [rule {rule}]"),
        }
    });
    let words: Vec<_> = words.collect();
    (!words.is_empty()).then(|| format!("calls: {}", words.join(", ")))
}

/// The text of an error.
pub(super) fn error_text(error: &Value) -> String {
    let mut lines = TextLines::default();
    let message: Vec<_> = plain_text(&error["message"]).lines().map(one_line).collect();
    lines.add(format!(
        "error {}: {}",
        quoted_line(&error["code"]),
        message.join("\n  ")
    ));
    for name in ["rule", "hint"] {
        let text = quoted_line(&error[name]);
        if !text.is_empty() {
            lines.add(format!("{name}: {text}"));
        }
    }
    lines.0
}

/// The remark that a run waits for people, and for what; `None` if it does not.
pub(super) fn waiting_text(asked: &[PendingApproval]) -> Option<String> {
    let first = asked.first()?;
    let more = match asked.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (tool, id, until) = (&first.tool, first.id, first.expires);
    Some(format!(
        "it waits for a person, who must answer whether `{tool}` may be called ({id}{more}); no answer by {until} means no"
    ))
}

/// The text of a search, a list or a description of tools.
pub(super) fn tools_text(object: &Map<String, Value>) -> String {
    let mut lines = TextLines::default();
    for answer in list_field(object, "intents") {
        lines.add(format!("{}:", plain_text(&answer["intent"])));
        for hit in answer["slots"].as_array().into_iter().flatten() {
            lines.add(tool_text(hit));
        }
        let see = plain_text(&answer["see"]);
        if !see.is_empty() {
            lines.add(format!("- see {see} above"));
        }
    }
    for server in list_field(object, "servers") {
        let domains: Vec<_> = server["domains"]
            .as_array()
            .into_iter()
            .flatten()
            .map(plain_text)
            .collect();
        let domains = if domains.is_empty() {
            String::new()
        } else {
            format!(": {}", domains.join(", "))
        };
        let noun = if server["tools"] == 1 { "tool" } else { "tools" };
        lines.add(format!(
            "- {} ({} {noun}{domains}) {}",
            plain_text(&server["server"]),
            server["tools"],
            plain_text(&server["server_says"])
        ));
    }
    for tool in list_field(object, "tools") {
        lines.add(if tool.is_string() {
            format!("- {}", plain_text(tool))
        } else {
            tool_text(tool)
        });
    }
    for unknown in list_field(object, "unknown") {
        lines.add(format!("unknown: {unknown}"));
    }
    for (server, count) in object
        .get("more_from_server")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        lines.add(format!("{count} more from {server}"));
    }
    let hidden = object.get("hidden_by_policy").and_then(Value::as_u64).unwrap_or(0);
    if hidden > 0 {
        lines.add(format!("{hidden} tools are hidden by the policy"));
    }
    for notice in list_field(object, "notices") {
        lines.add(plain_text(notice));
    }
    let cursor = text_field(object, "cursor");
    if !cursor.is_empty() {
        lines.add(format!("more: cursor {cursor}"));
    }
    lines.0
}

fn tool_text(tool: &Value) -> String {
    let mut line = format!("- {}", plain_text(&tool["name"]));
    for name in ["signature", "server_says"] {
        let text = plain_text(&tool[name]);
        if !text.is_empty() {
            let _infallible = write!(line, " — {text}");
        }
    }
    let stub = plain_text(&tool["stub"]);
    if !stub.is_empty() {
        let _infallible = write!(line, "\n{stub}");
    }
    let alike: Vec<_> = tool["alike"].as_array().into_iter().flatten().map(plain_text).collect();
    if !alike.is_empty() {
        let _infallible = write!(line, " (like it: {})", alike.join(", "));
    }
    line
}

fn list_field<'a>(object: &'a Map<String, Value>, name: &str) -> &'a [Value] {
    object.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text_field<'a>(object: &'a Map<String, Value>, name: &str) -> &'a str {
    object.get(name).map_or("", plain_text)
}

fn plain_text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A quoted text on one line, so that it cannot start another.
fn quoted_line(value: &Value) -> String {
    one_line(plain_text(value))
}

fn one_line(text: &str) -> String {
    escape_invisible(CleanText::clean(text).as_str())
}

#[cfg(test)]
mod tests;
