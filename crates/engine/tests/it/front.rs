//! The client API: open sessions, requests under a ceiling, results that clients wait for.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ringfence_engine::{
    Engine, EngineConfig, ExecutionReport, JobLanguage, RunArtifact, RunProgram, RunProgress, RunRequest, ServeConfig,
    WaitError,
};
use ringfence_gateway::{ServerCache, Servers, UpstreamOptions, Upstreams};
use ringfence_journal::{ExecutionId, ExecutionStatus, Principal, TokenId};
use ringfence_policy::{Ceiling, Draft};
use serde_json::json;

const ME: Principal = Principal::Local(1);
const LONG: Duration = Duration::from_mins(1);

async fn engine(home: &Path, idle: Duration) -> Arc<Engine> {
    engine_with(home, idle, ringfence_engine::CheckerTools::default()).await
}

async fn engine_with(home: &Path, idle: Duration, checkers: ringfence_engine::CheckerTools) -> Arc<Engine> {
    let settings = EngineConfig {
        checkers,
        ..super::settings(home)
    };
    engine_of(settings, idle).await
}

async fn engine_of(settings: EngineConfig, idle: Duration) -> Arc<Engine> {
    let policy = Draft::builtin().under(&Ceiling::unlimited()).unwrap();
    let front = ServeConfig {
        ceiling: Ceiling::from_policy(&policy),
        policy: Arc::new(policy),
        idle,
        warm: 1,
        budget: ringfence_engine::BudgetOverrides::default(),
    };
    let settings = EngineConfig {
        serve: Some(front),
        ..settings
    };
    Engine::open_for_serving(settings).await.unwrap()
}

fn ask(source: &str) -> RunRequest {
    RunRequest {
        args: Vec::new(),
        stdin: None,
        program: RunProgram::Code {
            language: JobLanguage::TypeScript,
            file_name: "program.ts".to_owned(),
            source: source.to_owned(),
        },
        files: Vec::new(),
        session: None,
        draft: None,
        timeout: None,
        trace: None,
    }
}

fn shell(source: &str) -> RunRequest {
    RunRequest {
        program: RunProgram::Shell {
            file_name: "script".to_owned(),
            source: source.to_owned(),
        },
        ..ask("")
    }
}

async fn ended(engine: &Arc<Engine>, who: Principal, ask: RunRequest) -> Arc<ExecutionReport> {
    let id = engine.runs().begin(who, ask).await.unwrap();
    match engine.runs().wait(who, id, LONG).await.unwrap() {
        RunProgress::Ended(ending) => ending.unwrap(),
        RunProgress::Running(running) => panic!("{running:?}"),
    }
}

/// The output of a run until it contains `word`, or the run ends.
async fn heard(engine: &Arc<Engine>, id: ExecutionId, word: &str) -> String {
    let mut heard = String::new();
    while !heard.contains(word) {
        match engine.runs().wait(ME, id, Duration::from_millis(50)).await.unwrap() {
            RunProgress::Running(running) => heard.push_str(&running.stdout),
            RunProgress::Ended(_) => break,
        }
    }
    heard
}

