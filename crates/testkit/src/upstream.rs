//! Upstream MCP servers to test against: well-behaved ones of both revisions, and hostile ones.
//!
//! They are written by hand, message by message, so that they can be as wrong as a test needs.

mod authority;
mod http;
mod ledger;
mod nasty;
mod tools;

use std::io::{self, BufRead, Write};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::{Value, json};

pub use http::{serve, serve_on};

/// How a server behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
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

impl Mode {
    /// Parses the name of a mode on the command line.
    pub fn parse(name: &str, count: Option<u32>) -> Result<Mode> {
        Ok(match name {
            "echo" | "slow" | "records" => Mode::Echo,
            "plain" => Mode::Plain,
            "modern" => Mode::Modern,
            "silent" => Mode::Silent,
            "hang" => Mode::Hang,
            "mute" => Mode::Mute,
            "flood" => Mode::Flood,
            "chatter" => Mode::Chatter,
            "nag" => Mode::Nag,
            "crash" => Mode::Crash(count.unwrap_or(1)),
            "malformed" => Mode::Malformed,
            "drift" => Mode::Drift,
            "ledger" => Mode::Ledger,
            "nasty" => Mode::Nasty,
            "huge" => Mode::Huge,
            "too-many" => Mode::TooMany,
            "endless" => Mode::Endless,
            other => bail!("no such mode: {other}"),
        })
    }

    fn is_modern(self) -> bool {
        self == Mode::Modern
    }
}

/// A server of one mode, independent of the transport.
pub(crate) struct Upstream {
    mode: Mode,
    calls: Mutex<u32>,
    changed: Mutex<bool>,
}

/// The reaction to a message.
pub(crate) enum Answer {
    /// Send this message back.
    Message(Value),
    /// Send this message, and then a notification that the tools changed.
    AndChanged(Value),
    /// Send no message at all.
    Nothing,
    /// Write raw output, which only a stream can carry.
    Raw(Raw),
}

/// Output that is not a proper message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Raw {
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

impl Upstream {
    pub(crate) fn new(mode: Mode) -> Arc<Upstream> {
        Arc::new(Upstream {
            mode,
            calls: Mutex::new(0),
            changed: Mutex::new(false),
        })
    }

