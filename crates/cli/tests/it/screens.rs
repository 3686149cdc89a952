//! Compares whole outputs of commands with the texts in `testdata/screens`; `RINGFENCE_REWRITE=1` writes them anew.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::setting::{Setting, eventually, program, wait};

const POLICY: &str = "version: 1\nfs: { mounts: [{ path: /workspace, access: rw, quota: 8MiB, keep: true }] }\ntools:\n  rules:\n    \
    - { allow: 'company.*' }\n    - { ask: 'company.block_customer' }\n    - { deny: 'company.delete_*' }\n";

const PROGRAM: &str = r#"import { company } from "tools";
const page = await company.list_customers({ limit: 2 });
console.log("customers:", page.items.length);
files.write("report.txt", "two customers");
({ ids: page.items.map(customer => customer.id) })
"#;

const SHARED: [&str; 4] = ["--servers", "servers.json", "--policy", "policy.yaml"];

/// The output of a command, with its arguments and its exit code.
fn screen(setting: &Setting, words: &[&str]) -> String {
    let done = setting.run(words);
    let code = done.code.unwrap_or(-1);
    let part = |name: &str, text: &str| {
        let text = text.trim_end_matches('\n');
        if text.is_empty() {
            String::new()
        } else {
            format!("--- {name}\n{text}\n")
        }
    };
    let text = format!(
        "$ ringfence {}\n{}{}",
        words.join(" "),
        part("stdout", &done.stdout),
        part("stderr", &done.stderr)
    );
    plain(setting, &format!("{text}--- exit {code}\n"))
}

/// The text without the parts that differ between runs: ids, digests, times, sizes, paths. Columns keep their positions.
fn plain(setting: &Setting, text: &str) -> String {
    let text = text.replace(&program().to_string_lossy().into_owned(), "/usr/bin/ringfence");
    let text = text.replace(
        &setting.path("").to_string_lossy().trim_end_matches('/').to_owned(),
        "/home/ann",
    );
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len()).max(first.len_utf8());
        let (word, after) = rest.split_at(length);
        out.push_str(&steady(word));
        rest = after;
    }
    steady_amounts(&out)
}

/// A word with its variable part replaced.
fn steady(word: &str) -> String {
    let is_hex = |text: &str| text.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c));
    let shape = |text: &str| -> String {
        let digit = |c: char| if c.is_ascii_digit() { '0' } else { c };
        text.chars().map(digit).collect()
    };
    let bare = word.trim_end_matches(':');
    let tail = &word[bare.len()..];
    if bare
        .strip_prefix("local:")
        .is_some_and(|user| user.parse::<u32>().is_ok())
    {
        return format!("local:0{tail}");
    }
    if bare.len() == 28 && ["s_", "x_", "a_"].iter().any(|kind| bare.starts_with(kind)) {
        return format!("{}{}{tail}", &bare[..2], "0".repeat(26));
    }
    if [8, 12, 16, 64].contains(&bare.len()) && is_hex(bare) && bare.chars().any(|c| c.is_ascii_digit()) {
        return "d".repeat(bare.len()) + tail;
    }
    let shaped = shape(bare);
    // A revision of the protocol is no date.
    if !["2025-11-25", "2026-07-28"].contains(&bare)
        && ["0000-00-00", "00:00:00", "0000-00-00T00:00:00"].contains(&shaped.as_str())
    {
        return shaped + tail;
    }
    word.to_owned()
}

/// Replaces amounts of time and memory, which no two runs share: `3 ms` is `0 ms`, `2.5 MiB` is `0 MiB`, an age is `0s`.
fn steady_amounts(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let is_measured = ["cpu", "left", "kept until"].iter().any(|word| line.contains(word));
        // How each rule is held is the machine's.
        for held in ["hard       ", "watched    "] {
            if line.starts_with(held) {
                return format!("{held}…\n");
            }
        }
        let mut words: Vec<&str> = line.split(' ').collect();
        let mut at = 1;
        while at < words.len() {
            let unit = words[at].trim_end_matches([',', ':', ')']);
            let is_number = words[at - 1].parse::<f64>().is_ok();
            let is_amount = unit == "ms" || ["KiB", "MiB", "GiB"].contains(&unit) && is_measured;
            if is_number && is_amount {
                words[at - 1] = "0";
            }
            at += 1;
        }
        words.join(" ") + "\n"
    });
    lines.collect()
}

/// Compares the output with the stored text, or stores it.
#[track_caller]
fn check(name: &str, shown: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("testdata/screens/{name}.txt"));
    if std::env::var_os("RINGFENCE_REWRITE").is_some() {
        fs::write(&path, shown).unwrap();
        return;
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(shown, kept, "`{name}` is shown otherwise:\n{shown}\ninstead of\n{kept}");
}

