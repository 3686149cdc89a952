//! Truncates answers to a length for models: a notice states what was truncated, and a link leads to the rest.

use ringfence_engine::fair_shares;
use ringfence_journal::ExecutionId;
use serde_json::{Map, Value};

use super::resource_uri::{ResourcePart, ResourceUri};

/// The most bytes of one answer.
pub(super) const MAX_ANSWER_BYTES: usize = 30 * 1024;
/// The bytes that notices and links may take of it.
const MAX_NOTICE_BYTES: usize = 1536;
/// The least bytes for output, however long the rest is.
const MIN_OUTPUT_BYTES: usize = 4 * 1024;
/// The lists of an answer, and the most bytes of each.
const MAX_LIST_BYTES: [(&str, usize); 4] = [
    ("calls", 4096),
    ("files", 4096),
    ("violations", 2048),
    ("diagnostics", 3072),
];
/// The most bytes of an error's message or hint.
const MAX_SENTENCE_BYTES: usize = 4096;

/// Truncates an execution's object to `most` bytes. Each truncated output gets a link in `links`, and everything truncated gets a
/// notice in `notices`.
pub(super) fn truncate_execution(object: &mut Map<String, Value>, execution: ExecutionId, most: usize) {
    let mut notices: Vec<Value> = match object.shift_remove("notices") {
        Some(Value::Array(notices)) => notices,
        _ => Vec::new(),
    };
    for (name, bytes) in MAX_LIST_BYTES {
        if let Some(Value::Array(list)) = object.get_mut(name)
            && let Some(left_out) = shorten_list(list, bytes)
        {
            notices.push(format!("{name}: {left_out} left out").into());
        }
    }
    for name in ["message", "hint"] {
        if let Some(Value::String(text)) = object.get_mut("error").and_then(|error| error.get_mut(name))
            && text.len() > MAX_SENTENCE_BYTES
        {
            *text = elide_middle(text, MAX_SENTENCE_BYTES);
        }
    }
    let mut links = match object.shift_remove("links") {
        Some(Value::Object(links)) => links,
        _ => Map::new(),
    };
    let outputs = [
        ("value", ResourcePart::Value),
        ("stdout", ResourcePart::Stdout),
        ("stderr", ResourcePart::Stderr),
    ];
    let sizes = outputs
        .each_ref()
        .map(|(name, _)| object.get(*name).map_or(0, json_size));
    let rest = object_json_size(object) - sizes.iter().sum::<usize>();
    let shares = fair_shares(
        sizes,
        most.saturating_sub(rest + MAX_NOTICE_BYTES).max(MIN_OUTPUT_BYTES),
    );
    for (((name, part), size), share) in outputs.into_iter().zip(sizes).zip(shares) {
        if size <= share {
            continue;
        }
        let uri = ResourceUri { execution, part }.to_text();
        let whole = truncate_output(object, name, share);
        notices.push(format!("{name}: cut from {whole} bytes; all of it is at {uri}, or return less").into());
        let truncated = object.entry("truncated").or_insert_with(|| Value::Object(Map::new()));
        truncated[name] = Value::Bool(true);
        links.insert(name.to_owned(), Value::String(uri));
    }
    if object
        .get("files")
        .and_then(Value::as_array)
        .is_some_and(|files| !files.is_empty())
    {
        let part = ResourcePart::File("{path}".to_owned());
        let uri = ResourceUri { execution, part }
            .to_text()
            .replace("%7B", "{")
            .replace("%7D", "}");
        links.insert("files".to_owned(), Value::String(uri));
    }
    if !links.is_empty() {
        object.insert("links".to_owned(), Value::Object(links));
    }
    if !notices.is_empty() {
        object.insert("notices".to_owned(), Value::Array(notices));
    }
}

