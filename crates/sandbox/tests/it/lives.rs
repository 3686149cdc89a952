//! The life of a sandbox: consecutive executions, stops, crashes, reuse, and the end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ringfence_sandbox::{ExecutionLimit, JobLanguage, OutputSink, StandardStream, Stop, Verdict, WarmPool};

use crate::harness::{backend, code, run, run_in, shell, spec};

struct Deaf;

impl OutputSink for Deaf {
    fn on_output(&mut self, _: StandardStream, _: &[u8]) {}
}

#[tokio::test]
async fn one_sandbox_runs_every_language_and_keeps_its_files() {
    let backend = backend();
    let mut sandbox = backend.launch(&spec(&[])).await.unwrap();
    run_in(
        &mut sandbox,
        code(JobLanguage::TypeScript, "files.write('n', '1'); globalThis.left = 1"),
    )
    .await;
    run_in(
        &mut sandbox,
        code(JobLanguage::Python, "files.write('n', files.read('n') + '2')"),
    )
    .await;
    run_in(&mut sandbox, shell("printf 3 >> n")).await;
    let ran = run_in(
        &mut sandbox,
        code(JobLanguage::JavaScript, "[files.read('n'), typeof globalThis.left]"),
    )
    .await;
    assert_eq!(ran.value(), "[\"123\",\"undefined\"]", "{ran:?}");
    sandbox.end().await.unwrap();
}

#[tokio::test]
async fn files_outlive_a_limit_that_ended_their_program() {
    let backend = backend();
    let mut sandbox = backend.launch(&spec(&[("proc.wall_timeout", "2s")])).await.unwrap();
    let ran = run_in(&mut sandbox, shell("echo kept > f; sleep 10")).await;
    assert_eq!(ran.ended.verdict, Verdict::Limit(ExecutionLimit::Wall));
    let ran = run_in(&mut sandbox, shell("cat f; ps ax 2>/dev/null | grep -c '[s]leep'")).await;
    assert_eq!(ran.stdout.lines().next(), Some("kept"), "{ran:?}");
    sandbox.end().await.unwrap();
}

#[tokio::test]
async fn a_stop_ends_everything_at_once() {
    let backend = backend();
    let mut sandbox = backend.launch(&spec(&[])).await.unwrap();
    let (switch, mut stop) = Stop::new();
    let pull = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        switch.send_replace(true);
    };
    let started = Instant::now();
    let mut deaf = Deaf;
    let (ended, ()) = tokio::join!(sandbox.run(shell("sleep 60"), &mut deaf, &mut stop), pull);
    assert_eq!(ended.unwrap().verdict, Verdict::Cancelled);
    assert!(started.elapsed() < Duration::from_secs(20));
    sandbox.end().await.unwrap();
}

#[tokio::test]
async fn a_pool_hands_out_clean_sandboxes() {
    let pool = WarmPool::new(Arc::new(backend()), 2);
    let spec = spec(&[]);
    for _ in 0..5 {
        let mut sandbox = pool.acquire(&spec, JobLanguage::TypeScript, "somebody").await.unwrap();
        let source = "const seen = files.list('/workspace').length; files.write('a/b', 'x'); seen";
        let ran = run_in(&mut sandbox, code(JobLanguage::TypeScript, source)).await;
        assert_eq!(ran.value(), "0", "{ran:?}");
        pool.release(sandbox, JobLanguage::TypeScript, "somebody").await;
    }
    assert_eq!((pool.counts().hits, pool.counts().misses), (4, 1));
    let other = pool
        .acquire(&spec, JobLanguage::TypeScript, "somebody else")
        .await
        .unwrap();
    assert_eq!(
        (pool.counts().hits, pool.counts().misses),
        (4, 2),
        "never one sandbox for two principals"
    );
    other.end().await.unwrap();
}

#[tokio::test]
async fn a_worker_killed_while_idle_is_replaced_unseen() {
    let pool = WarmPool::new(Arc::new(backend()), 2);
    let spec = spec(&[]);
    pool.warm(&spec, JobLanguage::TypeScript, 1).await.unwrap();
    let sandbox = pool.acquire(&spec, JobLanguage::TypeScript, "p").await.unwrap();
    sandbox.kill().unwrap();
    while sandbox.is_sound() {
        tokio::task::yield_now().await;
    }
    pool.release(sandbox, JobLanguage::TypeScript, "p").await;
    let mut fresh = pool.acquire(&spec, JobLanguage::TypeScript, "p").await.unwrap();
    assert_eq!(
        run_in(&mut fresh, code(JobLanguage::TypeScript, "6 * 7")).await.value(),
        "42"
    );
    fresh.end().await.unwrap();
}

#[tokio::test]
async fn a_program_that_kills_its_own_interpreter_is_told_so() {
    let ran = run(code(JobLanguage::Python, "import os\nos.kill(os.getpid(), 9)"), &[]).await;
    assert_eq!(ran.ended.outcome.unwrap().error.unwrap().code.as_str(), "python.ended");
}
