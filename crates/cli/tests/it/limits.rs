//! Each limit ends a program in time with its own verdict and leaves nothing behind.

use std::time::Duration;

use serde_json::json;

use crate::setting::{Setting, groups_with, processes_with};

struct Case {
    name: &'static str,
    source: &'static str,
    set: &'static [&'static str],
    code: &'static str,
    exit: i32,
    status: &'static str,
    rule: &'static str,
}

const CASES: [Case; 9] = [
    Case {
        name: "bomb.sh",
        source: "sleep 2 & (while :; do sleep 2 & done); wait",
        set: &["proc.fork_limit=24"],
        code: "limit.processes",
        exit: 137,
        status: "killed",
        rule: "proc.fork_limit",
    },
    Case {
        name: "hog.ts",
        source: "const hoard: string[] = []; while (true) hoard.push(hoard.length + 'x'.repeat(1 << 20));",
        set: &["proc.mem_limit=64MiB"],
        code: "limit.memory",
        exit: 137,
        status: "killed",
        rule: "proc.mem_limit",
    },
    Case {
        name: "hog.py",
        source: "hoard = []\nwhile True:\n    hoard.append(bytearray(1 << 20))\n",
        set: &["proc.mem_limit=64MiB"],
        code: "limit.memory",
        exit: 137,
        status: "killed",
        rule: "proc.mem_limit",
    },
    Case {
        name: "fill.sh",
        source: "while :; do cat /dev/zero >>fill 2>/dev/null; done",
        set: &["fs.mounts=[{path: /workspace, access: rw, quota: 4MiB}]"],
        code: "limit.disk",
        exit: 137,
        status: "killed",
        rule: "fs.mounts",
    },
    Case {
        name: "inodes.sh",
        source: "i=0; while :; do : 2>/dev/null >f$i; i=$((i+1)); done 2>/dev/null",
        set: &["fs.mounts=[{path: /workspace, access: rw, quota: 1MiB}]"],
        code: "limit.inodes",
        exit: 137,
        status: "killed",
        rule: "fs.mounts",
    },
    Case {
        name: "flood.sh",
        source: "exec cat /dev/zero",
        set: &["proc.output=64KiB"],
        code: "limit.output",
        exit: 137,
        status: "killed",
        rule: "proc.output",
    },
    Case {
        name: "loop.ts",
        source: "while (true) {}",
        set: &["proc.wall_timeout=300ms"],
        code: "limit.wall",
        exit: 124,
        status: "timed_out",
        rule: "proc.wall_timeout",
    },
    Case {
        name: "spin.sh",
        source: "while :; do :; done",
        set: &["proc.cpu_time=1s", "proc.wall_timeout=20s"],
        code: "limit.cpu",
        exit: 124,
        status: "timed_out",
        rule: "proc.cpu_time",
    },
    Case {
        name: "sleep.sh",
        source: "sleep 60",
        set: &["proc.wall_timeout=200ms"],
        code: "limit.wall",
        exit: 124,
        status: "timed_out",
        rule: "proc.wall_timeout",
    },
];

fn check(case: &Case) {
    let setting = Setting::new();
    setting.write(case.name, case.source);
    let mut args = vec!["run", case.name, "--json"];
    for change in case.set {
        args.extend(["--set", change]);
    }
    let done = setting.run(&args);
    let object: serde_json::Value =
        serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{}: {done:?}", case.name));
    let told = (
        &object["error"]["code"],
        &object["exit_code"],
        &object["status"],
        &object["error"]["rule"],
    );
    assert_eq!(
        told,
        (
            &json!(case.code),
            &json!(case.exit),
            &json!(case.status),
            &json!(case.rule)
        ),
        "{}",
        case.name
    );
    assert_eq!(done.code, Some(case.exit), "{}", case.name);
    assert!(
        object["error"]["hint"].is_string(),
        "{}: a limit names the next step",
        case.name
    );
    assert!(
        done.took < Duration::from_secs(20),
        "{} took {:?}",
        case.name,
        done.took
    );
    nothing_left(&setting, case.name);
}

