//! Upstream MCP servers to test against: well-behaved ones of both protocols, and hostile ones.
//!
//! Written by hand, message by message, so that they can be as wrong as a test needs.

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
    /// 2025-11-25, as it should be.
    Echo,
    /// The same with no tool that a strict client stumbles over.
    Plain,
    /// 2026-07-28, as it should be.
    Modern,
    /// 2025-11-25, and not a word to a message of the newer protocol.
    Silent,
    /// Never answers a call.
    Hang,
    /// Never answers anything.
    Mute,
    /// Answers a call with a line that has no end.
    Flood,
    /// Sends notifications without end.
    Chatter,
    /// Asks us without end, and never reads our answers.
    Nag,
    /// Ends after that many calls.
    Crash(u32),
    /// Answers calls with what is no answer.
    Malformed,
    /// Changes a tool when told to.
    Drift,
    /// Writes every call down before it does anything about it.
    Ledger,
    /// Answers with what no reader should have to take.
    Nasty,
    /// 10,000 tools in pages.
    Huge,
    /// One tool more than is taken.
    TooMany,
    /// A list of tools without a last page.
    Endless,
}

impl Mode {
    /// By the name it has on the command line.
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

/// A server of one mode, whatever carries its messages.
pub(crate) struct Upstream {
    mode: Mode,
    calls: Mutex<u32>,
    changed: Mutex<bool>,
}

/// What to do with a message.
pub(crate) enum Answer {
    /// Send this.
    Message(Value),
    /// Send this, and then that the tools changed.
    AndChanged(Value),
    /// Say nothing.
    Nothing,
    /// Do something that only a stream can.
    Raw(Raw),
}

/// What is no message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Raw {
    /// A line of this text.
    Line(String),
    /// A line without end.
    Endless,
    /// Notifications without end.
    Chatter,
    /// Requests without end.
    Nag,
    /// The answer to a call, whatever it is.
    Nasty(Value, Value),
    /// The end.
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

    /// What a message is answered with.
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

/// Speaks on standard input and output until the input ends.
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
