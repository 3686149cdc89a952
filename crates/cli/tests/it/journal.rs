//! The records of the journal, the cleanup after a crash, and the kill switch.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::setting::{Setting, eventually, finish, groups_with, processes_with, program, wait};

fn sessions(setting: &Setting) -> Vec<Value> {
    setting.json(&["session", "list", "--json"]).as_array().unwrap().clone()
}

/// The id of the one session that runs something now.
fn running(setting: &Setting, but: &[String]) -> String {
    eventually("a session runs something", || {
        let open = sessions(setting)
            .into_iter()
            .filter(|one| one["state"] == "open" && one["executions"] == 1);
        open.filter_map(|one| one["id"].as_str().map(str::to_owned))
            .find(|id| !but.contains(id))
    })
}

fn signal(pid: u32, name: &str) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let signal = match name {
        "INT" => rustix::process::Signal::INT,
        "TERM" => rustix::process::Signal::TERM,
        _ => rustix::process::Signal::KILL,
    };
    rustix::process::kill_process(pid, signal).unwrap();
}

#[test]
fn every_act_is_written_down_and_the_chains_hold() {
    let setting = Setting::new();
    setting.run(&["exec", "--", "true"]);
    let done = setting.run(&["audit", "export"]);
    let kinds: Vec<String> = done
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|record| kind(&record))
        .collect();
    assert_eq!(
        kinds,
        [
            "session_opened",
            "execution_started",
            "execution_ended",
            "session_closed"
        ]
    );
    let done = setting.run(&["audit", "verify"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(
        done.stdout.starts_with("unbroken: 4 records in 1 session,"),
        "{}",
        done.stdout
    );
    assert!(done.stdout.contains("this check cannot show:"), "{}", done.stdout);
    let tail = setting.run(&["audit", "tail", "-n", "1"]);
    assert!(tail.stdout.contains("session_closed    done"), "{}", tail.stdout);
    let id = sessions(&setting)[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(setting.run(&["audit", "show", &id, "--json"]).stdout.lines().count(), 4);
    let shown = setting.json(&["session", "show", &id, "--json"]);
    assert_eq!(
        (&shown["state"], &shown["executions"][0]["status"]),
        (&json!("closed"), &json!("completed"))
    );
}

fn kind(record: &Value) -> String {
    let event = match &record["event"] {
        Value::Object(_) => record["event"].clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => record.clone(),
    };
    event["kind"].as_str().unwrap_or_else(|| panic!("{record}")).to_owned()
}

#[test]
fn a_changed_record_is_named() {
    let setting = Setting::new();
    setting.run(&["exec", "--", "true"]);
    let sql = "UPDATE events SET json = replace(json, 'program', 'progrum') WHERE seq = 2;";
    let database = setting.home().join("ringfence.db");
    match Command::new("sqlite3").arg(&database).arg(sql).status() {
        Ok(status) => assert!(status.success()),
        Err(error) => return eprintln!("skipped: there is no sqlite3 to tamper with: {error}"),
    }
    let done = setting.run(&["audit", "verify"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stdout.starts_with("BROKEN: "), "{}", done.stdout);
    assert!(
        done.stdout.contains("record 2: its content does not match its hash"),
        "{}",
        done.stdout
    );
}

#[test]
fn what_a_dead_process_left_and_fits_nowhere_stops_no_start_and_is_told() {
    let setting = Setting::new();
    setting.run(&["exec", "--", "true"]);
    assert_eq!(setting.run(&["audit", "verify"]).code, Some(0));
    let lease = ringfence_journal::LeaseId::generate().unwrap();
    std::fs::create_dir(setting.home().join(format!("run/{lease}.ahead"))).unwrap();
    let done = setting.run(&["exec", "--", "true"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let aside = setting.home().join(format!("run/{lease}.rejected"));
    let done = setting.run(&["audit", "verify"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stdout.starts_with("unbroken: "), "{}", done.stdout);
    assert!(done.stderr.contains(aside.to_str().unwrap()), "{}", done.stderr);
    let verified = setting.json(&["audit", "verify", "--json"]);
    assert_eq!(
        (&verified["ok"], &verified["set_aside"]),
        (&json!(false), &json!([aside]))
    );
    let done = setting.run(&["doctor"]);
    assert!(done.stdout.contains("1 file of records put aside"), "{}", done.stdout);
    std::fs::remove_dir(aside).unwrap();
    assert_eq!(setting.run(&["audit", "verify"]).code, Some(0));
    assert!(!setting.run(&["doctor"]).stdout.contains("put aside"));
}

#[test]
fn a_refused_run_is_written_down_too() {
    let setting = Setting::new();
    let object = setting.json(&[
        "exec",
        "--json",
        "--set",
        "fs.mounts=[{path: /shared, access: rw, from: /tmp}]",
        "--",
        "true",
    ]);
    assert_eq!(
        (&object["status"], &object["error"]["rule"]),
        (&json!("refused"), &json!("fs.mounts[/shared].access"))
    );
    let done = setting.run(&["audit", "tail"]);
    assert!(
        done.stdout
            .contains("refused           policy.unbuilt by `fs.mounts[/shared].access`"),
        "{}",
        done.stdout
    );
}

#[test]
fn a_signal_cancels_and_the_end_is_written_down() {
    for name in ["INT", "TERM"] {
        let setting = Setting::new();
        let child = setting.start(&["exec", "--json", "--", "sleep", "60"]);
        let id = running(&setting, &[]);
        signal(child.id(), name);
        let output = wait(child, Duration::from_secs(10));
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        let object: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (&object["status"], &object["error"]["code"]),
            (&json!("cancelled"), &json!("cancelled"))
        );
        let shown = setting.json(&["session", "show", &id, "--json"]);
        assert_eq!(
            (&shown["state"], &shown["executions"][0]["status"]),
            (&json!("closed"), &json!("cancelled"))
        );
    }
}

#[test]
fn session_stop_kills_now() {
    let setting = Setting::new();
    let child = setting.start(&["exec", "--json", "--", "sleep", "60"]);
    let id = running(&setting, &[]);
    let done = setting.run(&["session", "stop", &id]);
    assert_eq!(
        (done.code, done.stdout),
        (Some(0), format!("{id}  stopped  (its process was told)\n"))
    );
    let output = wait(child, Duration::from_secs(10));
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let again = setting.run(&["session", "stop", &id]);
    assert_eq!((again.code, again.stdout), (Some(0), format!("{id}  already closed\n")));
}

#[test]
fn session_stop_all_stops_every_process() {
    let setting = Setting::new();
    let first = setting.start(&["exec", "--", "sleep", "60"]);
    let known = running(&setting, &[]);
    let second = setting.start(&["exec", "--", "sleep", "60"]);
    running(&setting, &[known]);
    let done = setting.run(&["session", "stop", "--all"]);
    assert_eq!(
        (done.code, done.stdout.matches("  stopped  ").count()),
        (Some(0), 2),
        "{done:?}"
    );
    for child in [first, second] {
        assert_eq!(wait(child, Duration::from_secs(10)).status.code(), Some(130));
    }
}

#[test]
fn after_a_kill_the_next_start_sweeps_and_a_neighbour_goes_on() {
    let setting = Setting::new();
    let mark = format!("{}", 200_000 + std::process::id());
    let neighbour = setting.start(&["exec", "--", "sleep", "8"]);
    let neighbour_id = running(&setting, &[]);
    let mut victim = setting.start(&["exec", "--", "sleep", &mark]);
    let id = running(&setting, std::slice::from_ref(&neighbour_id));
    let lease = sessions(&setting)
        .into_iter()
        .find(|one| one["id"] == json!(id))
        .unwrap()["lease"]
        .clone();
    let lease = lease.as_str().unwrap().to_owned();
    signal(victim.id(), "KILL");
    victim.wait().unwrap();
    eventually("the sandbox died with its process", || {
        processes_with(&format!("sleep\0{mark}")).is_empty().then_some(())
    });
    // The next start sweeps; what it runs does not matter.
    assert_eq!(setting.run(&["exec", "--", "true"]).code, Some(0));
    let shown = setting.json(&["session", "show", &id, "--json"]);
    assert_eq!(
        (&shown["state"], &shown["executions"][0]["status"]),
        (&json!("lost"), &json!("lost"))
    );
    assert_eq!(groups_with(&lease), Vec::<std::path::PathBuf>::new());
    let left: Vec<_> = fs::read_dir(setting.home().join("run"))
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert!(
        !left.iter().any(|name| name.to_string_lossy().contains(&lease)),
        "{left:?}"
    );
    assert!(setting.run(&["audit", "show", &id]).stdout.contains(" swept "));
    // The neighbour goes on to its own end.
    let shown = setting.json(&["session", "show", &neighbour_id, "--json"]);
    assert_ne!(shown["state"], json!("lost"));
    assert_eq!(wait(neighbour, Duration::from_secs(30)).status.code(), Some(0));
    assert_eq!(setting.run(&["audit", "verify"]).code, Some(0));
}

#[test]
fn a_sink_gets_every_record() {
    let setting = Setting::new();
    setting.write("ringfence.yaml", "audit: { sinks: [{ file: audit.jsonl }] }\n");
    assert_eq!(
        setting.run(&["exec", "--config", "ringfence.yaml", "--", "true"]).code,
        Some(0)
    );
    let lines = fs::read_to_string(setting.work().join("audit.jsonl")).unwrap();
    assert_eq!(lines, setting.run(&["audit", "export"]).stdout);
}

#[test]
fn what_a_full_disk_left_open_is_ended_by_the_next_command() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: needs root to mount a small disk");
        return;
    }
    let setting = Setting::new();
    setting.write("wait.ts", "await new Promise(done => setTimeout(done, 1500)); 1");
    setting.write("now.ts", "2");
    // A disk of its own in a mount namespace, which is gone with the shell.
    let script = r#"mount -t tmpfs -o size=4m,mode=700 none "$1" && export RINGFENCE_HOME="$1/home" || exit 1
        "$2" run wait.ts 2>/dev/null &
        until "$2" session list 2>/dev/null | grep -q running; do sleep 0.05; done
        cat /dev/zero > "$1/ballast" 2>/dev/null
        wait $!; echo "full: $?"; rm "$1/ballast"
        "$2" run now.ts 2>/dev/null
        "$2" session list --json"#;
    let disk = setting.path("disk");
    fs::create_dir(&disk).unwrap();
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh"]).arg(disk).arg(program());
    command.current_dir(setting.work()).stdout(Stdio::piped());
    let done = finish(command, &[]);
    let list = done
        .stdout
        .strip_prefix("full: 125\n2\n")
        .unwrap_or_else(|| panic!("{done:?}"));
    let list: Value = serde_json::from_str(list).unwrap();
    let states: Vec<_> = list.as_array().unwrap().iter().map(|one| &one["state"]).collect();
    assert_eq!(states, ["closed", "lost"], "{list}");
}
