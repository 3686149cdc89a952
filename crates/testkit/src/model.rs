//! A scripted stand-in for a model: an HTTP server on this machine that streams messages in Anthropic's format.
//!
//! It keeps no state between requests: the number of tool results in a request selects the next turn, so that several agents can share it.
//! A request without tools, as for a title, gets a short text.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// Bytes of a request at most; agents send their whole conversation.
const MAX_REQUEST_BYTES: usize = 64 * 1024 * 1024;

/// The answer of the model in one turn.
#[derive(Debug, Clone)]
pub enum ModelTurn {
    /// A call of the first offered tool whose name has this end.
    Call {
        /// The end of the tool's name: agents put the server's name before it, each in its own way.
        tool: String,
        /// The arguments of the call.
        input: Value,
    },
    /// A text that ends the conversation.
    Say(String),
}

/// The server; it ends with the process.
#[derive(Debug)]
pub struct ScriptedModel {
    /// The address of the server, `http://127.0.0.1:PORT`.
    pub url: String,
    seen: Arc<Mutex<Vec<Value>>>,
}

impl ScriptedModel {
    /// Starts a model that answers with these turns in order, and repeats the last one.
    pub fn start(script: Vec<ModelTurn>) -> Result<ScriptedModel> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}", listener.local_addr()?);
        let seen = Arc::<Mutex<Vec<Value>>>::default();
        let (script, kept) = (Arc::new(script), Arc::clone(&seen));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (script, kept) = (Arc::clone(&script), Arc::clone(&kept));
                thread::spawn(move || serve_connection(stream, &script, &kept));
            }
        });
        Ok(ScriptedModel { url, seen })
    }

    /// The requests that offered tools, in the order they came.
    pub fn seen(&self) -> Vec<Value> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The tool results that the model has read, from the longest conversation.
    pub fn results(&self) -> Vec<String> {
        let seen = self.seen();
        let longest = seen.iter().max_by_key(|request| tool_results(request).len());
        longest.map(tool_results).unwrap_or_default()
    }
}

fn serve_connection(stream: TcpStream, script: &[ModelTurn], seen: &Mutex<Vec<Value>>) -> Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    while let Some((method, body)) = read_request(&mut reader)? {
        if method != "POST" {
            writer.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")?;
            continue;
        }
        let request: Value = serde_json::from_slice(&body).context("a request that is not JSON")?;
        let offered = request
            .get("tools")
            .and_then(Value::as_array)
            .is_some_and(|tools| !tools.is_empty());
        let turn = if offered {
            let turn = tool_results(&request).len().min(script.len().saturating_sub(1));
            seen.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(request.clone());
            script.get(turn).cloned()
        } else {
            None
        };
        let turn = turn.unwrap_or_else(|| ModelTurn::Say("a title".to_owned()));
        let events = turn_events(&request, &turn);
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
        writer.write_all(head.as_bytes())?;
        writer.write_all(events.as_bytes())?;
        return Ok(());
    }
    Ok(())
}

fn read_request(reader: &mut impl BufRead) -> Result<Option<(String, Vec<u8>)>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let method = line.split(' ').next().unwrap_or_default().to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let header = header.trim_end();
        if header.is_empty() {
            break;
        }
        if let Some((name, value)) = header.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse()?;
        }
    }
    anyhow::ensure!(length <= MAX_REQUEST_BYTES, "a request of {length} bytes");
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some((method, body)))
}

/// The texts of all tool results in a conversation.
fn tool_results(request: &Value) -> Vec<String> {
    let messages = request.get("messages").and_then(Value::as_array);
    let blocks = messages
        .into_iter()
        .flatten()
        .filter_map(|message| message.get("content")?.as_array())
        .flatten();
    let results = blocks.filter(|block| block.get("type").and_then(Value::as_str) == Some("tool_result"));
    results.map(|result| content_text(result.get("content"))).collect()
}

fn content_text(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// The stream events of one turn.
fn turn_events(request: &Value, turn: &ModelTurn) -> String {
    let (block, delta, stop) = match turn {
        ModelTurn::Say(text) => (
            json!({"type": "text", "text": ""}),
            json!({"type": "text_delta", "text": text}),
            "end_turn",
        ),
        ModelTurn::Call { tool, input } => {
            let offered = request.get("tools").and_then(Value::as_array);
            let names = offered
                .into_iter()
                .flatten()
                .filter_map(|tool| tool.get("name")?.as_str());
            let name = names.into_iter().find(|name| name.ends_with(tool)).unwrap_or(tool);
            let id = format!("toolu_{}", tool_results(request).len());
            (
                json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
                json!({"type": "input_json_delta", "partial_json": input.to_string()}),
                "tool_use",
            )
        }
    };
    let model = request.get("model").cloned().unwrap_or_default();
    let usage = json!({"input_tokens": 10, "output_tokens": 10});
    let events = [
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": model,
            "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage}}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null}, "usage": {"output_tokens": 10}}),
        json!({"type": "message_stop"}),
    ];
    let event = |event: &Value| {
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
        format!("event: {kind}\ndata: {event}\n\n")
    };
    events.iter().map(event).collect()
}
