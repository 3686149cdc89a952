//! Programs that wait for an approval, in an engine configured as for a server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use ringfence_engine::approvals::{self, Say};
use ringfence_engine::{Ask, Engine, Front, Language, OutputFrom, Patience, Program, Progress, Settings, Tools};
use ringfence_gateway::{Credentials, Servers};
use ringfence_journal::{ApprovalId, ApprovalScope, ApprovalVia, ExecutionId, Principal, Status};
use ringfence_policy::{Ceiling, Draft};
use serde_json::json;

use super::CALLS;
use crate::timing::middle;

const RULES: &str = "
version: 1
tools:
  rules:
    - { allow: 'echo.*' }
    - { ask: echo.structured }
  max_calls: 100000
approvals: { timeout: 24h, by: [inbox] }
";
const WHO: Principal = Principal::Local(0);
const LONG: Duration = Duration::from_mins(1);

/// The median times of resuming and of comparable programs.
#[derive(Debug, Clone, Copy)]
pub struct Resumed {
    /// The time from the answer to the end.
    pub resumed: Duration,
    /// The time of the same program from beginning to end, without a wait.
    pub fresh: Duration,
    /// The time of a program that makes only the last call.
    pub least: Duration,
}

/// An engine with waiting programs, and the person who answers.
#[derive(Debug)]
pub struct Waiter {
    engine: Arc<Engine>,
    home: PathBuf,
}

impl Waiter {
    /// Opens an engine on `folder`, and connects the servers by a first program.
    pub async fn open(folder: &Path, upstream: &Path) -> Result<Waiter> {
        let servers = json!({ "mcpServers": { "echo": { "command": upstream, "args": ["echo"], "policy": "host" } } });
        let draft = Draft::builtin().layer(&Draft::parse(RULES, "rules")?);
        let home = folder.join("home");
        let settings = Settings {
            home: home.clone(),
            sinks: Vec::new(),
            principal: WHO,
            python: None,
            servers: Servers::parse(&servers.to_string(), folder)?,
            server_policies: BTreeMap::new(),
            credentials: Credentials::default(),
            checkers: Tools::default(),
            environment: Arc::new(|_: &str| None),
            front: Some(Front {
                policy: Arc::new(draft.under(&Ceiling::own_word())?),
                ceiling: Ceiling::own_word(),
                idle: Duration::from_mins(30),
                warm: 2,
                budget: ringfence_engine::BudgetOverrides::default(),
            }),
        };
        let waiter = Waiter {
            engine: Engine::serve(settings).await?,
            home,
        };
        waiter.whole(&program(1, "echo")).await?;
        Ok(waiter)
    }

    /// The data folder of the engine.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Starts a program that makes `calls` calls and then waits for an approval.
    pub async fn waiting(&self, calls: usize) -> Result<ExecutionId> {
        let id = self.begin(&program(calls, "structured")).await?;
        let begun = Instant::now();
        loop {
            let from = OutputFrom::LastAsked;
            let progress = self.engine.wait_until(WHO, id, LONG, Patience::People, from).await;
            match progress.map_err(anyhow::Error::from)? {
                Progress::Running(running) if running.status == Status::WaitingApproval => return Ok(id),
                Progress::Running(_) => ensure!(begun.elapsed() < LONG, "it never waits"),
                Progress::Ended(ended) => bail!("it does not wait: {ended:?}"),
            }
        }
    }

    /// Has programs wait and resume, in turns with the same program without a wait.
    pub async fn resume(&self, rounds: usize) -> Result<Resumed> {
        let (mut resumed, mut fresh, mut least) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=rounds {
            let id = self.waiting(CALLS).await?;
            let question = self.question(id).await?;
            let answered = Instant::now();
            approvals::answer(self.engine.store(), question, yes()).await?;
            self.ended(id, CALLS + 1).await?;
            let took = answered.elapsed();
            let times = (
                self.whole(&program(CALLS, "echo")).await?,
                self.whole(&program(0, "echo")).await?,
            );
            // The first round is warm-up.
            if round > 0 {
                resumed.push(took);
                fresh.push(times.0);
                least.push(times.1);
            }
        }
        Ok(Resumed {
            resumed: middle(resumed),
            fresh: middle(fresh),
            least: middle(least),
        })
    }

    async fn question(&self, id: ExecutionId) -> Result<ApprovalId> {
        let progress = self
            .engine
            .wait(WHO, id, Duration::ZERO)
            .await
            .map_err(anyhow::Error::from)?;
        let Progress::Running(running) = progress else {
            bail!("it is over");
        };
        Ok(running.approvals.first().context("nobody is asked")?.id)
    }

    async fn whole(&self, source: &str) -> Result<Duration> {
        let begun = Instant::now();
        let id = self.begin(source).await?;
        self.ended(id, 0).await?;
        Ok(begun.elapsed())
    }

    async fn begin(&self, source: &str) -> Result<ExecutionId> {
        let ask = Ask {
            args: Vec::new(),
            stdin: None,
            program: Program::Code {
                language: Language::TypeScript,
                file_name: "program".to_owned(),
                source: source.to_owned(),
            },
            files: Vec::new(),
            session: None,
            draft: None,
            timeout: None,
            trace: None,
        };
        Ok(self.engine.begin(WHO, ask).await?)
    }

    /// Waits for the end of a program that must have made at least so many calls.
    async fn ended(&self, id: ExecutionId, calls: usize) -> Result<()> {
        let progress = self.engine.wait(WHO, id, LONG).await.map_err(anyhow::Error::from)?;
        let Progress::Ended(Ok(execution)) = progress else {
            bail!("it does not end: {progress:?}");
        };
        ensure!(execution.error.is_none(), "{:?}", execution.error);
        let well = execution.calls.iter().filter(|call| call.outcome == "ok").count();
        ensure!(well == execution.calls.len() && well >= calls, "{well} calls went well");
        Ok(())
    }

    /// Shuts the engine down; executions that wait are left to the next one.
    pub async fn leave(self) -> Result<PathBuf> {
        self.engine.drain(Duration::from_secs(5)).await;
        let engine = Arc::into_inner(self.engine);
        if let Some(engine) = engine {
            engine.leave().await;
        }
        Ok(self.home)
    }
}

fn program(calls: usize, last: &str) -> String {
    format!(
        "let right = 0;\nfor (let i = 0; i < {calls}; i++) {{\n  const text = `number ${{i}}`;\n  \
         if (await tools.echo.echo({{ text }}) === text) right++;\n}}\nawait tools.echo.{last}({{ text: 'last' }});\nright"
    )
}

fn yes() -> Say {
    Say {
        approve: true,
        scope: ApprovalScope::Once,
        shown: None,
        by: WHO,
        via: ApprovalVia::Cli,
        note: None,
    }
}
