//! The complete path of a call: program, sandbox, gateway, journal, server.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ringfence_engine::{CheckerTools, Engine, EngineConfig, ExecutionReport, ExecutionRequest, RunProgram};
use ringfence_gateway::Servers;
use ringfence_journal::Principal;
use ringfence_policy::{Ceiling, Draft, Policy};
use ringfence_sandbox::JobLanguage;
use serde_json::{Value, json};

use super::SERVERS;

const POLICY: &str = "
version: 1
tools:
  rules:
    - { allow: echo.* }
    - { allow: records.* }
  max_calls: 100000
";

/// An engine with a data folder of its own and connected servers.
#[derive(Debug)]
pub struct CallPath {
    engine: Engine,
    policy: Policy,
    _home: tempfile::TempDir,
}

/// A program that ran, with its time.
#[derive(Debug)]
pub struct TimedProgram {
    /// The time from the request to the result, including the last event in the journal.
    pub time: Duration,
    /// The value of the program, as JSON.
    pub value: Value,
    /// The report, as a model would read it.
    pub execution: ExecutionReport,
}

impl CallPath {
    /// Opens the engine, and connects the servers by a first program.
    pub async fn open(upstream: &Path) -> Result<CallPath> {
        let home = tempfile::tempdir()?;
        let settings = EngineConfig {
            home: home.path().join("home"),
            sinks: Vec::new(),
            principal: Principal::Local(0),
            python: None,
            servers: Servers::parse(&servers_document(upstream), home.path())?,
            server_policies: BTreeMap::new(),
            credentials: ringfence_gateway::Credentials::default(),
            checkers: CheckerTools::default(),
            environment: Arc::new(|_: &str| None),
            serve: None,
        };
        let engine = Engine::open(settings).await?;
        let draft = Draft::builtin().layer(&Draft::parse(POLICY, "rules")?);
        let policy = draft.under(&Ceiling::unlimited())?;
        let road = CallPath {
            engine,
            policy,
            _home: home,
        };
        let greeting = r#"[await tools.echo.echo({ text: "a" }), await tools.records.echo({ text: "b" })].join("")"#;
        let first = road.run(JobLanguage::TypeScript, greeting, 2).await?;
        ensure!(first.value == json!("ab"), "the servers do not answer: {}", first.value);
        Ok(road)
    }

    /// Runs a program that must complete after exactly `calls` successful calls.
    pub async fn run(&self, language: JobLanguage, source: &str, calls: usize) -> Result<TimedProgram> {
        let program = RunProgram::Code {
            language,
            file_name: "program".to_owned(),
            source: source.to_owned(),
        };
        let request = ExecutionRequest::new(self.policy.clone(), program);
        let started = Instant::now();
        let execution = self.engine.run(request, &mut ()).await?;
        let time = started.elapsed();
        ensure!(execution.error.is_none(), "{:?}\n{}", execution.error, execution.stderr);
        // The first calls of a kind are listed one by one; an item with a count stands for the rest.
        let well = execution.calls.iter().filter(|call| call.outcome == "ok");
        let well: u64 = well.map(|call| call.count.unwrap_or(1)).sum();
        ensure!(well == calls as u64, "{well} of {calls} calls went well");
        let value = execution.value.as_ref().context("no value")?;
        Ok(TimedProgram {
            time,
            value: serde_json::from_str(value.get())?,
            execution,
        })
    }

    /// Shuts the engine down, and its servers with it.
    pub async fn shut_down(self) {
        self.engine.shutdown().await;
    }
}

/// The document that configures the servers.
pub(super) fn servers_document(upstream: &Path) -> String {
    let entry = |mode: &str| json!({ "command": upstream, "args": [mode], "policy": "host" });
    let entries: BTreeMap<&str, Value> = SERVERS.into_iter().map(|name| (name, entry(name))).collect();
    json!({ "mcpServers": entries }).to_string()
}
