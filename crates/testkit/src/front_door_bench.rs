//! Measures the front doors from outside, as clients see them: the program itself, started in a data folder of its own.
#![expect(clippy::disallowed_methods, reason = "a benchmark starts the program itself")]

pub mod peers;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio as Pipes};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use ringfence_catalog::tokens;
use serde_json::{Map, Value, json};

use crate::front_clients::{ClientEra, HttpClient, ServedProgram, StdioClient, resident_memory, structured_content};
use crate::timing::median_of;

/// The program that the benchmark measures.
#[derive(Debug)]
pub struct BenchProgram(PathBuf);

/// A data folder for the program to run in.
#[derive(Debug)]
struct ProgramHome<'a> {
    program: &'a Path,
    folder: tempfile::TempDir,
}

impl BenchProgram {
    /// Finds the program that was built beside this one.
    pub fn find() -> Result<BenchProgram> {
        let program = std::env::current_exe()?.with_file_name("ringfence");
        ensure!(
            program.is_file(),
            "{} is missing: `cargo xtask bench` builds it",
            program.display()
        );
        Ok(BenchProgram(program))
    }

    /// The path of the program.
    pub fn path(&self) -> &Path {
        &self.0
    }

    fn prepare(&self, servers: &Value) -> Result<ProgramHome<'_>> {
        let folder = tempfile::tempdir()?;
        std::fs::write(
            folder.path().join("servers.json"),
            json!({ "mcpServers": servers }).to_string(),
        )?;
        Ok(ProgramHome {
            program: &self.0,
            folder,
        })
    }
}

impl ProgramHome<'_> {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.program);
        command.args(args).current_dir(self.folder.path()).env_clear();
        command.env("PATH", "/usr/bin:/bin").env("HOME", self.folder.path());
        command.env("RINGFENCE_HOME", self.folder.path().join("home"));
        command.stderr(Pipes::null());
        command
    }

    fn stdio(&self, era: ClientEra) -> Result<StdioClient> {
        let args = ["serve", "--stdio", "--servers", "servers.json"];
        StdioClient::start(&mut self.command(&args), era)
    }

    fn http(&self) -> Result<(ServedProgram, String)> {
        let made = self
            .command(&["token", "create", "--name", "bench", "--scope", "agent"])
            .output()?;
        let secret = String::from_utf8(made.stdout)?.trim().to_owned();
        ensure!(!secret.is_empty(), "no access token was made");
        let args = ["serve", "--listen", "127.0.0.1:0", "--servers", "servers.json"];
        Ok((ServedProgram::start(&mut self.command(&args))?, secret))
    }
}

/// The tokens that our tools cost a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolTokenCost {
    /// The number of tools.
    pub tools: usize,
    /// Tokens of names, descriptions and input schemas.
    pub input: usize,
    /// Tokens of the output schemas.
    pub output: usize,
}

/// The cost with so many upstream tools, before and after they are known.
pub fn tool_token_cost(program: &BenchProgram, upstream: usize) -> Result<ToolTokenCost> {
    let place = program.prepare(&json!({ "many": { "openapi": "many.json" } }))?;
    std::fs::write(
        place.folder.path().join("many.json"),
        openapi_document(upstream).to_string(),
    )?;
    let mut client = place.stdio(ClientEra::Modern)?;
    let before = list_tools_cost(&mut client)?;
    let found = client.call("search_tools", &json!({"query": "find widget 1"}))?;
    structured_content(&found)?;
    let after = list_tools_cost(&mut client)?;
    ensure!(
        before == after,
        "our tools change with {upstream} others: {before:?}, {after:?}"
    );
    Ok(after)
}

fn list_tools_cost(client: &mut StdioClient) -> Result<ToolTokenCost> {
    let list = client.request("tools/list", json!({}))?;
    let tools = list.get("tools").and_then(Value::as_array).context("no tools")?;
    let part = |tool: &Value, keys: &[&str]| {
        let part: Map<String, Value> = keys
            .iter()
            .filter_map(|key| Some(((*key).to_owned(), tool.get(*key)?.clone())))
            .collect();
        tokens::count_tokens(&Value::Object(part).to_string())
    };
    let input = tools
        .iter()
        .map(|tool| part(tool, &["name", "description", "inputSchema"]));
    let output = tools.iter().map(|tool| part(tool, &["outputSchema"]));
    Ok(ToolTokenCost {
        tools: tools.len(),
        input: input.sum(),
        output: output.sum(),
    })
}

/// An `OpenAPI` document with so many operations.
fn openapi_document(operations: usize) -> Value {
    let mut paths = Map::new();
    for number in 0..operations {
        let operation = json!({"get": {"operationId": format!("find_widget_{number}"),
            "summary": format!("Finds the widget {number} by its colour."),
            "parameters": [{"name": "colour", "in": "query", "schema": {"type": "string"}}],
            "responses": {"200": {"description": "it"}}}});
        paths.insert(format!("/widgets/{number}"), operation);
    }
    json!({"openapi": "3.1.0", "info": {"title": "Widgets", "version": "1"}, "servers": [{"url": "http://127.0.0.1:9"}],
        "paths": paths})
}

