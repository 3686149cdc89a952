//! A server that logs every call before it acts on it, so that tests know what it was asked.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// How often a call looks for the file that it waits for.
const FILE_POLL_INTERVAL: Duration = Duration::from_millis(2);

pub(super) fn tools() -> Value {
    let text = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
    let number = json!({"type": "object", "properties": {"ms": {"type": "integer"}}, "required": ["ms"]});
    let file = json!({"type": "object", "properties": {"file": {"type": "string"}}, "required": ["file"]});
    json!([
        {"name": "note", "description": "Says the text again.", "inputSchema": text, "annotations": {"readOnlyHint": true}},
        {"name": "send", "description": "Says the text again, as if it had sent it.", "inputSchema": text},
        {"name": "slow", "description": "Waits.", "inputSchema": number},
        {"name": "wait_for", "description": "Waits until a file is there.", "inputSchema": file},
    ])
}

/// Whether a call takes long, so that other calls must not wait for it.
pub(super) fn is_slow(name: &str) -> bool {
    matches!(name, "slow" | "wait_for")
}

/// Logs a call, then executes it.
pub(super) fn call(name: &str, arguments: &Value) -> Result<Value, String> {
    append_call(name, arguments)?;
    let text = |key: &str| arguments.get(key).and_then(Value::as_str).unwrap_or_default();
    let answer = match name {
        "note" | "send" => text("text").to_owned(),
        "slow" => {
            let wait = arguments.get("ms").and_then(Value::as_u64).unwrap_or(100);
            thread::sleep(Duration::from_millis(wait));
            "done".to_owned()
        }
        "wait_for" => {
            while !Path::new(text("file")).exists() {
                thread::sleep(FILE_POLL_INTERVAL);
            }
            "there".to_owned()
        }
        other => return Err(format!("no tool `{other}`")),
    };
    Ok(json!({"content": [{"type": "text", "text": answer}]}))
}

/// Appends one line in one write to the file that `LEDGER` names.
fn append_call(name: &str, arguments: &Value) -> Result<(), String> {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let ledger = std::env::vars_os().find(|(name, _)| name == "LEDGER");
    let (_, ledger) = ledger.ok_or("no `LEDGER` in the environment")?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let line = json!({
        "process": std::process::id(),
        "sequence": CALLS.fetch_add(1, Ordering::Relaxed),
        "time": u64::try_from(since.as_micros()).unwrap_or(u64::MAX),
        "tool": name,
        "arguments": arguments,
    });
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(ledger)
        .map_err(|error| error.to_string())?;
    file.write_all(format!("{line}\n").as_bytes())
        .map_err(|error| error.to_string())
}
