//! Measures the release of a sandbox, from the decision on: the sandbox itself, and the commit that records it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use ringfence_journal::{
    CleanText, ContentHash, Event, EventKind, ExecutionId, PolicyRef, Principal, RecordedLimits, SessionId,
};
use ringfence_sandbox::{
    Backend, BackendKind, CallHandler, CallPort, ConcludedExecution, ExecutionTask, JobLanguage, OutputSink,
    ReplayState, RunProgram, StandardStream, Stop, ToolReply, Verdict,
};
use ringfence_store::{Lease, NewRecording, NewSession, Store};

use super::CALLS;
use crate::sandboxes::built_in_spec;
use crate::timing::median_of;

/// The time after which a program certainly waits.
const SETTLE_TIME: Duration = Duration::from_millis(20);

/// The median times of a release.
#[derive(Debug, Clone, Copy)]
pub struct ReleaseTimes {
    /// The time until the sandbox is free again.
    pub sandbox: Duration,
    /// The time of the commit that records the release.
    pub commit: Duration,
    /// The median time of both in the same round.
    pub both: Duration,
}

struct DiscardedOutput;

impl OutputSink for DiscardedOutput {
    fn on_output(&mut self, _: StandardStream, _: &[u8]) {}
}

/// Releases a sandbox `rounds` times.
pub async fn measure_release(rounds: usize) -> Result<ReleaseTimes> {
    let backend = Arc::new(Backend::new(
        BackendKind::default(),
        &format!("ringfence-bench-{}", std::process::id()),
    )?);
    let home = tempfile::tempdir()?;
    let store = Store::open(home.path()).await?;
    let lease = Lease::acquire(home.path())?;
    let mut sandbox = backend.launch(&built_in_spec()?).await?;
    let (mut sandboxes, mut commits, mut both) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..=rounds {
        let (session, execution) = begin_execution(&store, &lease).await?;
        let (ended, decided) = run_until_released(&mut sandbox).await?;
        let free = decided.elapsed();
        ensure!(matches!(ended.verdict, Verdict::Released { .. }), "{:?}", ended.verdict);
        ensure!(sandbox.is_sound(), "the sandbox is of no use any more");
        let suspended = EventKind::ExecutionSuspended {
            waiting: 1,
            until: None,
        };
        let written = Instant::now();
        let wake = Timestamp::now() + jiff::SignedDuration::from_hours(1);
        store
            .suspend(
                Event::from_host(session, Some(execution), suspended),
                Some(wake),
                Vec::new(),
            )
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
        median_of(times)
    });
    Ok(ReleaseTimes { sandbox, commit, both })
}

/// Runs a program until it waits and is released; returns the time of the decision.
async fn run_until_released(sandbox: &mut ringfence_sandbox::Sandbox) -> Result<(ConcludedExecution, Instant)> {
    let source = format!(
        "for (let i = 0; i < {CALLS}; i++) await tools.echo.echo({{ text: `number ${{i}}` }});\n\
         await tools.echo.ask({{}})"
    );
    let (door, handler) = CallPort::new(64);
    let CallHandler {
        mut calls,
        replies: answers,
        held,
    } = handler;
    let task = ExecutionTask {
        call_port: Some(door),
        replay: Some(ReplayState::fresh()),
        ..ExecutionTask::new(RunProgram::Code {
            language: JobLanguage::TypeScript,
            file_name: "program".to_owned(),
            source,
        })
    };
    let behind = async move {
        for _ in 0..CALLS {
            let asked = calls.recv().await.context("too few calls")?;
            let answered = ToolReply {
                number: asked.number,
                answer: Ok("\"fine\"".to_owned()),
            };
            answers.send(answered).await?;
        }
        calls.recv().await.context("it does not wait")?;
        tokio::time::sleep(SETTLE_TIME).await;
        let decided = Instant::now();
        held.send_replace(Some(1));
        // The far end of the calls stays open until the program is gone.
        while calls.recv().await.is_some() {}
        drop(answers);
        Ok::<Instant, anyhow::Error>(decided)
    };
    let (_switch, mut stop) = Stop::new();
    let mut nobody = DiscardedOutput;
    let (ended, decided) = tokio::join!(sandbox.run(task, &mut nobody, &mut stop), behind);
    Ok((ended?, decided?))
}

async fn begin_execution(store: &Store, lease: &Lease) -> Result<(SessionId, ExecutionId)> {
    let (session, execution) = (SessionId::generate()?, ExecutionId::generate()?);
    store.open_session(lease, new_session(session)).await?;
    let recording = NewRecording {
        execution,
        session,
        request: vec![b'x'; 1024],
        stays: None,
    };
    store
        .record_start_with_recording(Event::from_host(session, Some(execution), started_event()), recording)
        .await?;
    Ok((session, execution))
}

/// A new session without rules.
pub(super) fn new_session(session: SessionId) -> NewSession {
    NewSession {
        session,
        principal: Principal::Local(0),
        policy: PolicyRef {
            name: CleanText::from("bench"),
            digest: CleanText::from("bench"),
        },
        policy_json: "{}".to_owned(),
        backend: CleanText::from(BackendKind::default().name()),
        enforcement: Vec::new(),
        durable: false,
        journal_bytes: 1 << 26,
        uid: None,
        keeping: None,
    }
}

/// The start event of an execution.
pub(super) fn started_event() -> EventKind {
    EventKind::ExecutionStarted {
        language: CleanText::from("typescript"),
        program: None,
        code: ContentHash::digest(b""),
        bytes: 0,
        files: Vec::new(),
        limits: RecordedLimits::default(),
        client: None,
        parent: None,
    }
}
