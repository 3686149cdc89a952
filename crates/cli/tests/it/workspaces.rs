//! Files that outlive their process: only their owner finds them again, their quota holds, one process uses them at a
//! time, and they are removed on time.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use ringfence_store::{Lease, Store};
use serde_json::{Value, json};

use crate::durable::world::{World, wait as block};
use crate::setting::{Done, Running, Setting, eventually, wait};

const KEPT: &str = "{ path: /workspace, access: rw, quota: 2MiB, keep: true, keep_for: 1h }";

/// A setting with a policy whose workspace is kept.
fn keeping(mount: &str) -> Setting {
    let setting = Setting::new();
    fs::set_permissions(setting.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let policy = format!("version: 1\nfs: {{ mounts: [{mount}, {{ path: /tmp, access: rw, quota: 1MiB }}] }}\n");
    setting.write("kept.yaml", policy);
    setting
}

fn args<'a>(session: &'a str, script: &'a str) -> Vec<&'a str> {
    let mut args = vec!["exec", "--policy", "kept.yaml"];
    if !session.is_empty() {
        args.extend(["--session", session]);
    }
    args.extend(["--", "sh", "-c", script]);
    args
}

fn run(setting: &Setting, session: &str, script: &str) -> Done {
    setting.run(&args(session, script))
}

fn json_of(setting: &Setting, session: &str, script: &str) -> Value {
    let mut args = args(session, script);
    args.insert(1, "--json");
    setting.json(&args)
}

/// A program that stays in the session until it is killed; it runs when this returns.
fn holding(setting: &Setting, session: &str) -> Running {
    let child = setting.start(&args(session, "echo held > held; exec sleep 60"));
    let workspaces = setting.home().join("workspaces");
    eventually("it runs in the session", || {
        let mut found = fs::read_dir(&workspaces).ok()?.flatten();
        found
            .any(|one| one.path().join("workspace/held").exists())
            .then_some(())
    });
    child
}

fn sessions(setting: &Setting) -> Vec<Value> {
    let list = setting.json(&["session", "list", "--json"]);
    list.as_array().unwrap().clone()
}

/// The one session that keeps files.
#[track_caller]
fn the_kept(setting: &Setting) -> Value {
    let kept: Vec<Value> = sessions(setting)
        .into_iter()
        .filter(|one| !one["workspace"].is_null())
        .collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    kept[0].clone()
}

fn kinds(setting: &Setting, id: &str) -> Vec<String> {
    let shown = setting.run(&["audit", "show", id, "--json"]);
    let records = shown
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    records
        .map(|record| record["event"]["kind"].as_str().unwrap().to_owned())
        .collect()
}

/// As if the session had not been used for so long.
fn age(setting: &Setting, id: &str, used: &str) {
    let database = rusqlite::Connection::open(setting.home().join("ringfence.db")).unwrap();
    let changed = database
        .execute("UPDATE sessions SET used = ? WHERE id = ?", [used, id])
        .unwrap();
    assert_eq!(changed, 1);
}

#[test]
fn files_are_found_again_by_name_in_another_process() {
    let setting = keeping(KEPT);
    let first = run(
        &setting,
        "work",
        "echo one > a; mkdir d; echo two > d/b; ln -s a link; chmod 700 a; echo x > /tmp/t",
    );
    assert_eq!(first.code, Some(0), "{first:?}");
    let second = run(
        &setting,
        "work",
        "cat a d/b link; test -x a && echo program; ls /tmp; echo more >> a",
    );
    assert_eq!(
        (second.code, second.stdout.as_str()),
        (Some(0), "one\ntwo\none\nprogram\n"),
        "{second:?}"
    );
    let third = run(&setting, "work", "cat a");
    assert_eq!(third.stdout, "one\nmore\n", "{third:?}");
    let kept = the_kept(&setting);
    assert_eq!(
        (&kept["executions"], &kept["state"]),
        (&json!(3), &json!("open")),
        "one session, three runs"
    );
    assert_eq!(kept["workspace"]["name"], "work");
    assert_eq!(kept["workspace"]["files"], 4, "{kept}");
    let verified = setting.run(&["audit", "verify"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

#[test]
fn without_a_name_files_are_kept_under_the_id() {
    let setting = keeping(KEPT);
    let first = json_of(&setting, "", "echo one > a");
    let id = first["session_id"].as_str().unwrap();
    let second = json_of(&setting, id, "cat a");
    assert_eq!(
        (&second["stdout"], &second["session_id"]),
        (&json!("one\n"), &json!(id))
    );
    let shown = setting.run(&["session", "show", id]);
    assert!(shown.stdout.contains("kept until"), "{}", shown.stdout);
    let unknown = json_of(&setting, "s_00000000000000000000000000", "true");
    assert_eq!(unknown["error"]["code"], "session.unknown", "{unknown}");
}

#[test]
fn another_principal_finds_nothing() {
    let setting = keeping(KEPT);
    let mine = json_of(&setting, "work", "echo secret > a");
    let id = mine["session_id"].as_str().unwrap();
    let database = rusqlite::Connection::open(setting.home().join("ringfence.db")).unwrap();
    for table in ["sessions", "workspaces"] {
        database
            .execute(&format!("UPDATE {table} SET principal = 'local:4711'"), [])
            .unwrap();
    }
    drop(database);
    let by_id = json_of(&setting, id, "cat a");
    assert_eq!(by_id["error"]["code"], "session.unknown", "{by_id}");
    let by_name = json_of(&setting, "work", "ls");
    assert_eq!(
        (&by_name["status"], &by_name["stdout"]),
        (&json!("completed"), &json!(""))
    );
    assert_ne!(by_name["session_id"], mine["session_id"]);
}

#[test]
fn what_is_there_counts_against_the_quota_from_the_start() {
    let setting = keeping(KEPT);
    let fill = |name: &str| format!("head -c 1300000 /dev/urandom > {name}; sleep 2; echo survived");
    let first = run(&setting, "work", &fill("a").replace("sleep 2", "true"));
    assert_eq!(first.stdout, "survived\n", "{first:?}");
    let second = json_of(&setting, "work", &fill("b"));
    assert_eq!(
        (&second["error"]["code"], &second["exit_code"]),
        (&json!("limit.disk"), &json!(137)),
        "{second}"
    );
    let by = second["enforcement"].as_array().unwrap();
    assert!(
        by.contains(&json!({ "rule": "fs.mounts.quota", "by": "watch" })),
        "{by:?}"
    );
    // Above the quota it may shrink, and not grow.
    let third = json_of(
        &setting,
        "work",
        "echo more > c; head -c 100000 /dev/urandom > d; sleep 2",
    );
    assert_eq!(third["error"]["code"], "limit.disk", "{third}");
    let fourth = run(&setting, "work", "rm -f a b; sleep 0.3; echo x > c; ls");
    assert_eq!(fourth.code, Some(0), "{fourth:?}");
}

#[test]
fn the_number_of_files_is_limited_too() {
    let setting = keeping(KEPT);
    let many = |from: u32| {
        format!(
            "i={from}; while [ $i -lt {} ]; do : > f$i; i=$((i+1)); done; sleep 2",
            from + 400
        )
    };
    let first = run(&setting, "work", &many(0).replace("sleep 2", "true"));
    assert_eq!(first.code, Some(0), "{first:?}");
    let second = json_of(&setting, "work", &many(1000));
    assert_eq!(second["error"]["code"], "limit.inodes", "{second}");
}

#[test]
fn a_place_that_is_cleaned_is_empty_after_a_run_that_completed_and_only_then() {
    let setting = keeping("{ path: /workspace, access: rw, quota: 2MiB, keep: true, clean: on_complete }");
    let failed = run(&setting, "work", "mkdir -p a/b; echo left > a/b/c; exit 3");
    assert_eq!(failed.code, Some(3), "{failed:?}");
    let completed = run(&setting, "work", "cat a/b/c; ln -s /etc out");
    assert_eq!(
        (completed.code, completed.stdout.as_str()),
        (Some(0), "left\n"),
        "{completed:?}"
    );
    let after = json_of(&setting, "work", "ls -A");
    assert_eq!(after["stdout"], "", "{after}");
    let id = after["session_id"].as_str().unwrap();
    assert!(
        kinds(&setting, id).contains(&"workspace_removed".to_owned()),
        "{:?}",
        kinds(&setting, id)
    );
    assert!(fs::exists("/etc/passwd").unwrap());
}

#[test]
fn a_second_process_is_refused_at_once_and_told_who_and_since_when() {
    let setting = keeping(KEPT);
    let mut holder = holding(&setting, "work");
    let refused = json_of(&setting, "work", "true");
    let error = &refused["error"];
    assert_eq!(
        (&error["code"], &refused["exit_code"]),
        (&json!("session.busy"), &json!(126)),
        "{refused}"
    );
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(&format!("process {}", holder.id())), "{message}");
    assert!(message.contains("since 20"), "{message}");
    assert!(error["hint"].as_str().unwrap().contains("session stop"), "{error}");
    // Its death frees what it had, and what it left is there.
    holder.kill().unwrap();
    holder.wait().unwrap();
    let next = run(&setting, "work", "cat held");
    assert_eq!((next.code, next.stdout.as_str()), (Some(0), "held\n"), "{next:?}");
    let kept = the_kept(&setting);
    let shown = setting.json(&["session", "show", kept["id"].as_str().unwrap(), "--json"]);
    let statuses: Vec<&Value> = shown["executions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["status"])
        .collect();
    assert_eq!(statuses, [&json!("lost"), &json!("completed")], "{shown}");
}

#[test]
fn of_two_that_open_a_name_at_once_one_gets_it() {
    let setting = keeping(KEPT);
    let script = "echo $$ >> who; sleep 1; wc -l < who";
    let both: Vec<Running> = (0..2).map(|_| setting.start(&args("work", script))).collect();
    let codes: Vec<Option<i32>> = both
        .into_iter()
        .map(|child| wait(child, Duration::from_mins(1)).status.code())
        .collect();
    assert!(codes.contains(&Some(0)), "{codes:?}");
    assert!(codes.iter().all(|code| matches!(code, Some(0 | 126))), "{codes:?}");
    let kept = the_kept(&setting);
    let won = codes.iter().filter(|code| **code == Some(0)).count();
    assert_eq!(kept["executions"], json!(won), "{kept}");
}

#[test]
fn stop_leaves_the_files_and_rm_removes_them() {
    let setting = keeping(KEPT);
    let holder = holding(&setting, "work");
    let stopped = setting.run(&["session", "stop", "work"]);
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    assert!(stopped.stdout.contains("stopped"), "{stopped:?}");
    let ended = wait(holder, Duration::from_secs(30));
    assert_eq!(ended.status.code(), Some(130));
    let after = run(&setting, "work", "cat held");
    assert_eq!(after.stdout, "held\n", "{after:?}");
    let id = the_kept(&setting)["id"].as_str().unwrap().to_owned();
    let removed = setting.run(&["session", "rm", "work"]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    for folder in ["workspaces", "trash"] {
        assert_eq!(
            fs::read_dir(setting.home().join(folder)).unwrap().count(),
            0,
            "{folder}"
        );
    }
    let events = kinds(&setting, &id);
    assert_eq!(
        events[events.len() - 2..],
        ["workspace_removed", "session_closed"],
        "{events:?}"
    );
    let anew = run(&setting, "work", "ls -A");
    assert_eq!(anew.stdout, "", "{anew:?}");
}

#[test]
fn what_is_past_its_time_is_swept_and_that_is_written_down() {
    let setting = keeping(KEPT);
    let old = json_of(&setting, "old", "echo one > a")["session_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let new = json_of(&setting, "new", "echo two > a")["session_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let hours = |hours: i64| (jiff::Timestamp::now() - jiff::SignedDuration::from_hours(hours)).to_string();
    age(&setting, &old, &hours(2));
    // The start of any command cleans up.
    assert_eq!(run(&setting, "new", "cat a").stdout, "two\n");
    let events = kinds(&setting, &old);
    assert_eq!(
        events[events.len() - 2..],
        ["workspace_removed", "session_closed"],
        "{events:?}"
    );
    let left: Vec<_> = fs::read_dir(setting.home().join("workspaces"))
        .unwrap()
        .flatten()
        .collect();
    assert_eq!(left.len(), 1);
    assert!(left[0].path().ends_with(&new));
    assert_eq!(run(&setting, "old", "ls -A").stdout, "");
}

#[test]
fn a_hostile_workspace_hurts_nobody() {
    let setting = keeping(KEPT);
    let outside = setting.write("precious", "stays");
    let script = format!(
        "ln -s {0} link; ln -s / root; mkfifo pipe; mkdir -p shut/in; : > shut/in/f; chmod 0 shut/in shut; \
         truncate -s 1G holes 2>/dev/null; : > \"$(printf 'no \\377 text')\"; echo x > one; ln one two; \
         d=; i=0; while [ $i -lt 120 ]; do mkdir d && cd d; i=$((i+1)); done; chmod 0 .; echo done",
        outside.display()
    );
    let first = run(&setting, "work", &script);
    // Who is not root cannot look into a folder that is shut: what cannot be counted is too much.
    let is_uncounted = first.code == Some(137) && !rustix::process::geteuid().is_root();
    assert!(first.stdout.contains("done") || is_uncounted, "{first:?}");
    let again = json_of(&setting, "work", "cat link; ls root/ >/dev/null && echo inside; ls");
    assert!(
        !again["stdout"].as_str().unwrap_or_default().contains("stays"),
        "{again}"
    );
    let listed = sessions(&setting);
    assert_eq!(listed.len(), 1, "{listed:?}");
    let removed = setting.run(&["session", "rm", "work"]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    assert_eq!(fs::read_dir(setting.home().join("workspaces")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(setting.home().join("trash")).unwrap().count(), 0);
    assert_eq!(fs::read_to_string(outside).unwrap(), "stays");
}

#[test]
fn a_quota_that_is_watched_is_refused_where_only_hard_ones_will_do() {
    let setting = keeping(KEPT);
    let mut args = args("work", "true");
    args.splice(1..1, ["--require-hard", "--json"]);
    let refused = setting.json(&args);
    assert_eq!(refused["error"]["code"], "policy.soft", "{refused}");
    assert_eq!(refused["error"]["rule"], "fs.mounts.quota", "{refused}");
    assert_eq!(sessions(&setting)[0]["workspace"], Value::Null);
}

#[test]
fn the_place_of_a_session_cannot_be_asked_otherwise_later() {
    let setting = keeping(KEPT);
    run(&setting, "work", "echo one > a");
    let mut other = args("work", "cat a");
    other.splice(1..1, ["--json", "--set", "proc.fork_limit=3"]);
    let refused = setting.json(&other);
    assert_eq!(
        (&refused["error"]["code"], &refused["error"]["rule"]),
        (&json!("session.fixed"), &json!("proc"))
    );
    let mut rules = args("work", "cat a");
    rules.splice(1..1, ["--json", "--timeout", "10s", "--set", "tools.max_calls=3"]);
    let allowed = setting.json(&rules);
    assert_eq!(allowed["stdout"], "one\n", "{allowed}");
    let id = allowed["session_id"].as_str().unwrap();
    assert!(kinds(&setting, id).contains(&"policy_changed".to_owned()));
}

/// Reads are allowed, sends need an approval, and the workspace is kept.
const ASKING: &str = "
version: 1
fs: { mounts: [{ path: /workspace, access: rw, quota: 4MiB, keep: true }, { path: /tmp, access: rw, quota: 1MiB }] }
tools:
  rules:
    - { allow: 'log.*' }
    - { ask: log.send }
approvals: { timeout: 10m, by: [inbox] }
";

/// A program that writes to the workspace, waits for an approval, and prints what it finds afterwards.
const WAITS: &str = r#"
const before = await files.list();
await files.write("mine", "attempt");
const sent = await tools.log.send({ text: "it" });
const seen = await files.list();
[before.length, seen.length, sent]
"#;

#[test]
fn a_server_keeps_files_for_the_next_one_and_shows_them() {
    let world = World::under(ASKING);
    let ask = |code: &str| json!({ "language": "shell", "code": code, "session_id": "work" });
    let server = world.serve();
    let first = server.begin_with(&ask("echo one > a"));
    assert_eq!(server.ended(&first)["status"], "completed");
    assert_eq!(server.end(), Some(0));
    let server = world.serve();
    let second = server.begin_with(&ask("cat a"));
    let ended = server.ended(&second);
    assert_eq!(
        (&ended["stdout"], second.session.as_str()),
        (&json!("one\n"), first.session.as_str())
    );
    let (status, session) = server.ask("GET", &format!("/api/v1/sessions/{}", first.session), None);
    assert_eq!(status, 200, "{session}");
    assert_eq!(session["workspace"]["files"], 1, "{session}");
    assert!(session["workspace"]["kept_until"].is_string(), "{session}");
    // Another principal's does not exist: it gets one of its own.
    let (_, other) = server.ask_operator("POST", "/api/v1/runs?wait=10", Some(&ask("ls -A")));
    assert_eq!(other["stdout"], "", "{other}");
    assert_ne!(other["session_id"], json!(first.session));
    let (status, _) = server.ask("DELETE", &format!("/api/v1/sessions/{}/workspace", first.session), None);
    assert_eq!(status, 409, "it is in use here");
    server.ask("DELETE", &format!("/api/v1/sessions/{}", first.session), None);
    let gone = eventually("it can be removed", || {
        let (status, gone) = server.ask("DELETE", &format!("/api/v1/sessions/{}/workspace", first.session), None);
        (status == 200).then_some(gone)
    });
    assert_eq!(gone["state"], "closed");
    world.verified();
}

#[test]
fn one_that_waits_for_a_person_goes_on_with_the_files_that_it_began_with() {
    let world = World::under(ASKING);
    let server = world.serve();
    let ask = |language: &str, code: &str| json!({ "language": language, "code": code, "session_id": "work" });
    let first = server.begin_with(&ask("shell", "echo one > a"));
    server.ended(&first);
    let waiting = server.begin_with(&ask("typescript", WAITS));
    world.suspended(&waiting);
    server.kill();
    // No other run may use the session meanwhile, because the waiting run would not find its files.
    let server = world.serve();
    let (_, refused) = server.ask("POST", "/api/v1/runs?wait=10", Some(&ask("shell", "rm a")));
    assert_eq!(refused["error"]["code"], "session.busy", "{refused}");
    world.answer(world.pending(1)[0].id, true).unwrap();
    let ended = server.ended(&waiting);
    assert_eq!(ended["value"], json!([1, 2, "it"]), "{ended}");
    let after = server.begin_with(&ask("shell", "cat a mine; ls | wc -l"));
    assert_eq!(server.ended(&after)["stdout"], "one\nattempt2\n");
    world.nothing_twice();
    world.verified();
}

#[test]
fn what_cannot_be_put_back_keeps_its_sandbox_while_it_waits() {
    let world = World::under(ASKING);
    let server = world.serve();
    let ask = |language: &str, code: &str| json!({ "language": language, "code": code, "session_id": "work" });
    let first = server.begin_with(&ask("shell", "echo 'echo program' > tool; chmod 755 tool; mkdir empty"));
    server.ended(&first);
    let waiting = server.begin_with(&ask("typescript", WAITS));
    let question = world.pending(1)[0].id;
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(
        world.standing(&waiting).map(|standing| standing.state),
        None,
        "nothing is kept to run it again"
    );
    world.answer(question, true).unwrap();
    assert_eq!(server.ended(&waiting)["status"], "completed");
    let after = server.begin_with(&ask("shell", "./tool; ls -d empty"));
    assert_eq!(server.ended(&after)["stdout"], "program\nempty\n");
}

#[test]
fn stopping_a_session_gives_up_what_waits_in_it_and_leaves_its_files() {
    let world = World::under(ASKING);
    let server = world.serve();
    let ask = |language: &str, code: &str| json!({ "language": language, "code": code, "session_id": "work" });
    let waiting = server.begin_with(&ask("typescript", WAITS));
    world.suspended(&waiting);
    assert_eq!(server.end(), Some(0));
    let stopped = world.setting.run(&["session", "stop", &waiting.session]);
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    assert_eq!(
        world
            .questions(Some(ringfence_engine::approvals::ApprovalState::Pending))
            .len(),
        0
    );
    let server = world.serve();
    let after = server.begin_with(&ask("shell", "cat mine"));
    assert_eq!(server.ended(&after)["stdout"], "attempt");
    assert_eq!(world.calls_of("send"), 0);
    world.verified();
}

#[test]
fn a_session_that_a_living_process_has_is_not_swept() {
    let setting = keeping(KEPT);
    let id = json_of(&setting, "work", "echo one > a")["session_id"]
        .as_str()
        .unwrap()
        .to_owned();
    block(async {
        let store = Store::open(&setting.home()).await.unwrap();
        let lease = Lease::acquire(&setting.home()).unwrap();
        store.enter_session(&lease, id.parse().unwrap()).await.unwrap();
        age(&setting, &id, "2020-01-01T00:00:00Z");
        let swept = run(&setting, "other", "true");
        assert_eq!(swept.code, Some(0), "{swept:?}");
        assert!(setting.home().join("workspaces").join(&id).join("workspace/a").exists());
        store.park_session(id.parse().unwrap()).await.unwrap();
        store.close().await;
    });
    run(&setting, "other", "true");
    assert!(!setting.home().join("workspaces").join(&id).exists());
}

#[test]
fn a_file_onto_what_is_no_file_of_a_kept_place_is_refused_with_its_rule() {
    let setting = keeping(KEPT);
    setting.write("data.txt", "new");
    let made = run(
        &setting,
        "work",
        "ln -s /etc/passwd link; mkfifo pipe; mkdir shut; chmod 500 shut",
    );
    assert_eq!(made.code, Some(0), "{made:?}");
    for name in ["link", "pipe", "shut/data.txt"] {
        let file = format!("data.txt:{name}");
        let mut args = args("work", "true");
        args.splice(1..1, ["--file", &file]);
        let done = setting.run(&args);
        assert_eq!(done.code, Some(126), "{name}: {done:?}");
        for part in [
            format!("cannot bring `{name}` into the sandbox"),
            "rule: fs.mounts[/workspace]".to_owned(),
            "hint: a link, a pipe or a closed folder stands in its way".to_owned(),
        ] {
            assert!(done.stderr.contains(&part), "{name}: {}", done.stderr);
        }
    }
}
