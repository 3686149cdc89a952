//! Programs that wait for an approval, in an engine configured as for a server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use ringfence_engine::approvals::{self, AnswerSubmission};
use ringfence_engine::{
    CheckerTools, Engine, EngineConfig, JobLanguage, OutputFrom, RunProgram, RunProgress, RunRequest, ServeConfig,
    WaitCondition,
};
use ringfence_gateway::{Credentials, Servers};
use ringfence_journal::{ApprovalId, ApprovalScope, ApprovalVia, ExecutionId, ExecutionStatus, Principal};
use ringfence_policy::{Ceiling, Draft};
use serde_json::json;

use super::CALLS;
use crate::timing::median_of;

const POLICY: &str = "
version: 1
tools:
  rules:
    - { allow: 'echo.*' }
    - { ask: echo.structured }
  max_calls: 100000
approvals: { timeout: 24h, by: [inbox] }
";
const PRINCIPAL: Principal = Principal::Local(0);
const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

/// The median times of resuming and of comparable programs.
#[derive(Debug, Clone, Copy)]
pub struct ResumeTimes {
    /// The time from the answer to the end.
    pub resumed: Duration,
    /// The time of the same program from beginning to end, without a wait.
    pub fresh: Duration,
    /// The time of a program that makes only the last call.
    pub least: Duration,
}

/// An engine with waiting programs, and the person who answers.
#[derive(Debug)]
pub struct WaitingEngine {
    engine: Arc<Engine>,
    home: PathBuf,
}

impl WaitingEngine {
    /// Opens an engine on `folder`, and connects the servers by a first program.
    pub async fn open(folder: &Path, upstream: &Path) -> Result<WaitingEngine> {
        let servers = json!({ "mcpServers": { "echo": { "command": upstream, "args": ["echo"], "policy": "host" } } });
        let draft = Draft::builtin().layer(&Draft::parse(POLICY, "rules")?);
        let home = folder.join("home");
        let settings = EngineConfig {
            home: home.clone(),
            sinks: Vec::new(),
            principal: PRINCIPAL,
            python: None,
            servers: Servers::parse(&servers.to_string(), folder)?,
            server_policies: BTreeMap::new(),
            credentials: Credentials::default(),
            checkers: CheckerTools::default(),
            environment: Arc::new(|_: &str| None),
            serve: Some(ServeConfig {
                policy: Arc::new(draft.under(&Ceiling::unlimited())?),
                ceiling: Ceiling::unlimited(),
                idle: Duration::from_mins(30),
                warm: 2,
                budget: ringfence_engine::BudgetOverrides::default(),
            }),
        };
        let waiter = WaitingEngine {
            engine: Engine::open_for_serving(settings).await?,
            home,
        };
        waiter.run_whole(&calls_program(1, "echo")).await?;
        Ok(waiter)
    }

    /// The data folder of the engine.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Starts a program that makes `calls` calls and then waits for an approval.
    pub async fn start_waiting(&self, calls: usize) -> Result<ExecutionId> {
        let id = self.begin(&calls_program(calls, "structured")).await?;
        let begun = Instant::now();
        loop {
            let from = OutputFrom::LastRead;
            let progress = self
                .engine
                .runs()
                .wait_until(PRINCIPAL, id, WAIT_TIMEOUT, WaitCondition::FinishedOrBlocked, from)
                .await;
            match progress.map_err(anyhow::Error::from)? {
                RunProgress::Running(running) if running.status == ExecutionStatus::WaitingApproval => return Ok(id),
                RunProgress::Running(_) => ensure!(begun.elapsed() < WAIT_TIMEOUT, "it never waits"),
                RunProgress::Ended(ended) => bail!("it does not wait: {ended:?}"),
            }
        }
    }

    /// Has programs wait and resume, in turns with the same program without a wait.
    pub async fn measure_resume(&self, rounds: usize) -> Result<ResumeTimes> {
        let (mut resumed, mut fresh, mut least) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=rounds {
            let id = self.start_waiting(CALLS).await?;
            let question = self.wait_for_question(id).await?;
            let answered = Instant::now();
            approvals::answer_approval(self.engine.store(), question, approval()).await?;
            self.wait_for_end(id, CALLS + 1).await?;
            let took = answered.elapsed();
            let times = (
                self.run_whole(&calls_program(CALLS, "echo")).await?,
                self.run_whole(&calls_program(0, "echo")).await?,
            );
            // The first round is warm-up.
            if round > 0 {
                resumed.push(took);
                fresh.push(times.0);
                least.push(times.1);
            }
        }
        Ok(ResumeTimes {
            resumed: median_of(resumed),
            fresh: median_of(fresh),
            least: median_of(least),
        })
    }

    async fn wait_for_question(&self, id: ExecutionId) -> Result<ApprovalId> {
        let progress = self
            .engine
            .runs()
            .wait(PRINCIPAL, id, Duration::ZERO)
            .await
            .map_err(anyhow::Error::from)?;
        let RunProgress::Running(running) = progress else {
            bail!("it is over");
        };
        Ok(running.approvals.first().context("nobody is asked")?.id)
    }

    async fn run_whole(&self, source: &str) -> Result<Duration> {
        let begun = Instant::now();
        let id = self.begin(source).await?;
        self.wait_for_end(id, 0).await?;
        Ok(begun.elapsed())
    }

    async fn begin(&self, source: &str) -> Result<ExecutionId> {
        let ask = RunRequest {
            args: Vec::new(),
            stdin: None,
            program: RunProgram::Code {
                language: JobLanguage::TypeScript,
                file_name: "program".to_owned(),
                source: source.to_owned(),
            },
            files: Vec::new(),
            session: None,
            draft: None,
            timeout: None,
            trace: None,
        };
        Ok(self.engine.runs().begin(PRINCIPAL, ask).await?)
    }

    /// Waits for the end of a program that must have made at least so many calls.
    async fn wait_for_end(&self, id: ExecutionId, calls: usize) -> Result<()> {
        let progress = self
            .engine
            .runs()
            .wait(PRINCIPAL, id, WAIT_TIMEOUT)
            .await
            .map_err(anyhow::Error::from)?;
        let RunProgress::Ended(Ok(execution)) = progress else {
            bail!("it does not end: {progress:?}");
        };
        ensure!(execution.error.is_none(), "{:?}", execution.error);
        let well = execution.calls.iter().filter(|call| call.outcome == "ok").count();
        ensure!(well == execution.calls.len() && well >= calls, "{well} calls went well");
        Ok(())
    }

    /// Shuts the engine down; executions that wait are left to the next one.
    pub async fn shut_down(self) -> Result<PathBuf> {
        self.engine.runs().drain(Duration::from_secs(5)).await;
        let engine = Arc::into_inner(self.engine);
        if let Some(engine) = engine {
            engine.shutdown().await;
        }
        Ok(self.home)
    }
}

fn calls_program(calls: usize, last: &str) -> String {
    format!(
        "let right = 0;\nfor (let i = 0; i < {calls}; i++) {{\n  const text = `number ${{i}}`;\n  \
         if (await tools.echo.echo({{ text }}) === text) right++;\n}}\nawait tools.echo.{last}({{ text: 'last' }});\nright"
    )
}

fn approval() -> AnswerSubmission {
    AnswerSubmission {
        approve: true,
        scope: ApprovalScope::Once,
        shown: None,
        by: PRINCIPAL,
        via: ApprovalVia::Cli,
        note: None,
    }
}
