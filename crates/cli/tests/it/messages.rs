//! The messages that people read when something is wrong, and their exit codes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::setting::{Setting, finish, tool};

fn check(setting: &Setting, args: &[&str], code: i32, message: &str) {
    let done = setting.run(args);
    assert_eq!(done.code, Some(code), "{args:?} {done:?}");
    assert!(done.stderr.contains(message), "{args:?}\n{}", done.stderr);
    assert_eq!(done.stdout, "", "{args:?}");
    assert!(!done.stderr.contains("os error"), "{args:?}\n{}", done.stderr);
}

/// A place below a read-only folder that has no room for it.
const BELOW: &str = "fs.mounts=[{path: /deps, access: ro, from: ./deps}, {path: /deps/cache, access: rw, quota: 1MiB}]";

#[test]
#[expect(clippy::too_many_lines, reason = "cases are data")]
fn every_refusal_says_what_why_and_what_next() {
    let setting = Setting::new();
    setting.write("a.ts", "1");
    setting.write("bin.ts", b"\xff\xfe\x00");
    setting.write("huge.ts", vec![b' '; (16 << 20) + 1]);
    setting.write("unknown.txt", "1");
    fs::create_dir(setting.work().join("folder.ts")).unwrap();
    fs::create_dir(setting.work().join("deps")).unwrap();
    setting.write("env.yaml", format!("env: {{ BIG: {} }}\n", "x".repeat(800 << 10)));
    let cases: [(&[&str], i32, &str); 22] = [
        (
            &["run", "nope.ts"],
            127,
            "error: cannot read `nope.ts`: no such file or directory\nhint: look at the path",
        ),
        (
            &["run", "folder.ts"],
            127,
            "error: `folder.ts` is a folder, not a program\nhint: name a file in it",
        ),
        (
            &["run", "bin.ts"],
            127,
            "error: `bin.ts` is not a text: byte 0 is not UTF-8\nhint: ",
        ),
        (
            &["run", "huge.ts"],
            125,
            "error: `huge.ts` is longer than 8 MiB\nhint: put data into a file of its own",
        ),
        (
            &["run", "unknown.txt"],
            127,
            "error: cannot tell the language of `unknown.txt` by its name\nhint: add `--lang",
        ),
        (&["run", "a.ts", "--lang", "cobol"], 2, "invalid value 'cobol'"),
        (
            &["run", "a.ts", "--set", "proc.mem_limt=1GiB"],
            126,
            "unknown key `proc.mem_limt`\nhint: did you mean `mem_limit`?",
        ),
        (
            &["run", "a.ts", "--set", "proc.mem_limit=1GX"],
            126,
            "`1GX` is not an amount of bytes, write it like `512MiB`",
        ),
        (
            &["run", "a.ts", "--set", "novalue"],
            126,
            "--set novalue: there is no `=`\nhint: write it like",
        ),
        (
            &["run", "a.ts", "--timeout", "soon"],
            126,
            "rule: timeout\nhint: write it like `--timeout 30s`",
        ),
        (
            &["run", "a.ts", "--policy", "nope.yaml"],
            126,
            "cannot read `nope.yaml`: no such file or directory\nhint: name a policy file, or a preset: default,",
        ),
        (
            &["run", "a.ts", "--backend", "container"],
            126,
            "there is no backend `container`: this version has `native`",
        ),
        (
            &["run", "a.ts", "--session", "s_1"],
            126,
            "session `s_1` would end with this command: its policy keeps nothing\nrule: fs.mounts.keep\nhint: write `keep: true`",
        ),
        (
            &["run", "a.ts", "--policy", "default", "--set", "proc.open_files=3"],
            126,
            "  `proc.open_files` is 3, the least is 16\nrule: proc.open_files\nhint: no program could start",
        ),
        (
            &["run", "a.ts", "--policy", "env.yaml"],
            126,
            "bytes, the most is 32768\nrule: env\nhint: bring large values in as a file",
        ),
        (
            &["run", "a.ts", "--file", "nope"],
            125,
            "cannot bring `nope` in: no such file or directory",
        ),
        (
            &["run", "a.ts", "--file", "a.ts:../x"],
            125,
            "has a `.` or `..` segment\nhint: choose a plain name",
        ),
        (
            &["run", "a.ts", "--config", "nope.yaml"],
            125,
            "cannot read `nope.yaml`: no such file or directory",
        ),
        (&["trust", "."], 125, "there is no `ringfence.yaml` in `.`"),
        (&["session", "show", "nope"], 1, "`nope` is not a session id"),
        (&["policy", "learn"], 1, "there is no journal in"),
        // A refusal at the opening of a session is in the journal.
        (
            &["run", "a.ts", "--policy", "default", "--set", BELOW],
            126,
            "`/deps/cache` lies below `/deps`, which is read-only and has no folder `cache` to put it on\nrule: fs.mounts[/deps/cache]\nhint: mount it beside `/deps`",
        ),
    ];
    for (args, code, message) in cases {
        check(&setting, args, code, message);
    }
}

