//! Records are a bounded resource: a program with constant refusals causes few records and gets few answers. A journal
//! that was rolled back is not written.

use std::fs;

use serde_json::{Value, json};

use crate::setting::{Setting, program};

/// Calls of a flood: more than the limit by far, and few enough for a busy machine.
const CALLS: u64 = 20_000;

/// Bytes of everything in a folder.
fn size(path: &std::path::Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else { return 0 };
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => size(&entry.path()),
        Ok(data) => data.len(),
        Err(_) => 0,
    };
    entries.flatten().map(of).sum()
}

fn setting() -> Setting {
    let setting = Setting::new();
    let servers = json!({ "mcpServers": { "company": { "command": program(), "args": ["company"] } } });
    setting.write("servers.json", servers.to_string());
    setting
}

fn flood(setting: &Setting, source: &str) -> (Value, usize, u64) {
    setting.write("flood.ts", source);
    let before = size(&setting.home());
    let args = [
        "run",
        "flood.ts",
        "--json",
        "--servers",
        "servers.json",
        "--set",
        "proc.wall_timeout=300s",
    ];
    let done = setting.run(&[args.as_slice(), &["--set", "proc.cpu_time=300s"]].concat());
    let answer: Value = serde_json::from_str(&done.stdout).unwrap();
    (answer, done.stdout.len(), size(&setting.home()) - before)
}

