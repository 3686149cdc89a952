//! Upstream MCP servers to test against: well-behaved ones of both revisions, and hostile ones.
//!
//! They are written by hand, message by message, so that they can be as wrong as a test needs.

mod authority;
mod hostile_results;
mod http;
mod ledger;
mod program;
mod tools;

use std::io::{self, BufRead, Write};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::{Value, json};

pub use http::{serve, serve_on};
pub use program::program;

/// How a server behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamMode {
    /// A well-behaved server of revision 2025-11-25.
    Echo,
    /// As `Echo`, without tools that a strict client rejects.
    Plain,
    /// A well-behaved server of revision 2026-07-28.
    Modern,
    /// A server of revision 2025-11-25 that does not answer messages of the newer one.
    Silent,
    /// Does not answer calls.
    Hang,
    /// Does not answer any message.
    Mute,
    /// Answers a call with a line that has no end.
    Flood,
    /// Sends notifications without end.
    Chatter,
    /// Sends requests without end, and never reads the answers.
    Nag,
    /// Exits after that many calls.
    Crash(u32),
    /// Answers calls with malformed messages.
    Malformed,
    /// Changes a tool on request.
    Drift,
    /// Logs every call before it acts on it.
    Ledger,
    /// Answers with hostile results.
    Nasty,
    /// Lists 10,000 tools in pages.
    Huge,
    /// Lists one tool more than the gateway accepts.
    TooMany,
    /// Lists tools without a last page.
    Endless,
}

impl UpstreamMode {
    /// Parses the name of a mode on the command line.
    pub fn parse(name: &str, count: Option<u32>) -> Result<UpstreamMode> {
        Ok(match name {
            "echo" | "slow" | "records" => UpstreamMode::Echo,
            "plain" => UpstreamMode::Plain,
            "modern" => UpstreamMode::Modern,
            "silent" => UpstreamMode::Silent,
            "hang" => UpstreamMode::Hang,
            "mute" => UpstreamMode::Mute,
            "flood" => UpstreamMode::Flood,
            "chatter" => UpstreamMode::Chatter,
            "nag" => UpstreamMode::Nag,
            "crash" => UpstreamMode::Crash(count.unwrap_or(1)),
            "malformed" => UpstreamMode::Malformed,
            "drift" => UpstreamMode::Drift,
            "ledger" => UpstreamMode::Ledger,
            "nasty" => UpstreamMode::Nasty,
            "huge" => UpstreamMode::Huge,
            "too-many" => UpstreamMode::TooMany,
            "endless" => UpstreamMode::Endless,
            other => bail!("no such mode: {other}"),
        })
    }

    fn is_modern(self) -> bool {
        self == UpstreamMode::Modern
    }
}

/// A server of one mode, independent of the transport.
pub(crate) struct TestUpstream {
    mode: UpstreamMode,
    calls: Mutex<u32>,
    changed: Mutex<bool>,
}

/// The reaction to a message.
pub(crate) enum UpstreamAction {
    /// Send this message back.
    Message(Value),
    /// Send this message, and then a notification that the tools changed.
    MessageAndChange(Value),
    /// Send no message at all.
    Nothing,
    /// Write raw output, which only a stream can carry.
    Raw(RawOutput),
}

/// Output that is not a proper message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RawOutput {
    /// A line with this text.
    Line(String),
    /// A line that never ends.
    Endless,
    /// An endless stream of notifications.
    Chatter,
    /// An endless stream of requests.
    Nag,
    /// A hostile result for a call with this id and these arguments.
    Nasty(Value, Value),
    /// Exit with an error.
    Exit,
}

impl TestUpstream {
    pub(crate) fn new(mode: UpstreamMode) -> Arc<TestUpstream> {
        Arc::new(TestUpstream {
            mode,
            calls: Mutex::new(0),
            changed: Mutex::new(false),
        })
    }