fn addition_arguments() -> Value {
    json!({"language": "typescript", "code": "1+1"})
}

fn check_sum(called: &Value) -> Result<()> {
    let value = structured_content(called)?.get("value");
    ensure!(value == Some(&json!(2)), "1+1 is {value:?}: {called}");
    Ok(())
}

/// Runs `1+1` in sequence over standard input and output; returns the median time of a call, and of a hundred in a row.
pub fn sequential_calls(program: &BenchProgram, rounds: usize) -> Result<(Duration, Duration)> {
    let place = program.prepare(&json!({}))?;
    let mut client = place.stdio(ClientEra::Legacy)?;
    let (mut each, mut hundreds) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let begun = Instant::now();
        for _ in 0..100 {
            let asked = Instant::now();
            let called = client.call("sandboxed_code_run", &addition_arguments())?;
            // The first round is warm-up.
            if round > 0 {
                each.push(asked.elapsed());
            }
            check_sum(&called)?;
        }
        if round > 0 {
            hundreds.push(begun.elapsed());
        }
    }
    Ok((median_of(each), median_of(hundreds)))
}

/// The result of concurrent calls.
#[derive(Debug)]
pub struct FloodResult {
    /// The number of calls that all clients made.
    pub calls: usize,
    /// The errors of the calls that failed.
    pub failed: Vec<String>,
    /// The rate of all clients in calls per second.
    pub rate: f64,
    /// The median time of a call.
    pub middle: Duration,
    /// The time that 99 % of the calls stay below.
    pub slowest: Duration,
}

/// Clients over HTTP, all at once, each with `calls` calls or as many as fit into the time.
pub fn concurrent_calls(program: &BenchProgram, clients: usize, calls: usize, within: Duration) -> Result<FloodResult> {
    let place = program.prepare(&json!({}))?;
    let (served, secret) = place.http()?;
    let barrier = Barrier::new(clients + 1);
    let (begun, each) = thread::scope(|scope| {
        let client = || {
            let client = HttpClient::start(&served.address, Some(&secret), ClientEra::Modern);
            // Each client makes one call first, so that all are connected when the measurement begins.
            let mut client = client.and_then(|mut client| {
                check_sum(&client.call("sandboxed_code_run", &addition_arguments())?)?;
                Ok(client)
            });
            barrier.wait();
            let begun = Instant::now();
            let mut times = Vec::new();
            while times.len() < calls && (within.is_zero() || begun.elapsed() < within) {
                let asked = Instant::now();
                let called = match &mut client {
                    Ok(client) => client
                        .call("sandboxed_code_run", &addition_arguments())
                        .and_then(|called| check_sum(&called)),
                    Err(error) => return vec![(Duration::ZERO, Err(anyhow!("{error:#}")))],
                };
                times.push((asked.elapsed(), called));
            }
            times
        };
        let clients: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
        barrier.wait();
        let begun = Instant::now();
        let each: Vec<_> = clients
            .into_iter()
            .filter_map(|client| client.join().ok())
            .flatten()
            .collect();
        (begun, each)
    });
    let took = begun.elapsed();
    let failed = each
        .iter()
        .filter_map(|(_, called)| called.as_ref().err().map(|error| format!("{error:#}")));
    let failed = failed.collect();
    let mut times: Vec<Duration> = each.iter().map(|(time, _)| *time).collect();
    times.sort_unstable();
    let slowest = times.get(times.len() * 99 / 100).copied().unwrap_or_default();
    #[expect(clippy::cast_precision_loss, reason = "calls are few")]
    let rate = times.len() as f64 / took.as_secs_f64();
    Ok(FloodResult {
        calls: times.len(),
        failed,
        rate,
        middle: median_of(times),
        slowest,
    })
}

/// The time from the start of the program to its first answer, with servers that nobody uses, and its memory then.
pub fn measure_startup(program: &BenchProgram, servers: usize, times: usize) -> Result<(Duration, u64)> {
    let entry = |number: usize| {
        let name = format!("server{number}");
        (
            name,
            json!({"command": "/nowhere/server", "args": ["stdio"], "env": {"NAME": "env:NAME"}}),
        )
    };
    let entries: Map<String, Value> = (0..servers).map(entry).collect();
    let place = program.prepare(&Value::Object(entries))?;
    let (mut took, mut held) = (Vec::new(), 0);
    for _ in 0..=times {
        let begun = Instant::now();
        let client = place.stdio(ClientEra::Modern)?;
        took.push(begun.elapsed());
        held = held.max(resident_memory(client.pid())?);
    }
    took.remove(0);
    Ok((median_of(took), held))
}