#[tokio::test]
async fn an_engine_for_front_doors_makes_the_index_of_tools_before_anybody_searches() {
    let home = tempfile::tempdir().unwrap();
    let document = json!({
        "openapi": "3.1.0", "info": { "title": "Shop", "version": "1" }, "servers": [{ "url": "http://127.0.0.1:9/" }],
        "paths": { "/items": { "get": { "operationId": "listItems", "responses": { "200": { "description": "All." } } } } },
    });
    std::fs::write(home.path().join("shop.json"), document.to_string()).unwrap();
    let servers = Servers::from_section(&json!({ "shop": { "openapi": "shop.json" } }), home.path()).unwrap();
    // Another process has listed it before.
    let options = UpstreamOptions::new(Arc::new(|_| None));
    let listed = Upstreams::new(servers.clone(), ServerCache::new(home.path()), options);
    assert!(listed.list_unlisted().await.1.is_empty());
    let settings = EngineConfig {
        servers,
        ..super::settings(home.path())
    };
    let engine = engine_of(settings, LONG).await;
    let gateway = engine.tools().tool_gateway().unwrap();
    let index = loop {
        match gateway.ready_index() {
            Some(index) => break index,
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    assert_eq!(index.catalog().tools()[0].name.as_str(), "shop.listItems");
    Engine::shutdown_shared(engine).await;
}

#[tokio::test]
async fn a_request_runs_in_a_warm_sandbox_that_is_as_new() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path(), LONG).await;
    engine.sandboxes().prewarm(JobLanguage::TypeScript, 1).await.unwrap();
    // The pool resets a sandbox in the background: a request before that gets another one.
    let mut runs = 0;
    while runs < 5 || engine.sandboxes().pool_counts().hits < 4 {
        assert!(runs < 100, "{:?}", engine.sandboxes().pool_counts());
        runs += 1;
        let execution = ended(
            &engine,
            ME,
            ask("const there = files.list(); files.write('left.txt', 'x'); there"),
        )
        .await;
        assert_eq!(execution.status, ExecutionStatus::Completed, "{:?}", execution.error);
        assert_eq!(execution.value.as_ref().unwrap().get(), "[]");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(engine.store().verify(|_| {}).await.unwrap().is_ok());
}

#[tokio::test]
async fn what_a_program_calls_a_tool_is_hidden_wherever_its_result_repeats_it() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path(), LONG).await;
    let call = "await tools.mail['ann.lee@example.com']({})";
    for source in [call.to_owned(), format!("try {{ {call} }} catch {{ 'went on' }}")] {
        let execution = ended(&engine, ME, ask(&source)).await;
        let told = serde_json::to_string(&*execution).unwrap();
        assert!(!told.contains("ann.lee"), "{told}");
        let calls: Vec<&str> = execution.calls.iter().map(|call| call.tool.as_str()).collect();
        assert!(
            matches!(calls.as_slice(), [one] if one.starts_with("‹email:")),
            "{told}"
        );
    }
}

#[tokio::test]
async fn what_a_type_checker_repeats_has_no_values() {
    let checkers =
        ringfence_engine::CheckerTools::find_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools"));
    if checkers.tsc.is_none() {
        println!("SKIPPED: no type checkers in `target/tools`: `cargo xtask test --only install` gets them");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let engine = engine_with(home.path(), LONG, checkers).await;
    // Only a program that names tools or skills is checked.
    let program = ask("const to: 'nobody' = 'ann.lee@example.com'; skills;");
    let named = RunRequest {
        session: Some("work".to_owned()),
        ..program.clone()
    };
    for request in [program, named] {
        let execution = ended(&engine, ME, request).await;
        let error = execution.error.as_ref().unwrap();
        assert_eq!(error.code, "program.types", "{error:?}");
        let told = serde_json::to_string(&*execution).unwrap();
        assert!(!told.contains("ann.lee"), "{told}");
        assert!(execution.diagnostics[0].message.contains("‹email:"), "{told}");
        let records = engine.store().session_records(execution.session_id).await.unwrap();
        assert!(
            records
                .iter()
                .any(|record| record.event().unwrap().kind.name() == "data_hidden")
        );
    }
}

#[tokio::test]
async fn files_of_a_named_session_stay_and_belong_to_one_principal() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path(), LONG).await;
    let within = |request: RunRequest| RunRequest {
        session: Some("work".to_owned()),
        ..request
    };
    let first = ended(&engine, ME, within(ask("files.write('a.txt', 'one'); 1"))).await;
    assert_eq!(first.status, ExecutionStatus::Completed, "{:?}", first.error);
    let second = ended(&engine, ME, within(shell("cat a.txt; printf two > b.txt"))).await;
    assert_eq!((second.stdout.as_str(), second.session_id), ("one", first.session_id));
    let new: Vec<&str> = second.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(new, ["b.txt"]);
    // The id finds the same session.
    let by_id = RunRequest {
        session: Some(first.session_id.to_string()),
        ..ask("files.read('b.txt')")
    };
    assert_eq!(
        ended(&engine, ME, by_id.clone()).await.value.as_ref().unwrap().get(),
        "\"two\""
    );
    // Other principals find it neither by name nor by id.
    let other = Principal::Token(TokenId::generate().unwrap());
    let theirs = ended(&engine, other, within(ask("files.list()"))).await;
    assert_eq!(theirs.value.as_ref().unwrap().get(), "[]");
    assert_ne!(theirs.session_id, first.session_id);
    let refused = ended(&engine, other, by_id).await;
    assert_eq!(
        (refused.status, refused.error.as_ref().unwrap().code.as_str()),
        (ExecutionStatus::Refused, "session.unknown")
    );
    assert_eq!(
        engine.runs().wait(other, first.execution_id, LONG).await.unwrap_err(),
        WaitError::Unknown(first.execution_id)
    );
    assert!(engine.runs().cancel(other, first.execution_id).await.is_err());
    assert!(!engine.sessions().end_session(other, first.session_id).await.unwrap());
    assert!(engine.sessions().end_session(ME, first.session_id).await.unwrap());
    let report = engine.store().verify(|_| {}).await.unwrap();
    assert!(report.is_ok());
}

