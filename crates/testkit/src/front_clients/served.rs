//! The program as an HTTP server.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A server on a port of its own; killed when dropped.
#[derive(Debug)]
pub struct ServedProgram {
    child: Child,
    /// The address of the server, `127.0.0.1:PORT`.
    pub address: String,
}

impl ServedProgram {
    /// Starts the server and waits until it prints its address.
    pub fn start(command: &mut Command) -> Result<ServedProgram> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start the server")?;
        let (said, heard) = mpsc::channel();
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let pipes = [
            out.map(|out| Box::new(out) as Box<dyn std::io::Read + Send>),
            err.map(|err| Box::new(err) as Box<dyn std::io::Read + Send>),
        ];
        for pipe in pipes.into_iter().flatten() {
            let said = said.clone();
            // Read to the end, so that the server never blocks on its output.
            thread::spawn(move || {
                for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                    if let Some(address) = parse_address(&line) {
                        // Only the first address is waited for.
                        let _ = said.send(address);
                    }
                }
            });
        }
        let address = heard
            .recv_timeout(START_TIMEOUT)
            .context("the server does not say where it listens")?;
        Ok(ServedProgram { child, address })
    }

    /// The id of the server's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The address of the MCP endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Waits until the process ends.
    pub fn wait(&mut self) -> Result<std::process::ExitStatus> {
        Ok(self.child.wait()?)
    }
}

impl Drop for ServedProgram {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn parse_address(line: &str) -> Option<String> {
    let (_, after) = line.split_once("http://127.0.0.1:")?;
    let port: String = after.chars().take_while(char::is_ascii_digit).collect();
    (!port.is_empty()).then(|| format!("127.0.0.1:{port}"))
}

/// The resident memory of a process in bytes.
pub fn resident_memory(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let amount = line.and_then(|line| line.split_whitespace().next());
    let kilobytes: u64 = amount.context("no VmRSS")?.parse()?;
    Ok(kilobytes * 1024)
}