    /// The reaction to a message.
    pub(crate) fn answer(&self, message: &Value) -> Answer {
        let Some(id) = message.get("id").cloned() else {
            return Answer::Nothing;
        };
        let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
        let params = message.get("params").cloned().unwrap_or_default();
        if self.mode == Mode::Mute {
            return Answer::Nothing;
        }
        let result = |result: Value| Answer::Message(json!({"jsonrpc": "2.0", "id": id, "result": result}));
        let error = |code: i64, text: &str| {
            Answer::Message(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}}))
        };
        match method {
            "server/discover" if self.mode.is_modern() => result(json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
                "capabilities": {"tools": {"listChanged": true}}, "instructions": "A modern echo."
            })),
            "server/discover" if self.mode == Mode::Silent => Answer::Nothing,
            "initialize" if !self.mode.is_modern() => result(json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "upstream", "version": "1.0.0"}, "instructions": "An echo."
            })),
            "ping" if !self.mode.is_modern() => result(json!({})),
            "subscriptions/listen" if self.mode.is_modern() => Answer::Message(json!({
                "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                "params": {"notifications": {"toolsListChanged": true}, "_meta": {"io.modelcontextprotocol/subscriptionId": id}}
            })),
            "tools/list" => result(self.list(&params)),
            "tools/call" => self.call(&id, &params),
            _ => error(-32601, "method not found"),
        }
    }

    fn list(&self, params: &Value) -> Value {
        let cursor = params.get("cursor").and_then(Value::as_str).unwrap_or("0");
        let start: usize = cursor.parse().unwrap_or(0);
        let mut page = match self.mode {
            Mode::Huge => tools::many(start, 10_000),
            Mode::TooMany => tools::many(start, 10_001),
            Mode::Endless => json!({"tools": [], "nextCursor": (start + 1).to_string()}),
            Mode::Plain => json!({"tools": tools::plain()}),
            Mode::Ledger => json!({"tools": ledger::tools()}),
            Mode::Nasty => json!({"tools": nasty::tools()}),
            Mode::Echo
            | Mode::Modern
            | Mode::Silent
            | Mode::Hang
            | Mode::Mute
            | Mode::Flood
            | Mode::Chatter
            | Mode::Nag
            | Mode::Crash(_)
            | Mode::Malformed
            | Mode::Drift => json!({"tools": tools::ordinary(self.changed.lock().is_ok_and(|changed| *changed))}),
        };
        if self.mode.is_modern() {
            page["resultType"] = json!("complete");
            page["ttlMs"] = json!(0);
            page["cacheScope"] = json!("private");
        }
        page
    }

    fn call(&self, id: &Value, params: &Value) -> Answer {
        if let Mode::Crash(most) = self.mode {
            let Ok(mut calls) = self.calls.lock() else {
                return Answer::Raw(Raw::Exit);
            };
            *calls += 1;
            if *calls > most {
                return Answer::Raw(Raw::Exit);
            }
        }
        match self.mode {
            Mode::Hang => return Answer::Nothing,
            Mode::Flood => return Answer::Raw(Raw::Endless),
            Mode::Chatter => return Answer::Raw(Raw::Chatter),
            Mode::Nag => return Answer::Raw(Raw::Nag),
            Mode::Malformed => return Answer::Raw(Raw::Line(tools::malformed(id, params))),
            Mode::Nasty => {
                let arguments = params.get("arguments").cloned().unwrap_or_default();
                return Answer::Raw(Raw::Nasty(id.clone(), arguments));
            }
            Mode::Echo
            | Mode::Plain
            | Mode::Modern
            | Mode::Silent
            | Mode::Mute
            | Mode::Crash(_)
            | Mode::Drift
            | Mode::Ledger
            | Mode::Huge
            | Mode::TooMany
            | Mode::Endless => {}
        }
        let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
        let arguments = params.get("arguments").cloned().unwrap_or_default();
        if name == "change" && self.mode == Mode::Drift {
            if let Ok(mut changed) = self.changed.lock() {
                *changed = true;
            }
            let text = json!({"content": [{"type": "text", "text": "changed"}]});
            return Answer::AndChanged(json!({"jsonrpc": "2.0", "id": id, "result": text}));
        }
        let called = if self.mode == Mode::Ledger {
            ledger::call(name, &arguments)
        } else {
            tools::call(name, &arguments)
        };
        match called {
            Ok(mut result) => {
                if self.mode.is_modern() {
                    result["resultType"] = json!("complete");
                }
                Answer::Message(json!({"jsonrpc": "2.0", "id": id, "result": result}))
            }
            Err(text) => {
                Answer::Message(json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": text}}))
            }
        }
    }
}

/// Serves on standard input and output until the input ends.
pub fn stdio(mode: Mode) -> Result<()> {
    let upstream = Upstream::new(mode);
    let output = Arc::new(Mutex::new(io::stdout()));
    for line in io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line?) else {
            continue;
        };
        let name = message.pointer("/params/name").and_then(Value::as_str);
        if name.is_some_and(ledger::is_slow) {
            let (upstream, output) = (Arc::clone(&upstream), Arc::clone(&output));
            thread::spawn(move || say(&output, upstream.answer(&message)));
        } else {
            say(&output, upstream.answer(&message))?;
        }
    }
    Ok(())
}

fn say(output: &Mutex<io::Stdout>, answer: Answer) -> Result<()> {
    let Ok(mut output) = output.lock() else {
        bail!("the output is gone");
    };
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    match answer {
        Answer::Nothing => return Ok(()),
        Answer::Message(message) => writeln!(output, "{message}")?,
        Answer::AndChanged(message) => writeln!(output, "{message}\n{changed}")?,
        Answer::Raw(raw) => rant(&mut *output, &raw)?,
    }
    output.flush()?;
    Ok(())
}

fn rant(output: &mut impl Write, raw: &Raw) -> Result<()> {
    let chatter = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}).to_string();
    match raw {
        Raw::Line(line) => writeln!(output, "{line}")?,
        Raw::Nasty(id, arguments) => nasty::write(output, id, arguments)?,
        Raw::Endless => loop {
            output.write_all(&[b'a'; 4096])?;
        },
        Raw::Chatter => loop {
            writeln!(output, "{chatter}")?;
        },
        Raw::Nag => {
            for id in 0.. {
                writeln!(
                    output,
                    "{}",
                    json!({"jsonrpc": "2.0", "id": id, "method": "roots/list"})
                )?;
            }
        }
        Raw::Exit => {
            writeln!(io::stderr(), "the upstream gives up; its key was {}", tools::key())?;
            thread::sleep(Duration::from_millis(20));
            bail!("crashed as asked");
        }
    }
    Ok(())
}
