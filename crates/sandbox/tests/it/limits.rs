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
        shell("mkfifo /tmp/f; cat /tmp/f"),
        &[("proc.wall_timeout", "300ms")],
        ExecutionLimit::Wall,
    )
    .await;
}

/// The host does not wait for what a program can stop: the end comes at its deadline, and the sandbox goes on.
#[tokio::test]
async fn a_program_that_stops_its_helpers_ends_in_time() {
    let everything = "import os, signal\nos.kill(-1, signal.SIGSTOP)\nwhile True: pass";
    let its_parent = "import os, signal, time\nos.kill(os.getppid(), signal.SIGSTOP)\ntime.sleep(60)";
    let and_is_done = "import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)";
    let backend = backend();
    let limits = &[("proc.wall_timeout", "300ms")];
    for source in [everything, its_parent] {
        let mut sandbox = backend.launch(&spec(limits)).await.unwrap();
        sandbox.prepare(JobLanguage::Python).await.unwrap();
        let started = Instant::now();
        let ran = run_in(&mut sandbox, code(JobLanguage::Python, source)).await;
        sandbox.confirm_finished().await.unwrap();
        let took = started.elapsed();
        assert_eq!(ran.ended.verdict, Verdict::Limit(ExecutionLimit::Wall), "{ran:?}");
        assert!(took < Duration::from_millis(300 + 1500), "{took:?}: {source}");
        let after = run_in(&mut sandbox, code(JobLanguage::Python, "6 * 7")).await;
        assert_eq!(after.value(), "42", "{after:?}");
        sandbox.end().await.unwrap();
    }
    let mut sandbox = backend.launch(&spec(&[])).await.unwrap();
    let started = Instant::now();
    let ran = run_in(&mut sandbox, code(JobLanguage::Python, and_is_done)).await;
    assert_eq!(ran.ended.verdict, Verdict::Finished, "{ran:?}");
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    sandbox.end().await.unwrap();
}

/// A signal that a program sends to the first process has no effect, and a first process that is gone does not keep the host busy.
#[tokio::test]
async fn signals_to_the_first_process_have_no_effect() {
    let python = "import os\nfor number in range(1, 65):\n    for _ in range(3):\n        os.kill(1, number)\n'alive'";
    let backend = backend();
    let mut sandbox = backend.launch(&spec(&[])).await.unwrap();
    for turn in 0..3 {
        let kill =
            "for number in $(seq 1 64); do kill -$number 1; kill -$number 1; done 2>/dev/null; sleep 0.1; exit 7";
        let ran = run_in(&mut sandbox, shell(kill)).await;
        assert_eq!(ran.ended.verdict, Verdict::Finished, "{turn}: {ran:?}");
        let exit = ran.ended.outcome.as_ref().map(|outcome| outcome.exit_code);
        assert_eq!(exit, Some(7), "{turn}: {ran:?}");
        let ran = run_in(&mut sandbox, code(JobLanguage::Python, python)).await;
        assert_eq!(ran.value(), "\"alive\"", "{turn}: {ran:?}");
    }
    sandbox.end().await.unwrap();
}

#[tokio::test]
async fn a_first_process_that_is_gone_does_not_keep_the_host_busy() {
    let (sender, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let backend = backend();
            let mut sandbox = backend.launch(&spec(&[("proc.wall_timeout", "5s")])).await.unwrap();
            let first = rustix::process::Pid::from_raw(sandbox.pid()).unwrap();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(300));
                rustix::process::kill_process(first, rustix::process::Signal::KILL).unwrap();
            });
            let ((_switch, mut stop), mut kept) = (Stop::new(), Kept::default());
            let ran = sandbox.run(shell("sleep 30"), &mut kept, &mut stop).await;
            sender.send(ran.map(|ran| ran.verdict)).unwrap();
        });
    });
    let started = Instant::now();
    let ran = ended.recv_timeout(Duration::from_secs(20));
    let ran = ran.expect("the host follows a sandbox that is gone");
    assert!(
        started.elapsed() > Duration::from_millis(250),
        "the sandbox ended before its first process: {ran:?}"
    );
    assert_ne!(ran.ok(), Some(Verdict::Limit(ExecutionLimit::Wall)));
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
async fn a_fork_bomb_ends() {
    // It stays at the limit: without control groups only a look that falls into such a moment sees it.
    let bomb = "import os, time\nwhile True:\n    try:\n        if os.fork() == 0: time.sleep(60)\n    \
                except OSError: time.sleep(0.01)";
    check(
        shell(&format!(
            "cat > /tmp/bomb.py <<'END'\n{bomb}\nEND\npython3 /tmp/bomb.py"
        )),
        &[("proc.fork_limit", "32")],
        ExecutionLimit::Processes,
    )
    .await;
}

#[tokio::test]
async fn a_full_disk_ends_the_program() {
    let settings = [("fs.mounts", "[{ path: /workspace, access: rw, quota: 8MiB }]")];
    check(
        shell("dd if=/dev/zero of=/workspace/big bs=1M count=100 2>/dev/null; sleep 5"),
        &settings,
        ExecutionLimit::Disk,
    )
    .await;
    check(
        shell("i=0; while :; do i=$((i+1)); : > /workspace/f$i || sleep 5; done 2>/dev/null"),
        &settings,
        ExecutionLimit::Inodes,
    )
    .await;
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
async fn open_files_are_limited_without_a_verdict() {
    let source = "import os\nxs = []\ntry:\n    while True: xs.append(os.open('/dev/null', 0))\nexcept OSError as e:\n    print(e.errno)\nlen(xs) < 64";
    let ran = run(code(JobLanguage::Python, source), &[("proc.open_files", "64")]).await;
    assert_eq!(
        (ran.ended.verdict, ran.value(), ran.stdout.as_str()),
        (Verdict::Finished, "true", "24\n"),
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
