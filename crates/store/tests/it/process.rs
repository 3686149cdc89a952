//! Several processes on one data folder, and processes that are killed.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use ringfence_journal::{ExecutionId, Recorder as _, ReplayEntryKind, ReplayRecorder as _, SessionId};
use ringfence_store::{Lease, LeasedResource, Store};

use crate::support::{call, closed, entry, opening, report, started, suspended, violation, world};

const JOB: &str = "RINGFENCE_STORE_TEST_JOB";
const HOME: &str = "RINGFENCE_STORE_TEST_HOME";

/// Runs this test program again for one job on a data folder.
#[expect(clippy::disallowed_methods, reason = "the tests need a second process of their own")]
pub(crate) fn start(job: &str, home: &Path) -> Running {
    let child = Command::new(std::env::current_exe().unwrap())
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
        .unwrap();
    Running(child)
}

/// The other process; killed and reaped when dropped.
pub(crate) struct Running(Child);

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A process that was waited for is not signalled.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lines of the other process, without those of the test harness.
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
    // One write per line, past the capture of the test harness: the parent reads the lines at once.
    std::io::stdout()
        .write_all(format!("job: {words}\n").as_bytes())
        .unwrap();
}

/// The job entry of the other process; without a job it does nothing.
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
        .note_resource(LeasedResource::Folder {
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
                .forget_resource(&LeasedResource::Folder {
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
            std::fs::write(home.join("ballast"), vec![1; 100_000]).unwrap();
            let mut written = 1;
            let error = loop {
                match store.record(violation(session, &"x".repeat(4000))).await {
                    Ok(recorded) => written = recorded.seq,
                    Err(error) => break error,
                }
            };
            // Once there is space again, the database has everything that was answered.
            std::fs::remove_file(home.join("ballast")).unwrap();
            let found = report(&store).await;
            say(&format!(
                "{} {written} {} {}",
                error.code(),
                found.records,
                found.is_ok()
            ));
        }
        "write ahead until full" => ahead_until_full(&store, lease, session).await,
        "stop" => {
            let mut stops = store.listen_for_stops(&lease).unwrap();
            say(&format!("{session} ready"));
            let patience = std::time::Duration::from_secs(20);
            let stop = tokio::time::timeout(patience, stops.next()).await.unwrap().unwrap();
            store.record(closed(stop.session)).await.unwrap();
            say(&format!("{} stopped", stop.session));
        }
        "ask and wait" | "ask and suspend" | "keep for ever" | "keep until full" => {
            recorded(&job, &store, session).await;
        }
        other => panic!("no such job: {other}"),
    }
}

/// Three records in one write; the disk takes one and a half of them.
async fn ahead_until_full(store: &Store, lease: Lease, session: SessionId) {
    let ballast = store.home().join("ballast");
    let mut file = std::fs::File::create(&ballast).unwrap();
    let mut pages = 0;
    while file.write_all(&[1; 4096]).is_ok() {
        pages += 1;
    }
    file.set_len(4096 * (pages - 1)).unwrap();
    let record = || store.record(violation(session, &"x".repeat(2000)));
    let (one, two, three) = tokio::join!(record(), record(), record());
    let codes = [one, two, three].map(|outcome| outcome.unwrap_err().code());
    assert_eq!(codes, ["store.full"; 3]);
    let ahead = store.home().join(format!("run/{}.ahead", lease.id()));
    let length = std::fs::metadata(ahead).unwrap().len();
    std::fs::remove_file(ballast).unwrap();
    // A process that finds this one dead sees nothing of the refused records.
    drop(lease);
    let next = Store::open(store.home()).await.unwrap();
    say(&format!(
        "{length} {}",
        next.session_records(session).await.unwrap().len()
    ));
}

/// Jobs with a recorded execution.
async fn recorded(job: &str, store: &Store, session: SessionId) {
    let execution = crate::recordings::begin_in(store, session).await;
    if job == "keep for ever" {
        for number in 1.. {
            let entries = vec![entry(number, ReplayEntryKind::Answer, &number.to_string())];
            store
                .record_with_entries(call(session, execution, number.into()), entries)
                .await
                .unwrap();
            say(&format!("{session} {execution} {number}"));
        }
    }
    if job == "keep until full" {
        let ballast = store.home().join("ballast");
        std::fs::write(&ballast, vec![1; 100_000]).unwrap();
        let mut kept = 0;
        let error = loop {
            let entries = vec![entry(1, ReplayEntryKind::Answer, &"x".repeat(4000))];
            match store.record_with_entries(call(session, execution, 1), entries).await {
                Ok(_) => kept += 1,
                Err(error) => break error,
            }
        };
        std::fs::remove_file(ballast).unwrap();
        let found = store.recording(execution).await.unwrap().unwrap().entries.len();
        let events = store.session_records(session).await.unwrap().len() - 2;
        assert_eq!(found, events);
        let whole = report(store).await.is_ok();
        return say(&format!("{} {kept} {found} {whole}", error.code()));
    }
    let hour = jiff::SignedDuration::from_hours(1);
    let question = crate::approvals::ask(store, session, execution, hour).await;
    if job == "ask and suspend" {
        let event = suspended(session, execution);
        store.suspend(event, None, Vec::new()).await.unwrap();
    }
    say(&format!("{session} {execution} {}", question.id));
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn several_processes_write_one_journal_without_forking_it() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    // The data folder does not exist yet: the processes also race to create it.
    let children: Vec<Running> = (0..6).map(|_| start("write", &home)).collect();
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
        // The next process that opens the journal finds all of it.
        let next = Store::open(world.home()).await.unwrap();
        let kept: HashMap<u64, String> = next
            .session_records(session.unwrap())
            .await
            .unwrap()
            .into_iter()
            .map(|record| (record.seq, record.hash.to_string()))
            .collect();
        assert!(acknowledged.len() >= wanted);
        for (seq, hash) in acknowledged {
            assert_eq!(kept.get(&seq), Some(&hash), "record {seq}");
        }
        assert!(report(&next).await.is_ok());
    }
}