#[tokio::test]
async fn runs_of_one_session_take_turns() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path(), LONG).await;
    let script = "[ -e busy ] && echo overlaps; touch busy; sleep 0.3; rm busy; echo x >> turns; wc -l < turns";
    let mut begun = Vec::new();
    for session in ["one", "one", "one", "other"] {
        let request = RunRequest {
            session: Some(session.to_owned()),
            ..shell(script)
        };
        begun.push((session, engine.runs().begin(ME, request).await.unwrap()));
    }
    let mut turns = Vec::new();
    for (session, id) in begun {
        let RunProgress::Ended(ending) = engine.runs().wait(ME, id, LONG).await.unwrap() else {
            panic!("{session} goes on");
        };
        let execution = ending.unwrap();
        assert_eq!(execution.status, ExecutionStatus::Completed, "{:?}", execution.error);
        turns.push((session, execution.stdout.trim().to_owned()));
    }
    turns.sort();
    let of = |session: &'static str, turn: &str| (session, turn.to_owned());
    assert_eq!(
        turns,
        [of("one", "1"), of("one", "2"), of("one", "3"), of("other", "1")]
    );
}

#[tokio::test]
async fn a_request_that_asks_for_too_much_is_refused_naming_each_key() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path(), LONG).await;
    let greedy = RunRequest {
        draft: Some(json!({ "proc": { "mem_limit": "8GiB", "fork_limit": 1000 }, "net": { "enabled": true } })),
        ..ask("1")
    };
    let refused = ended(&engine, ME, greedy).await;
    let error = refused.error.as_ref().unwrap();
    assert_eq!(
        (refused.status, error.code.as_str()),
        (ExecutionStatus::Refused, "policy.ceiling")
    );
    for key in ["proc.mem_limit", "proc.fork_limit", "net.enabled"] {
        assert!(error.rule.as_ref().unwrap().contains(key), "{key}: {error:?}");
    }
    let modest = RunRequest {
        draft: Some(json!({ "env": { "GREETING": "hello" }, "proc": { "mem_limit": "64MiB" } })),
        ..shell("printf %s \"$GREETING\"")
    };
    assert_eq!(ended(&engine, ME, modest).await.stdout, "hello");
    let unknown = RunRequest {
        draft: Some(json!({ "pros": {} })),
        ..ask("1")
    };
    let refused = ended(&engine, ME, unknown).await;
    assert_eq!(refused.error.as_ref().unwrap().code, "policy.parse");
    assert!(refused.error.as_ref().unwrap().hint.as_ref().unwrap().contains("proc"));
}

#[tokio::test]
async fn a_place_of_a_requests_own_is_not_kept() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path(), LONG).await;
    engine.sandboxes().prewarm(JobLanguage::TypeScript, 1).await.unwrap();
    let before = engine.sandboxes().pool_counts();
    for _ in 0..3 {
        let other = RunRequest {
            draft: Some(json!({ "proc": { "mem_limit": "64MiB" } })),
            ..ask("1")
        };
        assert_eq!(ended(&engine, ME, other).await.status, ExecutionStatus::Completed);
    }
    assert_eq!(engine.sandboxes().pool_counts(), before);
    assert_eq!(ended(&engine, ME, ask("1")).await.status, ExecutionStatus::Completed);
    assert_eq!(engine.sandboxes().pool_counts().hits, before.hits + 1);
}

#[tokio::test]
async fn an_open_session_keeps_its_place() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path(), LONG).await;
    let within = |draft| RunRequest {
        session: Some("work".to_owned()),
        draft,
        ..ask("1")
    };
    assert_eq!(
        ended(&engine, ME, within(None)).await.status,
        ExecutionStatus::Completed
    );
    let other = within(Some(json!({ "proc": { "mem_limit": "64MiB" }, "env": { "A": "b" } })));
    let refused = ended(&engine, ME, other).await;
    let error = refused.error.as_ref().unwrap();
    assert_eq!(
        (error.code.as_str(), error.rule.as_deref()),
        ("session.fixed", Some("proc, env"))
    );
    let tools = within(Some(json!({ "tools": { "max_calls": 3 } })));
    assert_eq!(ended(&engine, ME, tools).await.status, ExecutionStatus::Completed);
}

