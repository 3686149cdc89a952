//! The use cases end to end: real sandboxes, a real journal.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails there")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ringfence_engine::{Engine, EngineConfig, ExecutionReport, ExecutionRequest, OutputDestination, RunProgram};
use ringfence_journal::{ExecutionStatus, Principal, SessionState};
use ringfence_policy::{Ceiling, Draft, Policy};
use ringfence_sandbox::{ExistingFileAction, JobLanguage};
use ringfence_store::{SessionQuery, StopTarget};

mod front;
mod skills;
mod standing;
mod voice;

async fn engine(home: &Path) -> Engine {
    Engine::open(settings(home)).await.unwrap()
}

fn settings(home: &Path) -> EngineConfig {
    EngineConfig {
        home: home.to_owned(),
        sinks: Vec::new(),
        principal: Principal::Local(1),
        python: None,
        servers: ringfence_gateway::Servers::default(),
        server_policies: std::collections::BTreeMap::new(),
        credentials: ringfence_gateway::Credentials::default(),
        checkers: ringfence_engine::CheckerTools::default(),
        environment: std::sync::Arc::new(|_| None),
        serve: None,
    }
}

fn policy(settings: &[(&str, &str)]) -> Policy {
    let draft = settings
        .iter()
        .fold(Draft::builtin(), |draft, (key, value)| draft.set(key, value).unwrap());
    draft.under(&Ceiling::unlimited()).unwrap()
}

fn typescript(source: &str, settings: &[(&str, &str)]) -> ExecutionRequest {
    let program = RunProgram::Code {
        language: JobLanguage::TypeScript,
        file_name: "main.ts".to_owned(),
        source: source.to_owned(),
    };
    ExecutionRequest::new(policy(settings), program)
}

async fn kinds(engine: &Engine, execution: &ExecutionReport) -> Vec<&'static str> {
    let records = engine.store().session_records(execution.session_id).await.unwrap();
    records
        .iter()
        .map(|record| record.event().unwrap().kind.name())
        .collect()
}

#[tokio::test]
async fn a_run_has_a_result_and_a_journal_that_verifies() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path()).await;
    let execution = engine
        .run(typescript("console.log('hi'); ({ a: [1] })", &[]), &mut ())
        .await
        .unwrap();
    assert_eq!(
        (execution.status, execution.exit_code, execution.stdout.as_str()),
        (ExecutionStatus::Completed, 0, "hi\n")
    );
    assert_eq!(execution.value.as_ref().unwrap().get(), "{\"a\":[1]}");
    assert!(
        execution
            .enforcement
            .iter()
            .any(|held| held.rule.as_str() == "proc.mem_limit")
    );
    let expected = [
        "session_opened",
        "execution_started",
        "execution_ended",
        "session_closed",
    ];
    assert_eq!(kinds(&engine, &execution).await, expected);
    assert!(engine.store().verify(|_| {}).await.unwrap().is_ok());
}

#[tokio::test]
async fn what_is_not_built_is_refused_when_a_session_opens() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path()).await;
    let execution = engine
        .run(
            typescript("1", &[("fs.mounts", "[{path: /shared, access: rw, from: /tmp}]")]),
            &mut (),
        )
        .await
        .unwrap();
    assert_eq!((execution.status, execution.exit_code), (ExecutionStatus::Refused, 126));
    let error = execution.error.as_ref().unwrap();
    assert_eq!(
        (error.code.as_str(), error.rule.as_deref()),
        ("policy.unbuilt", Some("fs.mounts[/shared].access"))
    );
    assert_eq!(
        kinds(&engine, &execution).await,
        ["session_opened", "refused", "session_closed"]
    );
}

#[tokio::test]
async fn a_limit_and_an_attempt_are_written_down() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path()).await;
    let execution = engine
        .run(typescript("for (;;) {}", &[("proc.wall_timeout", "200ms")]), &mut ())
        .await
        .unwrap();
    assert_eq!(
        (execution.status, execution.exit_code),
        (ExecutionStatus::TimedOut, 124)
    );
    assert!(kinds(&engine, &execution).await.contains(&"limit_hit"));
    let attempt = ExecutionRequest {
        program: RunProgram::Shell {
            file_name: "s".to_owned(),
            source: "unshare -U true".to_owned(),
        },
        ..typescript("", &[])
    };
    let execution = engine.run(attempt, &mut ()).await.unwrap();
    assert_eq!(execution.violations.len(), 1, "{:?}", execution.violations);
    assert!(kinds(&engine, &execution).await.contains(&"violation"));
}

#[tokio::test]
async fn many_runs_at_once_do_not_disturb_each_other() {
    let home = tempfile::tempdir().unwrap();
    let engine = Arc::new(engine(home.path()).await);
    let mut runs = tokio::task::JoinSet::new();
    for number in 0..12 {
        let engine = Arc::clone(&engine);
        runs.spawn(async move {
            let source = format!("files.write('n', '{number}'); Number(files.read('n'))");
            let execution = engine.run(typescript(&source, &[]), &mut ()).await.unwrap();
            assert_eq!(execution.value.unwrap().get(), number.to_string());
        });
    }
    while let Some(done) = runs.join_next().await {
        done.unwrap();
    }
    assert!(engine.store().verify(|_| {}).await.unwrap().is_ok());
}

#[tokio::test]
async fn a_stop_from_outside_ends_the_run_now() {
    let home = tempfile::tempdir().unwrap();
    let engine = Arc::new(engine(home.path()).await);
    let running = Arc::clone(&engine);
    let run = tokio::spawn(async move {
        let sleeper = ExecutionRequest {
            program: RunProgram::Named("sleep".to_owned()),
            args: vec!["60".to_owned()],
            ..typescript("", &[])
        };
        running.run(sleeper, &mut ()).await.unwrap()
    });
    let open = SessionQuery {
        state: Some(SessionState::Open),
        ..SessionQuery::default()
    };
    while engine.store().list_sessions(open).await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    engine
        .store()
        .request_stop(StopTarget::All, Principal::Local(2))
        .await
        .unwrap();
    let execution = tokio::time::timeout(Duration::from_secs(20), run)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (execution.status, execution.exit_code),
        (ExecutionStatus::Cancelled, 130)
    );
    assert!(kinds(&engine, &execution).await.contains(&"stop_requested"));
}

#[tokio::test]
async fn nothing_runs_that_cannot_be_written_down() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path()).await;
    let out = tempfile::tempdir().unwrap();
    engine.store().close().await;
    let mut request = typescript("files.write('made', 'x')", &[]);
    request.out = OutputDestination::Folder {
        path: out.path().join("o"),
        existing: ExistingFileAction::Keep,
    };
    let error = engine.run(request, &mut ()).await.unwrap_err();
    assert!(error.to_string().contains("journal"), "{error}");
    assert!(!out.path().join("o").exists());
}