/// Removes tools from an answer, the last first, until it has at most `most` bytes. A notice names them.
pub(super) fn truncate_tools(object: &mut Map<String, Value>, most: usize) {
    let mut over = object_json_size(object).saturating_sub(most);
    if over == 0 {
        return;
    }
    over += MAX_NOTICE_BYTES;
    let mut left_out = Vec::new();
    while over > 0
        && let Some(tool) = remove_last_tool(object)
    {
        over = over.saturating_sub(json_size(&tool) + 1);
        let name = tool.as_str().or_else(|| tool["name"].as_str());
        left_out.extend(name.map(str::to_owned));
    }
    left_out.reverse();
    let names = elide_middle(&left_out.join(", "), MAX_NOTICE_BYTES / 2);
    let notice = format!("left out to keep the answer short: {names}; ask for fewer at once, or for less detail");
    object.insert("notices".to_owned(), Value::Array(vec![notice.into()]));
}

fn remove_last_tool(object: &mut Map<String, Value>) -> Option<Value> {
    if let Some(Value::Array(tools)) = object.get_mut("tools") {
        return tools.pop();
    }
    let intents = object.get_mut("intents")?.as_array_mut()?;
    let slots = intents
        .iter_mut()
        .filter_map(|intent| intent.get_mut("slots")?.as_array_mut());
    slots.max_by_key(|slots| slots.len())?.pop()
}

/// Truncates one output and returns its original length.
fn truncate_output(object: &mut Map<String, Value>, name: &str, share: usize) -> usize {
    match object.get_mut(name) {
        Some(Value::String(text)) if name != "value" => {
            let whole = text.len();
            *text = truncate_both_ends(text, share);
            whole
        }
        Some(value) => {
            // Part of a value is not a value, so its start is shown as text beside it.
            let text = value.take().to_string();
            object.insert("value_begins".to_owned(), Value::String(truncate_end(&text, share)));
            text.len()
        }
        None => 0,
    }
}

/// Truncates a text in the middle so that its JSON has at most `most` bytes.
fn truncate_both_ends(text: &str, most: usize) -> String {
    shrink_to_json_bytes(text, most, elide_middle)
}

/// The start of a text whose JSON has at most `most` bytes.
pub(super) fn truncate_end(text: &str, most: usize) -> String {
    shrink_to_json_bytes(text, most, |text, most| {
        text.get(..floor_char_boundary(text, most))
            .unwrap_or_default()
            .to_owned()
    })
}

fn shrink_to_json_bytes(text: &str, most: usize, cut: impl Fn(&str, usize) -> String) -> String {
    let mut raw = most;
    loop {
        let short = cut(text, raw);
        let written = json_size(&Value::String(short.clone()));
        if written <= most || raw < 64 {
            return short;
        }
        // Quotes and control characters take more bytes in JSON.
        raw = (raw * most / written).min(raw - 1);
    }
}

/// The start and the end of a text, with the length of the missing middle.
fn elide_middle(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let half = most.saturating_sub(48) / 2;
    let (start, end) = (
        floor_char_boundary(text, half),
        ceil_char_boundary(text, text.len() - half),
    );
    let (first, last) = (
        text.get(..start).unwrap_or_default(),
        text.get(end..).unwrap_or_default(),
    );
    format!("{first}\n… {} bytes left out …\n{last}", end - start)
}

fn floor_char_boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0)
}

fn ceil_char_boundary(text: &str, at: usize) -> usize {
    (at..=text.len())
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(text.len())
}

/// Removes entries above `most` bytes, and returns how many.
fn shorten_list(list: &mut Vec<Value>, most: usize) -> Option<usize> {
    let mut used = 0;
    let keep = list
        .iter()
        .take_while(|entry| {
            used += json_size(entry) + 1;
            used <= most
        })
        .count();
    let left_out = list.len() - keep;
    list.truncate(keep);
    (left_out > 0).then_some(left_out)
}

/// The length of a value as JSON, in bytes.
fn json_size(value: &Value) -> usize {
    value.to_string().len()
}

fn object_json_size(object: &Map<String, Value>) -> usize {
    object
        .iter()
        .map(|(name, value)| name.len() + 4 + json_size(value))
        .sum()
}

#[cfg(test)]
mod tests;
