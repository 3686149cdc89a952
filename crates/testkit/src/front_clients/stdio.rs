//! A client over standard input and output.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio as Pipes};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{ClientEra, result_of};

/// The program with its pipes; killed when dropped.
#[derive(Debug)]
pub struct StdioClient {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    era: ClientEra,
    asked: u64,
}

impl StdioClient {
    /// Starts the program and sends the first request.
    pub fn start(command: &mut Command, era: ClientEra) -> Result<StdioClient> {
        let mut client = StdioClient::spawn(command, era)?;
        let (method, params) = era.first_request();
        client.request(method, params)?;
        if era == ClientEra::Legacy {
            client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string())?;
        }
        Ok(client)
    }

    /// Starts the program and sends nothing yet.
    pub fn spawn(command: &mut Command, era: ClientEra) -> Result<StdioClient> {
        let mut child = command
            .stdin(Pipes::piped())
            .stdout(Pipes::piped())
            .spawn()
            .context("cannot start the server")?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().context("no pipe")?);
        Ok(StdioClient {
            child,
            input,
            output,
            era,
            asked: 0,
        })
    }

    /// The id of the program's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a line as it is.
    pub fn send(&mut self, line: &str) -> Result<()> {
        let input = self.input.as_mut().context("already closed")?;
        input.write_all(line.as_bytes())?;
        input.write_all(b"\n")?;
        input.flush()?;
        Ok(())
    }

    /// Sends bytes as they are, without a line end.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.input.as_mut().context("already closed")?.write_all(bytes)?;
        Ok(())
    }

    /// The next message of the server; none at the end of its output.
    pub fn receive(&mut self) -> Result<Option<Value>> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let message = serde_json::from_str(&line).with_context(|| format!("not JSON on the pipe: {line}"))?;
        Ok(Some(message))
    }

    /// Closes the program's input; the server may still answer.
    pub fn close(&mut self) {
        self.input = None;
    }

    /// Waits until the process ends.
    pub fn wait(&mut self) -> Result<std::process::ExitStatus> {
        Ok(self.child.wait()?)
    }

    /// Sends a request without waiting for its answer; returns its id.
    pub fn send_request(&mut self, method: &str, params: Value) -> Result<u64> {
        self.asked += 1;
        let request = self.era.request(self.asked, method, params);
        self.send(&request.to_string())?;
        Ok(self.asked)
    }

    /// Waits for the answer to a request; other messages are dropped.
    pub fn wait_for_answer(&mut self, id: u64) -> Result<Value> {
        loop {
            let message = self.receive()?.context("the server ended")?;
            if message.get("id").and_then(Value::as_u64) == Some(id) && message.get("method").is_none() {
                return Ok(message);
            }
        }
    }

    /// Sends a request and returns its result.
    pub fn request(&mut self, method: &str, params: Value) -> Result<Value> {
        let id = self.send_request(method, params)?;
        result_of(self.wait_for_answer(id)?)
    }

    /// Calls a tool and fails where the tool does.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value> {
        let called = self.request("tools/call", json!({"name": tool, "arguments": arguments}))?;
        ensure!(called.get("isError") != Some(&json!(true)), "`{tool}` failed: {called}");
        Ok(called)
    }
}

impl Drop for StdioClient {
    fn drop(&mut self) {
        self.input = None;
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