/// The output of a job on a small disk; `None` if this machine has no such disk.
#[expect(clippy::disallowed_methods, reason = "a small disk needs a mount of its own")]
fn on_a_small_disk(job: &str) -> Option<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let mount = "mount -t tmpfs -o size=600k none \"$1\" && mkdir -m 700 \"$1/home\"";
    let unshare = |script: String| {
        let mut command = Command::new("unshare");
        command
            .args(["-rm", "sh", "-c"])
            .arg(script)
            .arg("sh")
            .arg(folder.path());
        command.env(JOB, job).env(HOME, folder.path().join("home"));
        command
    };
    if !unshare(mount.to_owned()).status().is_ok_and(|status| status.success()) {
        return None;
    }
    let again = format!(
        "{mount} && exec '{}' --exact process::the_other_process --nocapture",
        std::env::current_exe().unwrap().display()
    );
    let mut child = Running(unshare(again).stdout(Stdio::piped()).spawn().unwrap());
    // Read to the end: the process also writes at its exit.
    let said: Vec<_> = lines(&mut child).collect();
    assert!(child.wait().unwrap().success());
    Some(said.into_iter().next().unwrap())
}

#[test]
fn a_disk_that_is_really_full_refuses_events_and_keeps_the_rest() {
    for job in ["write until full", "keep until full"] {
        let Some(said) = on_a_small_disk(job) else {
            eprintln!("skipped: this machine does not let a user mount a tmpfs");
            return;
        };
        assert_eq!(said[0], "store.full");
        assert!(said[1].parse::<u64>().unwrap() > 10, "{said:?}");
        assert_eq!((&said[1], said[3].as_str()), (&said[2], "true"), "{said:?}");
    }
}

#[test]
fn of_what_the_disk_takes_in_part_nothing_is_found() {
    let Some(said) = on_a_small_disk("write ahead until full") else {
        eprintln!("skipped: this machine does not let a user mount a tmpfs");
        return;
    };
    assert_eq!(said, ["0", "1"]);
}