/// No file of the lease, no workspace, no control group.
fn nothing_left(setting: &Setting, name: &str) {
    let names = |folder: &str| -> Vec<String> {
        let entries = std::fs::read_dir(setting.home().join(folder))
            .into_iter()
            .flatten()
            .flatten();
        entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect()
    };
    assert_eq!(names("workspaces"), Vec::<String>::new(), "{name}");
    assert_eq!(names("scratch"), Vec::<String>::new(), "{name}");
    for lease in names("run") {
        let id = lease.split('.').next().unwrap_or_default().to_owned();
        assert_eq!(groups_with(&id), Vec::<std::path::PathBuf>::new(), "{name}");
    }
}

#[test]
fn each_limit_has_its_own_verdict() {
    for case in &CASES {
        check(case);
    }
}

#[test]
fn output_is_cut_with_a_notice() {
    let setting = Setting::new();
    let done = setting.run(&[
        "exec",
        "--set",
        "proc.output=1KiB",
        "--",
        "sh",
        "-c",
        "head -c 5000 /dev/zero | tr '\\0' x",
    ]);
    assert_eq!((done.code, done.stdout.len()), (Some(0), 1024), "{done:?}");
    let warning = "warning: stdout was cut after 1 KiB: `proc.output`; `--set proc.output=16KiB` is enough for all of it, or write a file";
    assert!(done.stderr.contains(warning), "{}", done.stderr);
}

#[test]
fn truncation_is_said_to_who_wants_to_hear_little_and_to_programs() {
    let setting = Setting::new();
    let script = "head -c 2000000 /dev/zero | tr '\\0' x; head -c 5000 /dev/zero | tr '\\0' y >&2; echo >&2";
    // As in `ringfence exec … > file`: only the limit of the policy truncates, and a warning tells so.
    let done = setting.run(&["exec", "-q", "--", "sh", "-c", script]);
    assert_eq!((done.code, done.stdout.len()), (Some(0), 1 << 20), "{}", done.stderr);
    let warnings: Vec<&str> = done
        .stderr
        .lines()
        .filter(|line| line.starts_with("warning: "))
        .collect();
    assert!(
        matches!(warnings[..], [one] if one.contains("stdout was cut after 1 MiB")),
        "{warnings:?}"
    );
    // The value in the warning is large enough.
    let done = setting.run(&["exec", "-q", "--set", "proc.output=16MiB", "--", "sh", "-c", script]);
    assert_eq!((done.code, done.stdout.len()), (Some(0), 2_000_000), "{}", done.stderr);
    assert!(!done.stderr.contains("warning"), "{}", done.stderr);
    let done = setting.run(&[
        "exec",
        "-q",
        "--json",
        "--set",
        "proc.output=1KiB",
        "--",
        "sh",
        "-c",
        "yes 12345678 | head -c 5000",
    ]);
    let object: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(object["truncated"]["stdout"], json!(true), "{object}");
    assert!(
        done.stderr.starts_with("warning: stdout was cut after 1 KiB"),
        "{}",
        done.stderr
    );
    let done = setting.run(&[
        "exec",
        "-q",
        "--json",
        "--set",
        "data.return.bytes=1KiB",
        "--",
        "sh",
        "-c",
        "seq 1000",
    ]);
    let object: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(object["truncated"]["stdout"], json!(true), "{object}");
    assert!(
        done.stderr
            .starts_with("warning: stdout is cut in this answer: `data.return`"),
        "{}",
        done.stderr
    );
}

#[test]
fn a_daemon_that_forks_twice_dies_with_its_run() {
    let setting = Setting::new();
    let mark = format!("{}", 100_000 + std::process::id());
    let script = format!("(setsid sh -c 'sleep {mark} & sleep {mark}' >/dev/null 2>&1 &) ; echo started");
    let done = setting.run(&["exec", "--", "sh", "-c", &script]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "started\n"), "{done:?}");
    assert_eq!(processes_with(&format!("sleep\0{mark}")), Vec::<u32>::new());
}

#[test]
fn a_forbidden_system_call_is_refused_and_told() {
    let setting = Setting::new();
    let object = setting.json(&["exec", "--json", "--timeout", "10s", "--", "unshare", "--user", "true"]);
    assert_ne!(object["exit_code"], json!(0), "{object}");
    assert_ne!(
        object["exit_code"],
        json!(124),
        "the host hung until the deadline: {object}"
    );
    let rules: Vec<_> = object["violations"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| &one["rule"])
        .collect();
    assert_eq!(rules, [&json!("proc.syscalls")], "{object}");
    let done = setting.run(&["exec", "--timeout", "10s", "--", "unshare", "--user", "true"]);
    assert!(
        done.stderr
            .contains("notice: refused syscall `unshare`: `proc.syscalls`"),
        "{}",
        done.stderr
    );
}