#[tokio::test]
async fn what_goes_on_can_be_heard_and_ended() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path(), LONG).await;
    let id = engine
        .runs()
        .begin(ME, shell("echo one; sleep 0.5; echo two; sleep 60"))
        .await
        .unwrap();
    assert_eq!(heard(&engine, id, "two").await, "one\ntwo\n");
    engine.runs().cancel(ME, id).await.unwrap();
    let RunProgress::Ended(Ok(execution)) = engine.runs().wait(ME, id, LONG).await.unwrap() else {
        panic!("it goes on");
    };
    assert_eq!(
        (execution.status, execution.stdout.as_str()),
        (ExecutionStatus::Cancelled, "one\ntwo\n")
    );
}

#[tokio::test]
async fn a_timeout_is_less_than_the_policys_wall() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path(), LONG).await;
    let hasty = RunRequest {
        timeout: Some(Duration::from_millis(200)),
        ..ask("for (;;) {}")
    };
    let execution = ended(&engine, ME, hasty).await;
    assert_eq!(execution.status, ExecutionStatus::TimedOut);
    assert!(execution.usage.wall_ms < 5_000, "{}", execution.usage.wall_ms);
}

#[tokio::test]
async fn what_a_run_left_is_kept_for_its_owner_and_then_forgotten() {
    let home = tempfile::tempdir().unwrap();
    let idle = Duration::from_secs(4);
    let engine = engine(home.path(), idle).await;
    let request = RunRequest {
        files: vec![("in/a.bin".parse().unwrap(), vec![0, 159, 146])],
        session: Some("brief".to_owned()),
        ..shell("cp in/a.bin out.bin; echo said; echo worse >&2")
    };
    let execution = ended(&engine, ME, request).await;
    let read = |part| engine.runs().read_artifact(ME, execution.execution_id, part);
    assert_eq!(read(RunArtifact::Stdout).await.unwrap().unwrap(), b"said\n");
    assert_eq!(read(RunArtifact::Stderr).await.unwrap().unwrap(), b"worse\n");
    assert_eq!(read(RunArtifact::Value).await.unwrap(), None);
    let file = |name: &str| RunArtifact::File(name.parse().unwrap());
    assert_eq!(read(file("out.bin")).await.unwrap().unwrap(), [0, 159, 146]);
    assert_eq!(read(file("other")).await.unwrap(), None);
    let forgotten = async {
        loop {
            match read(RunArtifact::Stdout).await {
                Ok(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                Err(error) => break error,
            }
        }
    };
    assert_eq!(
        tokio::time::timeout(LONG, forgotten).await.unwrap(),
        WaitError::Forgotten {
            id: execution.execution_id,
            status: ExecutionStatus::Completed
        }
    );
    let session = engine.store().session(execution.session_id).await.unwrap().unwrap();
    assert_eq!(session.state.name(), "closed");
    assert!(
        !home
            .path()
            .join("artifacts")
            .join(execution.execution_id.to_string())
            .exists()
    );
}

#[tokio::test]
async fn many_at_once_are_all_answered() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path(), LONG).await;
    let mut all = tokio::task::JoinSet::new();
    for number in 0..100 {
        let engine = Arc::clone(&engine);
        all.spawn(async move {
            let execution = ended(&engine, ME, ask(&format!("{number} + 1"))).await;
            (number + 1, execution.value.as_ref().unwrap().get().to_owned())
        });
    }
    while let Some(done) = all.join_next().await {
        let (expected, found) = done.unwrap();
        assert_eq!(found, expected.to_string());
    }
    assert!(engine.store().verify(|_| {}).await.unwrap().is_ok());
}

#[tokio::test]
async fn a_session_that_another_process_stops_is_over() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path(), LONG).await;
    let request = RunRequest {
        session: Some("work".to_owned()),
        ..shell("echo begun; sleep 60")
    };
    let id = engine.runs().begin(ME, request).await.unwrap();
    assert_eq!(heard(&engine, id, "begun").await, "begun\n");
    let session = engine.store().execution(id).await.unwrap().unwrap().session;
    let other = ringfence_store::Store::open(home.path()).await.unwrap();
    let target = ringfence_store::StopTarget::Session(session);
    other.request_stop(target, Principal::Local(2)).await.unwrap();
    let RunProgress::Ended(Ok(execution)) = engine.runs().wait(ME, id, LONG).await.unwrap() else {
        panic!("it goes on");
    };
    assert_eq!(execution.status, ExecutionStatus::Cancelled);
    for _ in 0..400 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let found = engine.store().session(session).await.unwrap().unwrap();
        if found.state.name() == "closed" {
            return;
        }
    }
    panic!("the session is still open");
}