fn setting() -> Setting {
    let setting = Setting::new();
    let servers = json!({ "mcpServers": { "company": { "command": program(), "args": ["company"] } } });
    setting.write("servers.json", servers.to_string());
    setting.write("policy.yaml", POLICY);
    setting.write("main.ts", PROGRAM);
    setting
}

#[test]
fn a_run_and_what_is_left_of_it() {
    let setting = setting();
    let run = ["run", "main.ts", "--session", "report", "--out", "out"];
    check("run", &screen(&setting, &[&run[..], &SHARED].concat()));
    setting.write("fail.ts", "console.log('begins');\nthrow new Error('no such file');\n");
    check(
        "run-failed",
        &screen(
            &setting,
            &[&["run", "fail.ts", "--session", "failed"][..], &SHARED].concat(),
        ),
    );
    check("session-list", &screen(&setting, &["session", "list"]));
    let shown = setting.json(&["session", "show", "report", "--json"]);
    check("session-show", &screen(&setting, &["session", "show", "report"]));
    check("audit-verify", &screen(&setting, &["audit", "verify"]));
    check("skills-list-empty", &screen(&setting, &["skills", "list"]));
    let execution = shown["executions"][0]["execution_id"]
        .as_str()
        .unwrap_or_else(|| panic!("{shown:#}"))
        .to_owned();
    let save = [
        "skills",
        "save",
        "two-customers",
        "--from-run",
        &execution,
        "--description",
        "Lists two customers.",
    ];
    let saved = setting.run(&save);
    assert_eq!(saved.code, Some(0), "{saved:?}");
    check("skills-list", &screen(&setting, &["skills", "list"]));
}

#[test]
fn what_waits_for_a_person() {
    let setting = setting();
    check("approvals-list-empty", &screen(&setting, &["approvals", "list"]));
    setting.write("ask.ts", "await tools.company.block_customer({ id: 'CUS-0001' })");
    let child = setting.start(&[&["run", "ask.ts"][..], &SHARED].concat());
    let id = eventually("a question", || {
        let listed = setting.run(&["approvals", "list", "--json"]).stdout;
        let at = listed.find("\"a_")?;
        Some(listed[at + 1..].chars().take(28).collect::<String>())
    });
    // How old it is depends on the machine.
    let age = |text: String, seconds: usize| {
        let width = seconds.to_string().len();
        text.replace(&format!(" {seconds}s  company"), &format!(" {:>width$}s  company", 0))
    };
    check(
        "approvals-list",
        &(0..60).fold(screen(&setting, &["approvals", "list"]), age),
    );
    check("approvals-show", &screen(&setting, &["approvals", "show", &id]));
    assert_eq!(setting.run(&["approvals", "deny", &id]).code, Some(0));
    wait(child, std::time::Duration::from_mins(1));
}

#[test]
fn what_there_is_to_call() {
    let setting = setting();
    let with = |words: &[&str]| screen(&setting, &[words, &SHARED].concat());
    check("servers-list-new", &with(&["servers", "list"]));
    check("tools-search", &with(&["tools", "search", "list customers", "-n", "3"]));
    check("tools-show", &with(&["tools", "show", "company.get_customer"]));
    check("servers-list", &with(&["servers", "list"]));
    check("servers-test", &with(&["servers", "test"]));
    let servers = json!({ "mcpServers": {
        "company": { "command": program(), "args": ["company"] },
        "broken": { "command": "/usr/bin/false" },
        "missing": { "command": "/usr/bin/no-such-program" },
        "nobody": { "url": "http://127.0.0.1:9/mcp" },
    } });
    setting.write("servers.json", servers.to_string());
    check("servers-test-broken", &with(&["servers", "test"]));
}

#[test]
fn what_is_wrong_with_a_policy() {
    let setting = Setting::new();
    let policy = "version: 1\nproc:\n  mem_limt: 1GiB\n  wall_timeout: soon\ntools:\n  default: maybe\n";
    setting.write("bad.yaml", policy);
    check("policy-check", &screen(&setting, &["policy", "check", "bad.yaml"]));
    let good = setting.write("good.yaml", POLICY);
    assert!(good.exists());
    check(
        "policy-check-good",
        &screen(&setting, &["policy", "check", "good.yaml"]),
    );
}

#[test]
fn what_a_machine_can_enforce() {
    let setting = Setting::new();
    let shown = screen(&setting, &["doctor"]);
    // The text of each line depends on the machine; the lines themselves and their columns do not.
    let lines = shown.lines().filter(|line| {
        ["good", "limited", "missing", "bad"]
            .iter()
            .any(|word| line.starts_with(word))
    });
    let mut names: Vec<&str> = lines.map(|line| line.get(9..26).unwrap_or(line).trim_end()).collect();
    names.dedup();
    check("doctor", &(names.join("\n") + "\n"));
}