#[test]
fn what_is_only_watched_is_refused_on_request_or_held_hard() {
    let setting = Setting::new();
    let object = setting.json(&["exec", "--json", "--require-hard", "--", "true"]);
    if object["status"] == json!("refused") {
        assert_eq!(
            (&object["exit_code"], &object["error"]["code"]),
            (&json!(126), &json!("policy.soft"))
        );
    } else {
        let by = |rule: &str| {
            object["enforcement"]
                .as_array()
                .unwrap()
                .iter()
                .find(|one| one["rule"] == rule)
                .unwrap()["by"]
                .clone()
        };
        assert_eq!(
            (by("proc.mem_limit"), by("proc.fork_limit")),
            (json!("cgroup"), json!("cgroup"))
        );
    }
}

/// The refusal of a program under level 1, on standard error.
const NO_PROGRAMS: &str =
    "is not run, only code on the engines\nrule: proc.programs\nhint: write it in TypeScript, JavaScript or Python";

#[test]
fn level_one_runs_code_on_the_engines_and_no_program() {
    let setting = Setting::new();
    setting.write("a.sh", "echo started");
    setting.write("a.ts", "files.write('made', 'x'); 1 + 1");
    setting.write(
        "a.py",
        "import subprocess\ntry: subprocess.run(['/bin/true'])\nexcept PermissionError: print('refused')",
    );
    for args in [
        &["run", "a.sh", "--policy", "level-1"][..],
        &["exec", "--policy", "level-1", "--", "/bin/echo", "started"],
        &[
            "exec",
            "--policy",
            "level-2",
            "--set",
            "proc.programs=none",
            "--",
            "/bin/echo",
            "started",
        ],
    ] {
        let done = setting.run(args);
        assert_eq!((done.code, done.stdout.as_str()), (Some(126), ""), "{args:?} {done:?}");
        assert!(done.stderr.contains(NO_PROGRAMS), "{args:?} {done:?}");
    }
    for (args, stdout) in [
        (&["run", "a.ts", "--policy", "level-1"][..], "2\n"),
        (&["run", "a.py", "--policy", "level-1"], "refused\n"),
        (&["run", "a.sh", "--policy", "level-2"], "started\n"),
    ] {
        let done = setting.run(args);
        assert_eq!(
            (done.code, done.stdout.as_str()),
            (Some(0), stdout),
            "{args:?} {done:?}"
        );
    }
    let answer = setting.json(&["run", "a.ts", "--policy", "level-1", "--json"]);
    let held = answer["enforcement"].as_array().unwrap();
    let by_seccomp = json!({ "rule": "proc.programs", "by": "seccomp" });
    assert!(held.contains(&by_seccomp), "{answer}");
    let refused = setting.json(&["run", "a.sh", "--policy", "level-1", "--json"]);
    assert_eq!(
        (&refused["status"], &refused["error"]["code"]),
        (&json!("refused"), &json!("policy.programs")),
        "{refused}"
    );
}

#[test]
fn the_operator_names_a_preset_as_the_policy_and_as_the_ceiling() {
    let setting = Setting::new();
    setting.write("a.sh", "echo started");
    let policy = setting.write("policy.yaml", "policy: level-1\n");
    let done = setting.run(&["run", "a.sh", "--config", policy.to_str().unwrap()]);
    assert_eq!(done.code, Some(126), "{done:?}");
    assert!(done.stderr.contains(NO_PROGRAMS), "{done:?}");
    // A policy that lies in a folder cannot ask for what the operator's ceiling does not have.
    let ceiling = setting.write("ceiling.yaml", "ceiling: level-1\n");
    setting.write("sandbox.policy.yaml", "proc: { programs: all }\n");
    let done = setting.run(&["run", "a.sh", "--config", ceiling.to_str().unwrap()]);
    assert_eq!(done.code, Some(126), "{done:?}");
    let says = "`proc.programs` asks for all, the ceiling allows none\nrule: proc.programs";
    assert!(done.stderr.contains(says), "{done:?}");
}
