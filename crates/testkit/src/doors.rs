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

use crate::front::{Era, Http, Served, Stdio, memory, structured};
use crate::timing::middle;

/// The program that the benchmark measures.
#[derive(Debug)]
pub struct Program(PathBuf);

/// A data folder for the program to run in.
#[derive(Debug)]
struct Place<'a> {
    program: &'a Path,
    folder: tempfile::TempDir,
}

impl Program {
    /// Finds the program that was built beside this one.
    pub fn beside() -> Result<Program> {
        let program = std::env::current_exe()?.with_file_name("ringfence");
        ensure!(
            program.is_file(),
            "{} is missing: `cargo xtask bench` builds it",
            program.display()
        );
        Ok(Program(program))
    }

    /// The path of the program.
    pub fn path(&self) -> &Path {
        &self.0
    }

    fn place(&self, servers: &Value) -> Result<Place<'_>> {
        let folder = tempfile::tempdir()?;
        std::fs::write(
            folder.path().join("servers.json"),
            json!({ "mcpServers": servers }).to_string(),
        )?;
        Ok(Place {
            program: &self.0,
            folder,
        })
    }
}

impl Place<'_> {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.program);
        command.args(args).current_dir(self.folder.path()).env_clear();
        command.env("PATH", "/usr/bin:/bin").env("HOME", self.folder.path());
        command.env("RINGFENCE_HOME", self.folder.path().join("home"));
        command.stderr(Pipes::null());
        command
    }

    fn stdio(&self, era: Era) -> Result<Stdio> {
        let args = ["serve", "--stdio", "--servers", "servers.json"];
        Stdio::start(&mut self.command(&args), era)
    }

    fn http(&self) -> Result<(Served, String)> {
        let made = self
            .command(&["token", "create", "--name", "bench", "--scope", "agent"])
            .output()?;
        let secret = String::from_utf8(made.stdout)?.trim().to_owned();
        ensure!(!secret.is_empty(), "no access token was made");
        let args = ["serve", "--listen", "127.0.0.1:0", "--servers", "servers.json"];
        Ok((Served::start(&mut self.command(&args))?, secret))
    }
}

/// The tokens that our tools cost a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// The number of tools.
    pub tools: usize,
    /// Tokens of names, descriptions and input schemas.
    pub input: usize,
    /// Tokens of the output schemas.
    pub output: usize,
}

/// The cost with so many upstream tools, before and after they are known.
pub fn cost(program: &Program, upstream: usize) -> Result<Cost> {
    let place = program.place(&json!({ "many": { "openapi": "many.json" } }))?;
    std::fs::write(place.folder.path().join("many.json"), document(upstream).to_string())?;
    let mut client = place.stdio(Era::Modern)?;
    let before = listed(&mut client)?;
    let found = client.call("search_tools", &json!({"query": "find widget 1"}))?;
    structured(&found)?;
    let after = listed(&mut client)?;
    ensure!(
        before == after,
        "our tools change with {upstream} others: {before:?}, {after:?}"
    );
    Ok(after)
}

fn listed(client: &mut Stdio) -> Result<Cost> {
    let list = client.request("tools/list", json!({}))?;
    let tools = list.get("tools").and_then(Value::as_array).context("no tools")?;
    let part = |tool: &Value, keys: &[&str]| {
        let part: Map<String, Value> = keys
            .iter()
            .filter_map(|key| Some(((*key).to_owned(), tool.get(*key)?.clone())))
            .collect();
        tokens::count(&Value::Object(part).to_string())
    };
    let input = tools
        .iter()
        .map(|tool| part(tool, &["name", "description", "inputSchema"]));
    let output = tools.iter().map(|tool| part(tool, &["outputSchema"]));
    Ok(Cost {
        tools: tools.len(),
        input: input.sum(),
        output: output.sum(),
    })
}

/// An `OpenAPI` document with so many operations.
fn document(operations: usize) -> Value {
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

fn sum() -> Value {
    json!({"language": "typescript", "code": "1+1"})
}

fn check(called: &Value) -> Result<()> {
    let value = structured(called)?.get("value");
    ensure!(value == Some(&json!(2)), "1+1 is {value:?}: {called}");
    Ok(())
}

/// Runs `1+1` in sequence over standard input and output; returns the median time of a call, and of a hundred in a row.
pub fn one_by_one(program: &Program, rounds: usize) -> Result<(Duration, Duration)> {
    let place = program.place(&json!({}))?;
    let mut client = place.stdio(Era::Legacy)?;
    let (mut each, mut hundreds) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let begun = Instant::now();
        for _ in 0..100 {
            let asked = Instant::now();
            let called = client.call("sandboxed_code_run", &sum())?;
            // The first round is warm-up.
            if round > 0 {
                each.push(asked.elapsed());
            }
            check(&called)?;
        }
        if round > 0 {
            hundreds.push(begun.elapsed());
        }
    }
    Ok((middle(each), middle(hundreds)))
}

/// The result of concurrent calls.
#[derive(Debug)]
pub struct Flood {
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
pub fn flood(program: &Program, clients: usize, calls: usize, within: Duration) -> Result<Flood> {
    let place = program.place(&json!({}))?;
    let (served, secret) = place.http()?;
    let barrier = Barrier::new(clients + 1);
    let (begun, each) = thread::scope(|scope| {
        let client = || {
            let client = Http::start(&served.address, Some(&secret), Era::Modern);
            // Each client makes one call first, so that all are connected when the measurement begins.
            let mut client = client.and_then(|mut client| {
                check(&client.call("sandboxed_code_run", &sum())?)?;
                Ok(client)
            });
            barrier.wait();
            let begun = Instant::now();
            let mut times = Vec::new();
            while times.len() < calls && (within.is_zero() || begun.elapsed() < within) {
                let asked = Instant::now();
                let called = match &mut client {
                    Ok(client) => client
                        .call("sandboxed_code_run", &sum())
                        .and_then(|called| check(&called)),
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
    Ok(Flood {
        calls: times.len(),
        failed,
        rate,
        middle: middle(times),
        slowest,
    })
}

/// The time from the start of the program to its first answer, with servers that nobody uses, and its memory then.
pub fn start(program: &Program, servers: usize, times: usize) -> Result<(Duration, u64)> {
    let entry = |number: usize| {
        let name = format!("server{number}");
        (
            name,
            json!({"command": "/nowhere/server", "args": ["stdio"], "env": {"NAME": "env:NAME"}}),
        )
    };
    let entries: Map<String, Value> = (0..servers).map(entry).collect();
    let place = program.place(&Value::Object(entries))?;
    let (mut took, mut held) = (Vec::new(), 0);
    for _ in 0..=times {
        let begun = Instant::now();
        let client = place.stdio(Era::Modern)?;
        took.push(begun.elapsed());
        held = held.max(memory(client.pid())?);
    }
    took.remove(0);
    Ok((middle(took), held))
}
