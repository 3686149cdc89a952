//! Several processes on one home, and processes that are killed.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use ringfence_journal::{ExecutionId, Recorder as _, SessionId};
use ringfence_store::{Lease, Resource, Store};

use crate::support::{closed, opening, report, started, violation, world};

const JOB: &str = "RINGFENCE_STORE_TEST_JOB";
const HOME: &str = "RINGFENCE_STORE_TEST_HOME";

/// This test program again, doing one job on a home.
#[expect(clippy::disallowed_methods, reason = "the tests need a second process of their own")]
pub(crate) fn start(job: &str, home: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "process::the_other_process",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(JOB, job)
        .env(HOME, home)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The other process's lines, without the test harness's own.
pub(crate) fn lines(child: &mut Child) -> impl Iterator<Item = Vec<String>> + use<> {
    BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| {
            let at = line.find("job: ")?;
            Some(line[at + 5..].split(' ').map(str::to_owned).collect())
        })
}

fn say(words: &str) {
    // One write per line, past the test harness's capture: the parent reads them as they come.
    std::io::stdout()
        .write_all(format!("job: {words}\n").as_bytes())
        .unwrap();
}

/// Not a test of its own: without a job it does nothing.
#[expect(
    clippy::disallowed_methods,
    reason = "a child of these tests is told its job this way"
)]
#[tokio::test]
async fn the_other_process() {
    let (Ok(job), Ok(home)) = (std::env::var(JOB), std::env::var(HOME)) else {
        return;
    };
    let home = Path::new(&home);
    if job == "one run" {
        say(&crate::speed::one_run(home).await);
        return;
    }
    let store = Arc::new(Store::open(home).await.unwrap());
    let lease = Lease::acquire(home).unwrap();
    lease
        .note(Resource::Folder {
            path: "/nowhere/left".into(),
        })
        .unwrap();
    let session = SessionId::generate().unwrap();
    store.open_session(&lease, opening(session)).await.unwrap();
    match job.as_str() {
        "write" => {
            for _ in 0..100 {
                store.record(violation(session, "x")).await.unwrap();
            }
            store.record(closed(session)).await.unwrap();
            lease
                .forget(&Resource::Folder {
                    path: "/nowhere/left".into(),
                })
                .unwrap();
            store.close().await;
        }
        "write for ever" => {
            let execution = ExecutionId::generate().unwrap();
            store.record(started(session, execution)).await.unwrap();
            loop {
                let recorded = store.record(violation(session, "x")).await.unwrap();
                say(&format!("{session} {} {}", recorded.seq, recorded.hash));
            }
        }
        "write until full" => {
            let mut written = 1;
            let error = loop {
                match store.record(violation(session, &"x".repeat(4000))).await {
                    Ok(recorded) => written = recorded.seq,
                    Err(error) => break error,
                }
            };
            let found = report(&store).await;
            say(&format!(
                "{} {written} {} {}",
                error.code(),
                found.records,
                found.is_ok()
            ));
        }
        "stop" => {
            let mut stops = store.stops(&lease).unwrap();
            say(&format!("{session} ready"));
            let patience = std::time::Duration::from_secs(20);
            let stop = tokio::time::timeout(patience, stops.next()).await.unwrap().unwrap();
            store.record(closed(stop.session)).await.unwrap();
            say(&format!("{} stopped", stop.session));
        }
        other => panic!("no such job: {other}"),
    }
}

#[tokio::test]
async fn several_processes_write_one_journal_without_forking_it() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    // The home does not exist yet: they also race to make it.
    let children: Vec<Child> = (0..6).map(|_| start("write", &home)).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let store = Store::open(&home).await.unwrap();
    let report = report(&store).await;
    assert!(report.is_ok(), "{report:?}");
    assert_eq!((report.sessions, report.records, report.heads), (6, 6 * 102, 6));
    assert!(store.dead_leases().await.unwrap().is_empty());
}

#[tokio::test]
async fn what_was_acknowledged_survives_kill_9() {
    let world = world().await;
    for wanted in [1, 50, 300] {
        let mut child = start("write for ever", world.home());
        let mut acknowledged: HashMap<u64, String> = HashMap::new();
        let mut session = None;
        for line in lines(&mut child) {
            session = Some(line[0].parse::<SessionId>().unwrap());
            acknowledged.insert(line[1].parse().unwrap(), line[2].clone());
            if acknowledged.len() == wanted {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        let kept: HashMap<u64, String> = world
            .store
            .show(session.unwrap())
            .await
            .unwrap()
            .into_iter()
            .map(|record| (record.seq, record.hash.to_string()))
            .collect();
        assert!(acknowledged.len() >= wanted);
        for (seq, hash) in acknowledged {
            assert_eq!(kept.get(&seq), Some(&hash), "record {seq}");
        }
        assert!(report(&world.store).await.is_ok());
    }
}

#[expect(clippy::disallowed_methods, reason = "a small disk needs a mount of its own")]
#[test]
fn a_disk_that_is_really_full_refuses_events_and_keeps_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let mount = "mount -t tmpfs -o size=600k none \"$1\" && mkdir -m 700 \"$1/home\"";
    let unshare = |script: String| {
        let mut command = Command::new("unshare");
        command
            .args(["-rm", "sh", "-c"])
            .arg(script)
            .arg("sh")
            .arg(folder.path());
        command
            .env(JOB, "write until full")
            .env(HOME, folder.path().join("home"));
        command
    };
    if !unshare(mount.to_owned()).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: this machine does not let a user mount a tmpfs");
        return;
    }
    let again = format!(
        "{mount} && exec '{}' --exact process::the_other_process --nocapture",
        std::env::current_exe().unwrap().display()
    );
    let mut child = unshare(again).stdout(Stdio::piped()).spawn().unwrap();
    let said: Vec<_> = lines(&mut child).collect();
    let said = &said[0];
    assert!(child.wait().unwrap().success());
    assert_eq!(said[0], "store.full");
    assert!(said[1].parse::<u64>().unwrap() > 10, "{said:?}");
    assert_eq!((&said[1], said[3].as_str()), (&said[2], "true"), "{said:?}");
}
