//! Every limit has its own verdict, in time.

use std::time::{Duration, Instant};

use ringfence_sandbox::{ExecutionError, ExecutionLimit, ExecutionTask, JobLanguage, Stop, Verdict};

use crate::harness::{Kept, Ran, backend, code, program, run, run_in, shell, spec};

async fn check(task: ExecutionTask, settings: &[(&str, &str)], limit: ExecutionLimit) -> Ran {
    let started = Instant::now();
    let ran = run(task, settings).await;
    assert_eq!(ran.ended.verdict, Verdict::Limit(limit), "{ran:?}");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    ran
}

#[tokio::test]
async fn an_endless_loop_reaches_the_wall() {
    check(
        code(JobLanguage::TypeScript, "while (true) {}"),
        &[("proc.wall_timeout", "300ms")],
        ExecutionLimit::Wall,
    )
    .await;
    check(
        code(JobLanguage::Python, "while True: pass"),
        &[("proc.wall_timeout", "300ms")],
        ExecutionLimit::Wall,
    )
    .await;
    check(
        shell("trap '' TERM INT HUP; while :; do :; done"),
        &[("proc.wall_timeout", "300ms")],
        ExecutionLimit::Wall,
    )
    .await;
}

#[tokio::test]
async fn a_sleeper_and_a_stopped_process_reach_the_wall() {
    check(
        shell("sleep 60"),
        &[("proc.wall_timeout", "300ms")],
        ExecutionLimit::Wall,
    )
    .await;
    check(
        shell("kill -STOP $$"),
        &[("proc.wall_timeout", "300ms")],
        ExecutionLimit::Wall,
    )
    .await;
    check(
        shell("mkfifo f; cat f"),
        &[("proc.wall_timeout", "300ms")],
        ExecutionLimit::Wall,
    )
    .await;
}

#[tokio::test]
async fn processor_time_has_a_verdict_of_its_own() {
    check(
        code(JobLanguage::JavaScript, "for (;;) {}"),
        &[("proc.cpu_time", "300ms")],
        ExecutionLimit::Cpu,
    )
    .await;
    check(
        shell("for i in 1 2 3; do (while :; do :; done) & done; wait"),
        &[("proc.cpu_time", "500ms")],
        ExecutionLimit::Cpu,
    )
    .await;
}

#[tokio::test]
async fn memory_is_not_to_be_had_beyond_the_limit() {
    let settings = [("proc.mem_limit", "64MiB")];
    check(
        code(
            JobLanguage::TypeScript,
            "const xs = []; for (;;) xs.push('x'.repeat(1e6) + xs.length)",
        ),
        &settings,
        ExecutionLimit::Memory,
    )
    .await;
    check(
        code(JobLanguage::Python, "xs = []\nwhile True: xs.append(bytearray(10**6))"),
        &settings,
        ExecutionLimit::Memory,
    )
    .await;
    check(shell("perl -e 'my @x; push @x, \"x\" x 1000000 while 1' 2>/dev/null || python3 -c \"x=[]\nwhile 1: x.append(bytearray(10**6))\""), &settings, ExecutionLimit::Memory).await;
}

#[tokio::test]
async fn output_is_cut_and_a_flood_is_ended() {
    let ran = run(
        shell("head -c 100000 /dev/zero | tr '\\0' x"),
        &[("proc.output", "4KiB")],
    )
    .await;
    assert_eq!(
        (ran.ended.verdict, ran.stdout.len()),
        (Verdict::Limit(ExecutionLimit::Output), 4096)
    );
    let ran = run(
        shell("head -c 20000 /dev/zero | tr '\\0' x"),
        &[("proc.output", "4KiB")],
    )
    .await;
    assert_eq!(
        (ran.ended.verdict, ran.stdout.len(), ran.ended.output_bytes.0),
        (Verdict::Finished, 4096, 20_000)
    );
    check(shell("yes"), &[], ExecutionLimit::Output).await;
    check(
        code(JobLanguage::TypeScript, "for (;;) console.log('x'.repeat(1000))"),
        &[],
        ExecutionLimit::Output,
    )
    .await;
    check(
        code(JobLanguage::Python, "while True: print('x' * 1000)"),
        &[],
        ExecutionLimit::Output,
    )
    .await;
}

#[tokio::test]
async fn a_daemon_does_not_outlive_its_execution() {
    let ran = run(
        shell("setsid sh -c 'setsid sleep 300 & echo started' & wait; sleep 0.1"),
        &[],
    )
    .await;
    assert_eq!(
        (ran.ended.verdict, ran.stdout.as_str()),
        (Verdict::Finished, "started\n"),
        "{ran:?}"
    );
}

#[tokio::test]
async fn a_place_without_programs_runs_code_and_starts_nothing_else() {
    let none = [("proc.programs", "none")];
    let backend = backend();
    for task in [shell("echo started"), program(&["/bin/echo", "started"])] {
        let mut sandbox = backend.launch(&spec(&none)).await.unwrap();
        let (_switch, mut stop) = Stop::new();
        let refused = sandbox.run(task, &mut Kept::default(), &mut stop).await;
        assert!(matches!(refused, Err(ExecutionError::NoPrograms)), "{refused:?}");
        // The sandbox still runs code.
        let ran = run_in(&mut sandbox, code(JobLanguage::TypeScript, "1 + 1")).await;
        assert_eq!(ran.value(), "2", "{ran:?}");
        sandbox.end().await.unwrap();
    }
    let source = "import os, subprocess\ntried = []\n\
                  for start in (lambda: subprocess.run(['/bin/true']), lambda: os.execv('/bin/true', ['true']),\n\
                  \x20             lambda: os.posix_spawn('/bin/true', ['true'], {}), os.fork):\n\
                  \x20   try: start()\n    except OSError as error: tried.append(error.errno)\n\
                  tried.append(os.system('true') != 0)\ntried";
    let ran = run(code(JobLanguage::Python, source), &none).await;
    assert_eq!(ran.value(), "[1, 1, 1, 1, true]", "{ran:?}");
}

#[tokio::test]
async fn a_lifetime_ends_what_its_wall_time_would_allow() {
    check(shell("sleep 60"), &[("proc.lifetime", "400ms")], ExecutionLimit::Wall).await;
}

#[tokio::test]
async fn a_value_that_is_too_long_has_a_code_of_its_own() {
    for task in [
        code(JobLanguage::TypeScript, "'x'.repeat(17 * 1024 * 1024)"),
        code(JobLanguage::Python, "'x' * (17 * 1024 * 1024)"),
    ] {
        let ran = run(task, &[]).await;
        let code = ran.ended.outcome.unwrap().error.unwrap().code;
        assert_eq!(
            (ran.ended.verdict, code.as_str()),
            (Verdict::Finished, "value.too_large")
        );
    }
}