#[test]
fn a_home_that_cannot_be_used_stops_everything() {
    let setting = Setting::new();
    let with_home = |home: &std::path::Path| {
        let mut command = setting.command(&["exec", "--", "true"]);
        command.env("RINGFENCE_HOME", home);
        finish(command, &[])
    };
    let file = setting.write("file", "");
    let done = with_home(&file);
    assert_eq!(done.code, Some(125));
    assert!(
        done.stderr
            .contains("not a directory\nhint: choose another data folder with `RINGFENCE_HOME`"),
        "{}",
        done.stderr
    );
    let open = setting.path("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let done = with_home(&open);
    assert_eq!(done.code, Some(125));
    assert!(
        done.stderr
            .contains("is open to others (mode 777)\nhint: run `chmod go-rwx "),
        "{}",
        done.stderr
    );
    let mut command = setting.command(&["exec", "--", "true"]);
    command.env_remove("RINGFENCE_HOME").env_remove("HOME");
    let done = finish(command, &[]);
    assert_eq!(done.code, Some(125));
    assert!(
        done.stderr
            .contains("neither `RINGFENCE_HOME` nor `HOME` is set\nhint: set `RINGFENCE_HOME`"),
        "{}",
        done.stderr
    );
}

#[test]
fn a_damaged_journal_stops_runs_and_says_so() {
    let setting = Setting::new();
    assert_eq!(setting.run(&["exec", "--", "true"]).code, Some(0));
    for side in ["ringfence.db-wal", "ringfence.db-shm"] {
        let path = setting.home().join(side);
        if path.exists() {
            fs::remove_file(path).unwrap();
        }
    }
    fs::write(setting.home().join("ringfence.db"), vec![0x5a; 8192]).unwrap();
    let done = setting.run(&["exec", "--", "true"]);
    assert_eq!(done.code, Some(125), "{done:?}");
    assert!(
        done.stderr.contains("the journal `") && done.stderr.contains("hint: "),
        "{}",
        done.stderr
    );
}

#[test]
fn a_reader_that_goes_away_ends_the_run_quietly() {
    let setting = Setting::new();
    let mut command = setting.command(&["exec", "--timeout", "20s", "--", "yes"]);
    let mut child = crate::setting::spawned(&mut command);
    drop(child.stdout.take());
    let output = crate::setting::wait(child, std::time::Duration::from_secs(15));
    assert_eq!(
        (output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()),
        (Some(141), "")
    );
    assert!(setting.run(&["audit", "tail", "-n", "2"]).stdout.contains("cancelled"));
}

#[test]
fn a_full_disk_behind_stdout_is_our_fault_not_the_programs() {
    let setting = Setting::new();
    let mut command = setting.command(&["exec", "--", "echo", "hi"]);
    command.stdout(Stdio::from(
        fs::OpenOptions::new().write(true).open("/dev/full").unwrap(),
    ));
    let done = finish(command, &[]);
    assert_eq!(done.code, Some(125));
    assert_eq!(
        done.stderr,
        "error: cannot write to standard output: no space left on device\n"
    );
}

#[test]
fn looking_makes_no_journal() {
    let setting = Setting::new();
    check(&setting, &["audit", "tail"], 1, "there is no journal in");
    check(&setting, &["session", "list"], 0, "there is no journal in");
    assert!(!setting.home().exists());
}

#[test]
fn quiet_and_verbose() {
    let setting = Setting::new();
    setting.write("ringfence.yaml", "policy: {}\n");
    assert_eq!(setting.run(&["-q", "exec", "--", "true"]).stderr, "");
    let done = setting.run(&["exec", "-v", "--", "true"]);
    assert!(
        done.stderr.contains("completed: ") && done.stderr.contains("session s_"),
        "{}",
        done.stderr
    );
    let version = setting.run(&["--version"]);
    assert_eq!(version.stdout, format!("ringfence {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn doctor_says_what_holds_here() {
    let setting = Setting::new();
    let object = setting.json(&["doctor", "--json"]);
    assert_eq!(object["ok"], serde_json::json!(true), "{object}");
    let looked: Vec<&str> = object["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["what"].as_str())
        .collect();
    for what in [
        "system",
        "user",
        "sandbox",
        "namespaces",
        "system calls",
        "landlock",
        "control groups",
        "python",
        "limits",
        "data folder",
    ] {
        assert!(looked.contains(&what), "{what}: {looked:?}");
    }
}

#[test]
fn doctor_says_of_each_tool_server_what_helps() {
    let setting = Setting::new();
    let servers = "servers:\n  outside: { command: x }\n  inside: { command: x, policy: default, autoApprove: [a] }\n";
    setting.write("ringfence.yaml", servers);
    let object = setting.json(&["doctor", "--json", "--config", "ringfence.yaml"]);
    let findings = object["findings"].as_array().unwrap().iter();
    let findings = findings.filter(|one| one["what"] == "tool server");
    let found: Vec<(&str, &str)> = findings
        .map(|one| (one["detail"].as_str().unwrap(), one["hint"].as_str().unwrap()))
        .collect();
    assert_eq!(
        found,
        [
            (
                "server `outside` runs on the host, outside of any sandbox",
                "give its entry a `policy` to run it in a sandbox of its own"
            ),
            (
                "server `inside`: `autoApprove` has no meaning here",
                "remove the key, which other clients know"
            ),
        ]
    );
}

#[test]
fn the_demo_blocks_six_attempts_and_keeps_nothing() {
    let setting = Setting::new();
    let mut command = setting.command(&["demo"]);
    command.env_remove("RINGFENCE_HOME");
    let done = finish(command, &[]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(done.stdout.matches("  blocked  ").count(), 6, "{}", done.stdout);
    assert_eq!(done.stdout.matches("  refused  ").count(), 2, "{}", done.stdout);
    assert!(
        done.stdout.contains("Scarlet Egret Instruments")
            && done.stdout.contains("97.9 % less")
            && done.stdout.contains("the chain is unbroken"),
        "{}",
        done.stdout
    );
    assert!(!setting.path("user").exists());
    // The demo prints no approval request, because nobody could answer it, and hints only at commands that work without a
    // journal.
    assert_eq!(done.stderr, "", "{done:?}");
    let mut commands = hinted(&done.stdout);
    commands.retain(|words| !words.contains(&"audit"));
    assert_eq!(commands.len(), 6, "{}", done.stdout);
    assert!(done.stdout.contains("RINGFENCE_HOME=DIR "), "{}", done.stdout);
}

/// The commands of this program that a text hints at under *Next*.
fn hinted(text: &str) -> Vec<Vec<&str>> {
    let program = crate::setting::program().display().to_string();
    let next = text.split("\nNext\n").nth(1).unwrap();
    let lines = next.lines().filter_map(|line| line.trim_start().strip_prefix(&program));
    lines
        .map(|line| line.split("   ").next().unwrap().split_whitespace().collect())
        .collect()
}

#[test]
fn a_type_checker_that_refuses_first_is_a_refusal_of_the_demo() {
    let Some(npm) = tool("npm") else { return };
    let setting = Setting::new();
    fs::create_dir_all(setting.home().join("tools")).unwrap();
    std::os::unix::fs::symlink(npm, setting.home().join("tools/npm")).unwrap();
    fs::set_permissions(setting.home(), fs::Permissions::from_mode(0o700)).unwrap();
    let done = setting.run(&["demo"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(done.stdout.matches("  refused  ").count(), 2, "{}", done.stdout);
    assert!(done.stdout.contains("by the type checker"), "{}", done.stdout);
    assert!(
        !done.stdout.contains("NOT REFUSED") && !done.stderr.contains("approvals"),
        "{done:?}"
    );
    // It kept its journal, and says how to look at it.
    let hinted = hinted(&done.stdout);
    let tail = hinted.iter().find(|words| words.contains(&"audit")).unwrap();
    let done = setting.run(tail);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.contains("session_closed"), "{done:?}");
}

#[test]
fn a_data_folder_that_others_can_read_is_closed_with_a_notice_or_refused() {
    let setting = Setting::new();
    let home = setting.home();
    let mode = || fs::metadata(&home).unwrap().permissions().mode() & 0o777;
    fs::create_dir(&home).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).unwrap();
    let done = setting.run(&["exec", "--", "true"]);
    assert_eq!((done.code, mode()), (Some(0), 0o700), "{done:?}");
    let notice = format!(
        "notice: others could read the data folder `{}` (mode 755): it is closed to them now",
        home.display()
    );
    assert!(done.stderr.starts_with(&notice), "{done:?}");
    assert_eq!(setting.run(&["exec", "--", "true"]).stderr, "");
    // Also for who only looks.
    fs::set_permissions(&home, fs::Permissions::from_mode(0o750)).unwrap();
    let done = setting.run(&["session", "list"]);
    assert_eq!((done.code, mode()), (Some(0), 0o700), "{done:?}");
    assert!(done.stderr.contains("(mode 750)"), "{done:?}");
    // A folder with other things in it may be meant for others: it is not touched, and not used.
    let shared = setting.path("shared");
    fs::create_dir_all(shared.join("photos")).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = setting.command(&["exec", "--", "true"]);
    command.env("RINGFENCE_HOME", &shared);
    let done = finish(command, &[]);
    assert_eq!(done.code, Some(125), "{done:?}");
    assert!(
        done.stderr
            .contains("is open to others (mode 755)\nhint: run `chmod go-rwx "),
        "{done:?}"
    );
    assert_eq!(fs::read_dir(&shared).unwrap().count(), 1);
}

#[test]
fn wrong_arguments_exit_with_2_whatever_the_command() {
    let setting = Setting::new();
    let wrong: [&[&str]; 9] = [
        &[],
        &["nonsense"],
        &["run"],
        &["run", "--nonsense", "a.ts"],
        &["exec"],
        &["exec", "--json"],
        &["run", "-"],
        &["session", "show"],
        &["man", "nonsense"],
    ];
    for args in wrong {
        let done = setting.run(args);
        assert_eq!(done.code, Some(2), "{args:?} {done:?}");
        assert!(!done.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn completions_and_manual_pages_are_printed_for_each_command() {
    let setting = Setting::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let done = setting.run(&["completions", shell]);
        assert_eq!(done.code, Some(0), "{done:?}");
        for word in ["ringfence", "approvals", "completions", "require-hard"] {
            assert!(done.stdout.contains(word), "{shell} does not complete {word}");
        }
    }
    let page = setting.run(&["man"]);
    assert!(
        page.code == Some(0) && page.stdout.contains(".TH ringfence 1"),
        "{page:?}"
    );
    let page = setting.run(&["man", "session", "list"]);
    assert!(page.stdout.contains(".TH ringfence-session-list 1"), "{page:?}");
    assert!(page.stdout.contains("\\-\\-open"), "{page:?}");
    assert!(!setting.home().exists());
}

#[test]
fn the_beginning_of_an_id_is_enough_where_only_one_begins_so() {
    let setting = Setting::new();
    let ids: Vec<(String, String)> = (0..2)
        .map(|_| setting.json(&["exec", "--json", "--", "true"]))
        .map(|object| {
            (
                object["session_id"].as_str().unwrap().into(),
                object["execution_id"].as_str().unwrap().into(),
            )
        })
        .collect();
    let [(first, execution), (second, _)] = &ids[..] else {
        panic!()
    };
    let common = first
        .chars()
        .zip(second.chars())
        .take_while(|(one, other)| one == other)
        .count();
    let enough = &first[..=common];
    for command in [
        ["session", "show"],
        ["audit", "show"],
        ["session", "stop"],
        ["policy", "learn"],
    ] {
        let done = setting.run(&[&command[..], &[enough]].concat());
        assert_eq!(done.code, Some(0), "{command:?} {done:?}");
        let ambiguous = setting.run(&[&command[..], &["s_0"]].concat());
        assert_eq!(ambiguous.code, Some(1), "{command:?} {ambiguous:?}");
        let said = ["several ids begin with `s_0`", first, second, "hint: write more of it"];
        assert!(
            said.iter().all(|part| ambiguous.stderr.contains(*part)),
            "{ambiguous:?}"
        );
    }
    // A program is no code that could run again, which says that it was found.
    let done = setting.run(&["session", "replay", &execution[..execution.len() - 1]]);
    assert!(!done.stderr.contains("no id of"), "{done:?}");
    let done = setting.run(&["session", "show", "s_7zzz"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(
        done.stderr.contains("`ringfence session list` shows the ids"),
        "{done:?}"
    );
}

/// First words that only codes begin with; other names with a dot are keys, files or tools.
const OF_CODES: [&str; 18] = [
    "api",
    "approval",
    "arguments",
    "call",
    "execution",
    "import",
    "job",
    "journal",
    "language",
    "limit",
    "policy",
    "program",
    "replay",
    "run",
    "session",
    "start",
    "store",
    "value",
];

/// Everything under a folder that has one of these endings.
fn texts(folder: &Path, endings: &[&str], found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if path.is_dir() {
            texts(&path, endings, found);
        } else if endings.contains(&ending) {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
}

fn is_code(word: &str) -> bool {
    let plain = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let files = ["json", "jsonl", "js", "md", "py", "rs", "sh", "ts", "tsx", "yaml"];
    word.split_once('.')
        .is_some_and(|(first, rest)| OF_CODES.contains(&first) && plain(rest) && !files.contains(&rest))
}

#[test]
fn every_code_that_the_documents_name_is_one_that_the_program_has() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let mut sources = Vec::new();
    texts(&root.join("crates"), &["rs"], &mut sources);
    let mut documents = Vec::new();
    for folder in ["concepts", "guides", "reference", "security"] {
        texts(&root.join("docs").join(folder), &["md"], &mut documents);
    }
    for name in ["README.md", "SANDBOX.md", "SECURITY.md", "SPECIFICATION.md"] {
        documents.push((root.join(name), fs::read_to_string(root.join(name)).unwrap()));
    }
    let mut seen = 0;
    for (path, text) in documents {
        for code in text.split('`').filter(|word| is_code(word)) {
            seen += 1;
            let quoted = format!("\"{code}\"");
            assert!(
                sources.iter().any(|(_, source)| source.contains(&quoted)),
                "{}: no program prints `{code}`",
                path.display()
            );
        }
    }
    assert!(seen > 50, "only {seen} codes were found in the documents");
}

#[test]
fn a_hint_on_a_terminal_names_flags_and_no_argument_of_clients() {
    let setting = Setting::new();
    setting.write("a.ts", "1");
    let keep = "fs.mounts=[{path: /workspace, access: rw, quota: 4MiB, keep: true}]";
    let args = ["run", "a.ts", "--set", keep, "--session", "no such name!"];
    check(
        &setting,
        &args,
        126,
        "hint: choose a short name such as `work`, or leave `--session` out",
    );
    let mut args = args.to_vec();
    args.push("--json");
    let object = setting.json(&args);
    assert_eq!(
        object["error"]["hint"], "choose a short name such as `work`, or leave `--session` out",
        "{object}"
    );
}