    /// The reaction to a message.
    pub(crate) fn answer(&self, message: &Value) -> UpstreamAction {
        let Some(id) = message.get("id").cloned() else {
            return UpstreamAction::Nothing;
        };
        let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
        let params = message.get("params").cloned().unwrap_or_default();
        if self.mode == UpstreamMode::Mute {
            return UpstreamAction::Nothing;
        }
        let result = |result: Value| UpstreamAction::Message(json!({"jsonrpc": "2.0", "id": id, "result": result}));
        let error = |code: i64, text: &str| {
            UpstreamAction::Message(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}}))
        };
        match method {
            "server/discover" if self.mode.is_modern() => result(json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
                "capabilities": {"tools": {"listChanged": true}}, "instructions": "A modern echo."
            })),
            "server/discover" if self.mode == UpstreamMode::Silent => UpstreamAction::Nothing,
            "initialize" if !self.mode.is_modern() => result(json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "upstream", "version": "1.0.0"}, "instructions": "An echo."
            })),
            "ping" if !self.mode.is_modern() => result(json!({})),
            "subscriptions/listen" if self.mode.is_modern() => UpstreamAction::Message(json!({
                "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                "params": {"notifications": {"toolsListChanged": true}, "_meta": {"io.modelcontextprotocol/subscriptionId": id}}
            })),
            "tools/list" => result(self.list_tools(&params)),
            "tools/call" => self.call_tool(&id, &params),
            _ => error(-32601, "method not found"),
        }
    }

    fn list_tools(&self, params: &Value) -> Value {
        let cursor = params.get("cursor").and_then(Value::as_str).unwrap_or("0");
        let start: usize = cursor.parse().unwrap_or(0);
        let mut page = match self.mode {
            UpstreamMode::Huge => tools::many_tools(start, 10_000),
            UpstreamMode::TooMany => tools::many_tools(start, 10_001),
            UpstreamMode::Endless => json!({"tools": [], "nextCursor": (start + 1).to_string()}),
            UpstreamMode::Plain => json!({"tools": tools::plain_tools()}),
            UpstreamMode::Ledger => json!({"tools": ledger::tools()}),
            UpstreamMode::Nasty => json!({"tools": hostile_results::tools()}),
            UpstreamMode::Echo
            | UpstreamMode::Modern
            | UpstreamMode::Silent
            | UpstreamMode::Hang
            | UpstreamMode::Mute
            | UpstreamMode::Flood
            | UpstreamMode::Chatter
            | UpstreamMode::Nag
            | UpstreamMode::Crash(_)
            | UpstreamMode::Malformed
            | UpstreamMode::Drift => {
                json!({"tools": tools::ordinary_tools(self.changed.lock().is_ok_and(|changed| *changed))})
            }
        };
        if self.mode.is_modern() {
            page["resultType"] = json!("complete");
            page["ttlMs"] = json!(0);
            page["cacheScope"] = json!("private");
        }
        page
    }

    fn call_tool(&self, id: &Value, params: &Value) -> UpstreamAction {
        if let UpstreamMode::Crash(most) = self.mode {
            let Ok(mut calls) = self.calls.lock() else {
                return UpstreamAction::Raw(RawOutput::Exit);
            };
            *calls += 1;
            if *calls > most {
                return UpstreamAction::Raw(RawOutput::Exit);
            }
        }
        match self.mode {
            UpstreamMode::Hang => return UpstreamAction::Nothing,
            UpstreamMode::Flood => return UpstreamAction::Raw(RawOutput::Endless),
            UpstreamMode::Chatter => return UpstreamAction::Raw(RawOutput::Chatter),
            UpstreamMode::Nag => return UpstreamAction::Raw(RawOutput::Nag),
            UpstreamMode::Malformed => {
                return UpstreamAction::Raw(RawOutput::Line(tools::malformed_answer(id, params)));
            }
            UpstreamMode::Nasty => {
                let arguments = params.get("arguments").cloned().unwrap_or_default();
                return UpstreamAction::Raw(RawOutput::Nasty(id.clone(), arguments));
            }
            UpstreamMode::Echo
            | UpstreamMode::Plain
            | UpstreamMode::Modern
            | UpstreamMode::Silent
            | UpstreamMode::Mute
            | UpstreamMode::Crash(_)
            | UpstreamMode::Drift
            | UpstreamMode::Ledger
            | UpstreamMode::Huge
            | UpstreamMode::TooMany
            | UpstreamMode::Endless => {}
        }
        let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
        let arguments = params.get("arguments").cloned().unwrap_or_default();
        if name == "change" && self.mode == UpstreamMode::Drift {
            if let Ok(mut changed) = self.changed.lock() {
                *changed = true;
            }
            let text = json!({"content": [{"type": "text", "text": "changed"}]});
            return UpstreamAction::MessageAndChange(json!({"jsonrpc": "2.0", "id": id, "result": text}));
        }
        let called = if self.mode == UpstreamMode::Ledger {
            ledger::call(name, &arguments)
        } else {
            tools::call(name, &arguments)
        };
        match called {
            Ok(mut result) => {
                if self.mode.is_modern() {
                    result["resultType"] = json!("complete");
                }
                UpstreamAction::Message(json!({"jsonrpc": "2.0", "id": id, "result": result}))
            }
            Err(text) => {
                UpstreamAction::Message(json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": text}}))
            }
        }
    }
}

/// Serves on standard input and output until the input ends.
pub fn serve_stdio(mode: UpstreamMode) -> Result<()> {
    let upstream = TestUpstream::new(mode);
    let output = Arc::new(Mutex::new(io::stdout()));
    for line in io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line?) else {
            continue;
        };
        let name = message.pointer("/params/name").and_then(Value::as_str);
        if name.is_some_and(ledger::is_slow) {
            let (upstream, output) = (Arc::clone(&upstream), Arc::clone(&output));
            thread::spawn(move || write_answer(&output, upstream.answer(&message)));
        } else {
            write_answer(&output, upstream.answer(&message))?;
        }
    }
    Ok(())
}

fn write_answer(output: &Mutex<io::Stdout>, answer: UpstreamAction) -> Result<()> {
    let Ok(mut output) = output.lock() else {
        bail!("the output is gone");
    };
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    match answer {
        UpstreamAction::Nothing => return Ok(()),
        UpstreamAction::Message(message) => writeln!(output, "{message}")?,
        UpstreamAction::MessageAndChange(message) => writeln!(output, "{message}\n{changed}")?,
        UpstreamAction::Raw(raw) => write_raw(&mut *output, &raw)?,
    }
    output.flush()?;
    Ok(())
}

fn write_raw(output: &mut impl Write, raw: &RawOutput) -> Result<()> {
    let chatter = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}).to_string();
    match raw {
        RawOutput::Line(line) => writeln!(output, "{line}")?,
        RawOutput::Nasty(id, arguments) => hostile_results::write(output, id, arguments)?,
        RawOutput::Endless => loop {
            output.write_all(&[b'a'; 4096])?;
        },
        RawOutput::Chatter => loop {
            writeln!(output, "{chatter}")?;
        },
        RawOutput::Nag => {
            for id in 0.. {
                writeln!(
                    output,
                    "{}",
                    json!({"jsonrpc": "2.0", "id": id, "method": "roots/list"})
                )?;
            }
        }
        RawOutput::Exit => {
            writeln!(
                io::stderr(),
                "the upstream gives up; its key was {}",
                tools::server_secret()
            )?;
            thread::sleep(Duration::from_millis(20));
            bail!("crashed as asked");
        }
    }
    Ok(())
}
