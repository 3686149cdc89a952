//! Limits that only a jail holds, or whose programs would reach beyond another sandbox.

use std::time::{Duration, Instant};

use ringfence_sandbox::{ExecutionLimit, ExecutionTask, JobLanguage, Stop, Verdict};

use crate::harness::{Kept, code, run_in, shell, spec};
use crate::jail::{backend, run};

async fn check(task: ExecutionTask, settings: &[(&str, &str)], limit: ExecutionLimit) {
    let started = Instant::now();
    let ran = run(task, settings).await;
    assert_eq!(ran.ended.verdict, Verdict::Limit(limit), "{ran:?}");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
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
async fn open_files_are_limited_without_a_verdict() {
    let source = "import os\nxs = []\ntry:\n    while True: xs.append(os.open('/dev/null', 0))\nexcept OSError as e:\n    print(e.errno)\nlen(xs) < 64";
    let ran = run(code(JobLanguage::Python, source), &[("proc.open_files", "64")]).await;
    assert_eq!(
        (ran.ended.verdict, ran.value(), ran.stdout.as_str()),
        (Verdict::Finished, "true", "24\n"),
        "{ran:?}"
    );
}