#[tokio::test]
async fn a_drained_engine_lets_runs_end_and_takes_no_more() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path(), LONG).await;
    let soon = engine
        .runs()
        .begin(ME, shell("echo begun; sleep 0.5; echo done"))
        .await
        .unwrap();
    let never = engine.runs().begin(ME, shell("sleep 60")).await.unwrap();
    // The start of its sandbox must not count as time of the drain.
    heard(&engine, soon, "begun").await;
    engine.runs().drain(Duration::from_secs(3)).await;
    assert_eq!(
        engine.runs().begin(ME, ask("1")).await.unwrap_err().code(),
        "server.closing"
    );
    for (id, status) in [(soon, ExecutionStatus::Completed), (never, ExecutionStatus::Cancelled)] {
        assert_eq!(engine.store().execution(id).await.unwrap().unwrap().status, status);
    }
    Engine::shutdown_shared(engine).await;
}

#[tokio::test]
async fn a_program_that_closes_its_workspace_keeps_its_result_and_its_session() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path(), LONG).await;
    let in_it = |source, files| RunRequest {
        session: Some("work".to_owned()),
        files,
        ..shell(source)
    };
    let closed = ended(
        &engine,
        ME,
        in_it("echo said; echo kept > made; chmod 000 /workspace", vec![]),
    )
    .await;
    assert_eq!(
        (closed.status, closed.stdout.as_str()),
        (ExecutionStatus::Completed, "said\n")
    );
    assert_eq!(
        closed.files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(),
        ["made"]
    );
    let brought = vec![("brought".parse().unwrap(), b"in\n".to_vec())];
    let next = ended(&engine, ME, in_it("cat made brought", brought)).await;
    assert_eq!(next.stdout, "kept\nin\n", "{:?}", next.error);
}

#[tokio::test]
async fn refused_runs_beyond_a_burst_are_counted_and_not_recorded() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path(), LONG).await;
    let in_it = || RunRequest {
        session: Some("work".to_owned()),
        ..shell("echo begun; sleep 60")
    };
    let first = engine.runs().begin(ME, in_it()).await.unwrap();
    assert_eq!(heard(&engine, first, "begun").await, "begun\n");
    let waits = engine.runs().begin(ME, in_it()).await.unwrap();
    let greedy = || RunRequest {
        draft: Some(json!({ "proc": { "mem_limit": "900GiB" } })),
        ..ask("1")
    };
    let begun = std::time::Instant::now();
    let mut recorded = 0;
    let error = loop {
        match engine.runs().begin(ME, greedy()).await {
            Ok(id) => {
                engine.runs().wait(ME, id, LONG).await.unwrap();
                recorded += 1;
            }
            Err(error) => break error,
        }
    };
    let refilled = begun.elapsed().as_secs() / 6;
    assert!((100..=101 + refilled).contains(&recorded), "{recorded}");
    assert_eq!(error.code(), "limit.refused");
    assert!(error.hint().unwrap().contains("wait"));
    // Whoever asks for what is allowed is served, and others have a budget of their own.
    assert_eq!(ended(&engine, ME, ask("1")).await.status, ExecutionStatus::Completed);
    assert_eq!(
        ended(&engine, Principal::Local(2), greedy()).await.status,
        ExecutionStatus::Refused
    );
    // The next thing that is refused has what was not recorded.
    engine.runs().cancel(ME, waits).await.unwrap();
    let RunProgress::Ended(Ok(cancelled)) = engine.runs().wait(ME, waits, LONG).await.unwrap() else {
        panic!("it goes on");
    };
    let records = engine.store().session_records(cancelled.session_id).await.unwrap();
    let counted = records.iter().find_map(|record| {
        let ringfence_journal::EventKind::Repeated { code, count, .. } = record.event().unwrap().kind else {
            return None;
        };
        Some((code.as_str().to_owned(), count))
    });
    assert_eq!(counted, Some(("limit.refused".to_owned(), 1)));
    engine.runs().cancel(ME, first).await.unwrap();
}
