//! Measures the release of a sandbox, from the decision on: the sandbox itself, and the commit that records it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use ringfence_journal::{Event, ExecutionId, Hash, Kind, Limits, PolicyRef, Principal, SessionId, Text};
use ringfence_sandbox::{Again, Answered, Door, Ended, Language, Native, Output, Stop, Task, TaskKind, Verdict, Words};
use ringfence_store::{Lease, Opening, Recording, Store};

use super::CALLS;
use crate::sandboxes::spec;
use crate::timing::middle;

/// The time after which a program certainly waits.
const SETTLED: Duration = Duration::from_millis(20);

/// The median times of a release.
#[derive(Debug, Clone, Copy)]
pub struct Released {
    /// The time until the sandbox is free again.
    pub sandbox: Duration,
    /// The time of the commit that records the release.
    pub commit: Duration,
    /// The median time of both in the same round.
    pub both: Duration,
}

struct Nobody;

impl Words for Nobody {
    fn take(&mut self, _: Output, _: &[u8]) {}
}

/// Releases a sandbox `rounds` times.
pub async fn release(rounds: usize) -> Result<Released> {
    let native = Arc::new(Native::new(&format!("ringfence-bench-{}", std::process::id()))?);
    let home = tempfile::tempdir()?;
    let store = Store::open(home.path()).await?;
    let lease = Lease::acquire(home.path())?;
    let mut sandbox = native.launch(&spec()?).await?;
    let (mut sandboxes, mut commits, mut both) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..=rounds {
        let (session, execution) = begin(&store, &lease).await?;
        let (ended, decided) = held(&mut sandbox).await?;
        let free = decided.elapsed();
        ensure!(matches!(ended.verdict, Verdict::Released { .. }), "{:?}", ended.verdict);
        ensure!(sandbox.is_sound(), "the sandbox is of no use any more");
        let suspended = Kind::ExecutionSuspended {
            waiting: 1,
            until: None,
        };
        let written = Instant::now();
        let wake = Timestamp::now() + jiff::SignedDuration::from_hours(1);
        store
            .suspend(Event::host(session, Some(execution), suspended), Some(wake), Vec::new())
            .await?;
        sandboxes.push(free);
        commits.push(written.elapsed());
        both.push(decided.elapsed());
    }
    sandbox.end().await?;
    store.close().await;
    let [sandbox, commit, both] = [sandboxes, commits, both].map(|mut times| {
        // The first round is warm-up.
        times.remove(0);
        middle(times)
    });
    Ok(Released { sandbox, commit, both })
}

/// Runs a program until it waits and is released; returns the time of the decision.
async fn held(sandbox: &mut ringfence_sandbox::Sandbox) -> Result<(Ended, Instant)> {
    let source = format!(
        "for (let i = 0; i < {CALLS}; i++) await tools.echo.echo({{ text: `number ${{i}}` }});\n\
         await tools.echo.ask({{}})"
    );
    let (door, mut calls, answers, held) = Door::new(64);
    let task = Task {
        kind: TaskKind::Code {
            language: Language::TypeScript,
            file_name: "program".to_owned(),
            source,
        },
        args: Vec::new(),
        stdin: None,
        door: Some(door),
        wall: None,
        network: None,
        again: Some(Again::fresh()),
    };
    let behind = async move {
        for _ in 0..CALLS {
            let asked = calls.recv().await.context("too few calls")?;
            let answered = Answered {
                number: asked.number,
                answer: Ok("\"fine\"".to_owned()),
            };
            answers.send(answered).await?;
        }
        calls.recv().await.context("it does not wait")?;
        tokio::time::sleep(SETTLED).await;
        let decided = Instant::now();
        held.send_replace(Some(1));
        // The far end of the calls stays open until the program is gone.
        while calls.recv().await.is_some() {}
        drop(answers);
        Ok::<Instant, anyhow::Error>(decided)
    };
    let (_switch, mut stop) = Stop::new();
    let mut nobody = Nobody;
    let (ended, decided) = tokio::join!(sandbox.run(task, &mut nobody, &mut stop), behind);
    Ok((ended?, decided?))
}

async fn begin(store: &Store, lease: &Lease) -> Result<(SessionId, ExecutionId)> {
    let (session, execution) = (SessionId::generate()?, ExecutionId::generate()?);
    store.open_session(lease, opening(session)).await?;
    let recording = Recording {
        execution,
        session,
        request: vec![b'x'; 1024],
        stays: None,
    };
    store
        .record_start(Event::host(session, Some(execution), started()), recording)
        .await?;
    Ok((session, execution))
}

/// A new session without rules.
pub(super) fn opening(session: SessionId) -> Opening {
    Opening {
        session,
        principal: Principal::Local(0),
        policy: PolicyRef {
            name: Text::from("bench"),
            digest: Text::from("bench"),
        },
        policy_json: "{}".to_owned(),
        backend: Text::from("native"),
        enforcement: Vec::new(),
        durable: false,
        journal_bytes: 1 << 26,
        uid: None,
        keeping: None,
    }
}

/// The start event of an execution.
pub(super) fn started() -> Kind {
    Kind::ExecutionStarted {
        language: Text::from("typescript"),
        program: None,
        code: Hash::of(b""),
        bytes: 0,
        files: Vec::new(),
        limits: Limits::default(),
        client: None,
        parent: None,
    }
}
