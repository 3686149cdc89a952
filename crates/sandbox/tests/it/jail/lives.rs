//! What a jail is told of its programs, and how it holds its limits without control groups.

use ringfence_sandbox::{Backend, BackendKind, ExecutionLimit, ExecutionTask, JobLanguage, Verdict};

use crate::harness::{code, program, run_in, shell, spec};
use crate::jail::run;

#[tokio::test]
async fn a_program_runs() {
    let ran = run(program(&["id", "-u"]), &[]).await;
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("1000\n", ""), "{ran:?}");
}

#[tokio::test]
async fn never_innocent_calls_are_told() {
    let ran = run(shell("unshare -U true; mount -t tmpfs x /tmp; true"), &[]).await;
    let told: Vec<&str> = ran.ended.violations.iter().map(|one| one.detail.as_str()).collect();
    assert_eq!(told, ["unshare", "mount"], "{ran:?}");
}

/// Runs on a host without any control group, whoever starts the test.
async fn without_groups(task: ExecutionTask, settings: &[(&str, &str)]) -> crate::harness::Ran {
    let backend = Backend::without_groups(BackendKind::default(), "ringfence-test-none").unwrap();
    let spec = spec(settings);
    assert!(!backend.soft_rules(&spec).is_empty());
    let mut sandbox = backend.launch(&spec).await.unwrap();
    let ran = run_in(&mut sandbox, task).await;
    sandbox.end().await.unwrap();
    ran
}

#[tokio::test]
async fn limits_hold_without_control_groups() {
    for (task, settings, limit) in [
        (
            shell("perl -e 'my @x; while (1) { push @x, \"x\" x 1000000; select undef, undef, undef, 0.002 }'"),
            ("proc.mem_limit", "64MiB"),
            ExecutionLimit::Memory,
        ),
        (
            code(JobLanguage::Python, "xs = []\nwhile True: xs.append(bytearray(10**6))"),
            ("proc.mem_limit", "64MiB"),
            ExecutionLimit::Memory,
        ),
        (
            shell("while :; do sleep 5 & done"),
            ("proc.fork_limit", "24"),
            ExecutionLimit::Processes,
        ),
        (
            shell("while :; do :; done"),
            ("proc.cpu_time", "400ms"),
            ExecutionLimit::Cpu,
        ),
    ] {
        let ran = without_groups(task, &[settings]).await;
        assert_eq!(ran.ended.verdict, Verdict::Limit(limit), "{ran:?}");
    }
    let ran = without_groups(
        code(
            JobLanguage::TypeScript,
            // Several times as long as the pause between two checks of the processes.
            "const from = Date.now(); while (Date.now() - from < 400); true",
        ),
        &[],
    )
    .await;
    assert_eq!(
        (ran.value(), ran.ended.usage.peak_memory > 0),
        ("true", true),
        "{ran:?}"
    );
}