fn check(source: &str) {
    let setting = setting();
    let (answer, length, written) = flood(&setting, source);
    assert_eq!(answer["status"], "completed", "{answer:#}");
    assert_eq!(answer["value"], json!(CALLS));
    assert_eq!(answer["usage"]["calls"], json!(CALLS));
    assert!(length < 100_000, "an answer of {length} bytes");
    assert!(written < 4 << 20, "{written} bytes of journal");
    let verified = setting.run(&["audit", "verify"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

#[test]
fn a_flood_of_refused_calls_writes_little_and_is_answered_little() {
    check(&format!(
        "let refused = 0;
         for (let i = 0; i < {CALLS}; i++) {{
             try {{ await (tools as any).company.delete_customer({{}}); }} catch {{ refused++; }}
         }}
         refused"
    ));
}

#[test]
fn a_flood_of_calls_under_names_made_up_writes_little_and_is_answered_little() {
    check(&format!(
        "let refused = 0;
         for (let i = 0; i < {CALLS}; i++) {{
             try {{ await (tools as any)['s' + i]['t'.repeat(40) + i]({{}}); }} catch {{ refused++; }}
         }}
         refused"
    ));
}

#[test]
fn a_session_that_wrote_all_it_may_goes_no_further_and_says_so() {
    let setting = setting();
    setting.write(
        "many.ts",
        "for (let i = 0; i < 500; i++) { try { await (tools as any).company['x' + i]({}); } catch {} }\n1",
    );
    let args = [
        "run",
        "many.ts",
        "--json",
        "--servers",
        "servers.json",
        "--set",
        "audit.session_bytes=16KiB",
    ];
    let done = setting.run(&args);
    assert_eq!(done.code, Some(125), "{done:?}");
    assert!(
        done.stdout.contains("limit.journal") || done.stderr.contains("limit.journal"),
        "{done:?}"
    );
    assert!(done.stderr.contains("audit.session_bytes"), "{done:?}");
    let verified = setting.run(&["audit", "verify"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

#[test]
fn a_journal_that_was_rolled_back_is_not_written_until_the_operator_accepts_that() {
    let setting = setting();
    setting.write("one.ts", "1");
    let run = || setting.run(&["run", "one.ts"]);
    assert_eq!(run().code, Some(0));
    let home = setting.home();
    let files = ["ringfence.db", "ringfence.db-wal", "ringfence.db-shm"];
    let older: Vec<Option<Vec<u8>>> = files.iter().map(|file| fs::read(home.join(file)).ok()).collect();
    assert_eq!(run().code, Some(0));
    for (file, bytes) in files.iter().zip(&older) {
        match bytes {
            Some(bytes) => fs::write(home.join(file), bytes).unwrap(),
            None => {
                let _ = fs::remove_file(home.join(file));
            }
        }
    }
    for _ in 0..2 {
        let refused = run();
        assert_eq!(refused.code, Some(125), "{refused:?}");
        assert!(refused.stderr.contains("records were lost"), "{refused:?}");
        assert!(refused.stderr.contains("ringfence audit accept-loss"), "{refused:?}");
    }
    let verified = setting.run(&["audit", "verify"]);
    assert_eq!(verified.code, Some(1), "{verified:?}");
    assert_eq!(
        setting.run(&["session", "stop", "--all"]).code,
        Some(0),
        "the kill switch works"
    );
    let accepted = setting.run(&["audit", "accept-loss"]);
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    assert!(accepted.stdout.contains("accepted: the mark"), "{accepted:?}");
    assert_eq!(run().code, Some(0));
    let tail = setting.run(&["audit", "tail", "-n", "50"]);
    assert!(tail.stdout.contains("loss_accepted"), "{tail:?}");
    assert_eq!(setting.run(&["audit", "verify"]).code, Some(0));
}

#[test]
fn a_journal_that_is_gone_is_said_to_be_gone_by_all_who_read_it() {
    let setting = setting();
    setting.write("one.ts", "1");
    let run = || setting.run(&["run", "one.ts"]);
    assert_eq!(run().code, Some(0));
    let home = setting.home();
    for file in ["ringfence.db", "ringfence.db-wal", "ringfence.db-shm"] {
        let _ = fs::remove_file(home.join(file));
    }
    let refused = run();
    assert_eq!(refused.code, Some(125), "{refused:?}");
    let reading: [&[&str]; 5] = [
        &["audit", "verify"],
        &["audit", "verify", "--json"],
        &["audit", "tail"],
        &["session", "list"],
        &["session", "list", "--json"],
    ];
    for args in reading {
        let done = setting.run(args);
        assert_eq!(done.code, Some(1), "{args:?} {done:?}");
        let said = format!("{}{}", done.stdout, done.stderr);
        for part in ["the journal is empty or gone", "ringfence audit accept-loss"] {
            assert!(said.contains(part), "{args:?} {done:?}");
        }
        assert!(!said.contains("ringfence demo"), "{args:?} {done:?}");
        assert!(!home.join("ringfence.db").exists(), "{args:?} made a new one");
    }
    assert_eq!(setting.run(&["audit", "accept-loss"]).code, Some(0));
    assert_eq!(run().code, Some(0));
    assert_eq!(setting.run(&["audit", "verify"]).code, Some(0));
}

#[test]
fn a_loss_that_was_accepted_is_said_by_every_later_check() {
    let setting = setting();
    setting.write("one.ts", "1");
    let run = || setting.run(&["run", "one.ts"]);
    assert_eq!(run().code, Some(0));
    let verified = setting.run(&["audit", "verify"]);
    assert!(!verified.stdout.contains("losses accepted"), "{verified:?}");
    for accepted in 1..=2 {
        for file in ["ringfence.db", "ringfence.db-wal", "ringfence.db-shm"] {
            let _ = fs::remove_file(setting.home().join(file));
        }
        assert_eq!(setting.run(&["audit", "accept-loss"]).code, Some(0), "{accepted}");
        assert_eq!(run().code, Some(0));
    }
    let verified = setting.run(&["audit", "verify"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
    // The first record went with the database that was lost next.
    for part in ["losses accepted, as signed records say: 1", "operator, local:"] {
        assert!(verified.stdout.contains(part), "{part}: {verified:?}");
    }
    let verified = setting.json(&["audit", "verify", "--json"]);
    assert_eq!(verified["accepted_losses"], 1, "{verified}");
    assert_eq!(verified["losses"][0]["cause"], "operator", "{verified}");
    assert_eq!(verified["losses"][0]["found"], 0, "{verified}");
}

#[test]
fn what_is_pruned_is_said_and_the_rest_verifies() {
    let setting = setting();
    setting.write("one.ts", "1");
    assert_eq!(setting.run(&["run", "one.ts"]).code, Some(0));
    let kept = setting.json(&["audit", "prune", "--json"]);
    assert_eq!(kept["sessions"], 0, "ninety days are not over");
    let pruned = setting.json(&["audit", "prune", "--keep", "1ms", "--json"]);
    assert_eq!(pruned["sessions"], 1, "{pruned}");
    let verified = setting.run(&["audit", "verify"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
    assert!(
        verified.stdout.contains("removed since, as signed records say"),
        "{verified:?}"
    );
    let tail = setting.run(&["audit", "tail"]);
    assert!(tail.stdout.contains("journal_pruned"), "{tail:?}");
}
