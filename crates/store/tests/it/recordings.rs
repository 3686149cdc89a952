//! Recordings of executions.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use ringfence_journal::{
    Event, EventKind, ExecutionId, ExecutionStatus, Recorder as _, ReplayEntry, ReplayEntryKind, ReplayRecorder as _,
    SessionId, SessionState,
};
use ringfence_store::{
    AdoptError, Lease, NewRecording, NewSession, RecordingRetention, RecordingState, StopOwner, StopTarget, Store,
};

use crate::process::{lines, start};
use crate::support::{World, call, closed, ended, entry, opening, report, started, suspended, violation, world};

pub(crate) async fn begin(world: &World) -> (SessionId, ExecutionId) {
    let session = world.session().await;
    (session, begin_in(&world.store, session).await)
}

pub(crate) async fn begin_in(store: &Store, session: SessionId) -> ExecutionId {
    let execution = ExecutionId::generate().unwrap();
    let recording = NewRecording {
        execution,
        session,
        request: b"the request of the program".to_vec(),
        stays: None,
    };
    store
        .record_start_with_recording(started(session, execution), recording)
        .await
        .unwrap();
    execution
}

#[tokio::test]
async fn what_an_execution_met_is_kept_in_the_order_of_commits() {
    let world = world().await;
    let (session, execution) = begin(&world).await;
    let pieces = [
        vec![
            entry(1, ReplayEntryKind::Call, "one"),
            entry(1, ReplayEntryKind::Trace, ""),
        ],
        vec![entry(2, ReplayEntryKind::Trace, &"x".repeat(10_000))],
        vec![entry(1, ReplayEntryKind::Answer, "two")],
    ];
    for (number, piece) in (1..).zip(&pieces) {
        let recorded = world
            .store
            .record_with_entries(call(session, execution, number), piece.clone());
        assert_eq!(recorded.await.unwrap().seq, number + 2);
    }
    let alone = vec![entry(3, ReplayEntryKind::Call, "three")];
    world
        .store
        .keep_entries(session, execution, alone.clone())
        .await
        .unwrap();
    assert_eq!(
        world.store.recording_bytes(execution).await.unwrap(),
        3 + 10_000 + 3 + 5
    );
    let last = vec![entry(4, ReplayEntryKind::Trace, "last")];
    let end = ended(session, execution);
    world
        .store
        .record_end_with_outcome(end, b"42".to_vec(), last.clone())
        .await
        .unwrap();

    let kept = world.store.recording(execution).await.unwrap().unwrap();
    let all: Vec<ReplayEntry> = pieces.into_iter().flatten().chain(alone).chain(last).collect();
    assert_eq!(kept.entries, all);
    assert_eq!(kept.request, b"the request of the program");
    assert_eq!(kept.outcome.as_deref(), Some(&b"42"[..]));
    assert_eq!(
        (kept.standing.state, kept.standing.bytes),
        (RecordingState::Over, 10_015)
    );
    let report = report(&world.store).await;
    assert!(report.is_ok(), "{report:?}");
    assert_eq!(report.records, 6);
    let nobody = ExecutionId::generate().unwrap();
    assert_eq!(world.store.recording(nobody).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_of_many_executions_at_once_stay_with_their_own() {
    let world = world().await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (session, execution) = begin(&world).await;
        let store = Arc::clone(&world.store);
        tasks.spawn(async move {
            for number in 0..40_u32 {
                let bytes = format!("{execution} {number}");
                let entry = vec![entry(number, ReplayEntryKind::Answer, &bytes)];
                store
                    .record_with_entries(call(session, execution, 1), entry)
                    .await
                    .unwrap();
            }
            execution
        });
    }
    while let Some(execution) = tasks.join_next().await {
        let execution = execution.unwrap();
        let kept = world.store.recording(execution).await.unwrap().unwrap();
        let numbers: Vec<u32> = kept.entries.iter().map(|entry| entry.number).collect();
        assert_eq!(numbers, (0..40).collect::<Vec<u32>>());
        let own = execution.to_string();
        assert!(kept.entries.iter().all(|entry| entry.bytes.starts_with(own.as_bytes())));
    }
    assert!(report(&world.store).await.is_ok());
}

#[tokio::test]
async fn what_cannot_be_kept_leaves_no_event_and_says_why() {
    let world = world().await;
    let (session, execution) = begin(&world).await;
    let (other, _) = begin(&world).await;
    let one = || vec![entry(1, ReplayEntryKind::Call, "x")];
    let before = world.store.last_record_number().await.unwrap();

    let stranger = ExecutionId::generate().unwrap();
    let error = world
        .store
        .record_with_entries(call(session, stranger, 1), one())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "store.keep");
    let error = world
        .store
        .record_with_entries(call(other, execution, 1), one())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "store.keep");
    let again = NewRecording {
        execution,
        session,
        request: Vec::new(),
        stays: None,
    };
    let error = world.store.begin_recording(again).await.unwrap_err();
    assert_eq!(error.code(), "store.keep");
    let error = world.store.forget_recordings(session).await.unwrap_err();
    assert_eq!(error.code(), "store.keep");

    let second = Store::open(world.home()).await.unwrap();
    let error = second.keep_entries(session, execution, one()).await.unwrap_err();
    assert_eq!(error.code(), "session.not_owned");
    let error = second
        .record_with_entries(call(session, execution, 1), one())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "session.not_owned");

    assert_eq!(world.store.last_record_number().await.unwrap(), before);
    assert!(
        world
            .store
            .recording(execution)
            .await
            .unwrap()
            .unwrap()
            .entries
            .is_empty()
    );
    // The refused entries leave nothing in the way of later ones.
    world
        .store
        .record_with_entries(call(session, execution, 1), one())
        .await
        .unwrap();
    assert_eq!(world.store.recording(execution).await.unwrap().unwrap().entries, one());
}

#[tokio::test]
async fn a_process_whose_session_was_taken_keeps_nothing_more() {
    let world = world().await;
    let (session, execution) = begin(&world).await;
    let one = || vec![entry(1, ReplayEntryKind::Call, "x")];
    let other = Store::open(world.home()).await.unwrap();
    leave_as_killed(&world);
    let dead = other.dead_leases().await.unwrap().remove(0);
    assert!(other.finish_dead_lease(dead, &[]).await.unwrap().is_empty());
    let lease = Lease::acquire(world.home()).unwrap();
    other.resume(&lease, execution).await.unwrap();
    other
        .record_with_entries(call(session, execution, 1), one())
        .await
        .unwrap();
    let error = world.store.keep_entries(session, execution, one()).await.unwrap_err();
    assert_eq!(error.code(), "session.not_owned");
    let error = world
        .store
        .record_with_entries(call(session, execution, 1), one())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "session.not_owned");
    assert_eq!(other.recording(execution).await.unwrap().unwrap().entries, one());
    assert!(report(&other).await.is_ok());
}

#[tokio::test]
async fn a_suspended_execution_that_is_left_belongs_to_nobody_and_one_process_goes_on_with_it() {
    let world = world().await;
    let (session, execution) = begin(&world).await;
    let wake = Timestamp::now() + SignedDuration::from_hours(1);
    let last = vec![entry(1, ReplayEntryKind::Trace, "waits")];
    world
        .store
        .suspend(suspended(session, execution), Some(wake), last.clone())
        .await
        .unwrap();
    let held = world.store.session(session).await.unwrap().unwrap();
    assert_eq!(held.lease, Some(world.lease.id()));
    world.store.release_session(session).await.unwrap();
    let listed = world.store.session(session).await.unwrap().unwrap();
    assert_eq!((listed.state, listed.lease), (SessionState::Open, None));
    let waits = world.store.execution(execution).await.unwrap().unwrap();
    assert_eq!((waits.status, waits.ended), (ExecutionStatus::WaitingApproval, None));
    let error = world.store.record(violation(session, "")).await.unwrap_err();
    assert_eq!(error.code(), "session.not_owned");

    let standing = world.store.recording_status(execution).await.unwrap().unwrap();
    assert_eq!((standing.state, standing.due), (RecordingState::Waiting, Some(wake)));
    assert_eq!(world.store.next_due_time().await.unwrap(), Some(wake));
    let before = wake - SignedDuration::from_nanos(1);
    assert!(world.store.ready_executions(before, 10).await.unwrap().is_empty());
    assert_eq!(
        world.store.ready_executions(wake, 10).await.unwrap(),
        [(execution, session)]
    );

    let other = Store::open(world.home()).await.unwrap();
    let lease = Lease::acquire(world.home()).unwrap();
    let (one, two) = tokio::join!(
        world.store.resume(&world.lease, execution),
        other.resume(&lease, execution)
    );
    let refused = match (one, two) {
        (Ok(()), Err(error)) | (Err(error), Ok(())) => error,
        both => panic!("{both:?}"),
    };
    assert!(matches!(refused, AdoptError::Owned { .. }), "{refused}");
    let owner = world.store.session(session).await.unwrap().unwrap().lease.unwrap();
    let winner = if owner == lease.id() { &other } else { &world.store };
    let kind = EventKind::ExecutionResumed { known: 0, unknown: 0 };
    winner
        .record(Event::from_host(session, Some(execution), kind))
        .await
        .unwrap();
    assert_eq!(winner.recording(execution).await.unwrap().unwrap().entries, last);
    assert_eq!(winner.next_due_time().await.unwrap(), None);
    winner
        .keep_entries(session, execution, vec![entry(1, ReplayEntryKind::Answer, "more")])
        .await
        .unwrap();
    winner.record(ended(session, execution)).await.unwrap();
    let over = winner.resume(&lease, execution).await.unwrap_err();
    assert!(matches!(over, AdoptError::Closed { .. }), "{over}");
    assert!(report(winner).await.is_ok());
}

#[tokio::test]
async fn a_suspended_execution_is_its_own_process_to_go_on_with() {
    let world = world().await;
    let (session, execution) = begin(&world).await;
    let other = begin_in(&world.store, session).await;
    let now = Timestamp::now();
    world
        .store
        .suspend(suspended(session, execution), Some(now), Vec::new())
        .await
        .unwrap();
    assert!(world.store.session(session).await.unwrap().unwrap().lease.is_some());
    // This process may resume it, and no other.
    assert_eq!(
        world.store.ready_executions(now, 10).await.unwrap(),
        [(execution, session)]
    );
    let stranger = Store::open(world.home()).await.unwrap();
    assert!(stranger.ready_executions(now, 10).await.unwrap().is_empty());
    assert_eq!(stranger.next_due_time().await.unwrap(), None);
    world.store.resume(&world.lease, execution).await.unwrap();
    world.store.record(ended(session, execution)).await.unwrap();
    world.store.record(ended(session, other)).await.unwrap();
}

#[tokio::test]
async fn an_execution_that_cannot_be_run_again_is_not_gone_on_with() {
    let world = world().await;
    let (session, execution) = begin(&world).await;
    world.store.mark_unrepeatable(execution, "threads").await.unwrap();
    world
        .store
        .mark_unrepeatable(execution, "another reason")
        .await
        .unwrap();
    let soon = Some(Timestamp::now());
    world
        .store
        .suspend(suspended(session, execution), soon, Vec::new())
        .await
        .unwrap();
    let error = world.store.resume(&world.lease, execution).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("execution `{execution}` cannot go on: threads")
    );
    let unknown = ExecutionId::generate().unwrap();
    let error = world.store.resume(&world.lease, unknown).await.unwrap_err();
    assert!(matches!(error, AdoptError::NoRecording { .. }), "{error}");
}

fn files(folder: &Path) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.is_file() {
            found.push(std::fs::read(path).unwrap());
        }
    }
    found
}

/// Whether any file in the data folder contains this text.
pub(crate) fn is_readable(home: &Path, text: &str) -> bool {
    let holds = |bytes: Vec<u8>| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    files(home).into_iter().any(holds)
}

#[tokio::test]
async fn what_is_kept_can_be_read_nowhere_and_not_at_all_without_its_key() {
    let world = world().await;
    let (session, execution) = begin(&world).await;
    let secret = vec![entry(1, ReplayEntryKind::Answer, "the result of the tool")];
    world
        .store
        .record_with_entries(call(session, execution, 1), secret)
        .await
        .unwrap();
    let end = ended(session, execution);
    world
        .store
        .record_end_with_outcome(end, b"the outcome of it all".to_vec(), Vec::new())
        .await
        .unwrap();
    world.store.record(closed(session)).await.unwrap();
    for folded in [false, true] {
        if folded {
            world.store.close().await;
        }
        for text in ["request of the program", "result of the tool", "outcome of it all"] {
            assert!(!is_readable(world.home(), text), "{text}");
        }
        // Control: unsealed text is found.
        assert!(is_readable(world.home(), &execution.to_string()));
    }
}

#[tokio::test]
async fn the_key_of_the_folder_is_never_made_anew_nor_read_when_others_could() {
    let world = world().await;
    let (session, execution) = begin(&world).await;
    world.store.record(ended(session, execution)).await.unwrap();
    world.store.record(closed(session)).await.unwrap();
    world.store.close().await;
    let path = world.home().join("keys/seal.key");
    let key = std::fs::read_to_string(&path).unwrap();
    let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let check = async |code: &str| {
        let store = Store::open(world.home()).await.unwrap();
        let error = store.recording(execution).await.unwrap_err();
        assert_eq!(error.code(), code, "{error:?}");
        store.close().await;
    };
    mode(0o644);
    check("store.exposed").await;
    mode(0o600);
    let last = if key.ends_with("0\n") { "1\n" } else { "0\n" };
    std::fs::write(&path, format!("{}{last}", &key[..key.len() - 2])).unwrap();
    check("store.damaged").await;
    std::fs::write(&path, "none").unwrap();
    check("store.key").await;
    std::fs::remove_file(&path).unwrap();
    check("store.key").await;

    let store = Store::open(world.home()).await.unwrap();
    let lease = Lease::acquire(world.home()).unwrap();
    let next = SessionId::generate().unwrap();
    store.open_session(&lease, opening(next)).await.unwrap();
    let recording = NewRecording {
        execution: ExecutionId::generate().unwrap(),
        session: next,
        request: Vec::new(),
        stays: None,
    };
    assert_eq!(store.begin_recording(recording).await.unwrap_err().code(), "store.keep");
    assert!(!path.exists());
    std::fs::write(&path, key).unwrap();
    mode(0o600);
    store.recording(execution).await.unwrap().unwrap();
    store.forget_recordings(session).await.unwrap();
    assert_eq!(store.recording(execution).await.unwrap(), None);
    assert!(report(&store).await.is_ok());
}

fn execute(world: &World, sql: &'static str) {
    let connection = rusqlite::Connection::open(world.home().join("ringfence.db")).unwrap();
    connection.execute_batch(sql).unwrap();
    assert!(connection.total_changes() > 0);
    connection.close().unwrap();
}

async fn harmed(sql: &'static str) -> String {
    let world = world().await;
    let (session, execution) = begin(&world).await;
    for number in 1..4 {
        let entries = vec![entry(number, ReplayEntryKind::Call, "x")];
        world
            .store
            .record_with_entries(call(session, execution, 1), entries)
            .await
            .unwrap();
    }
    for number in 4..7 {
        let entries = vec![entry(number, ReplayEntryKind::Call, "x")];
        world.store.keep_entries(session, execution, entries).await.unwrap();
    }
    execute(&world, sql);
    let error = world.store.recording(execution).await.unwrap_err();
    assert!(report(&world.store).await.is_ok());
    format!("{}: {error}", error.code()).replace(&execution.to_string(), "E")
}

#[tokio::test]
async fn a_recording_that_was_changed_is_not_read() {
    let swapped = "UPDATE entries SET sealed = (SELECT sealed FROM entries WHERE n = 4) WHERE n = 6";
    assert_eq!(
        harmed(swapped).await,
        "store.damaged: cannot open entry 6 of execution `E`"
    );
    let swapped = "UPDATE events SET sealed = (SELECT sealed FROM events WHERE piece = 1) WHERE piece = 3";
    assert_eq!(
        harmed(swapped).await,
        "store.damaged: cannot open entry 3 of execution `E`"
    );
    for gone in [
        "DELETE FROM entries WHERE n = 5",
        "UPDATE events SET piece = NULL WHERE piece = 2",
        "UPDATE events SET execution = NULL WHERE piece = 1",
    ] {
        assert_eq!(
            harmed(gone).await,
            "store.damaged: a row of table `entries` is damaged: column `n`"
        );
    }
    assert_eq!(
        harmed("UPDATE entries SET sealed = x'00' WHERE n = 5").await,
        "store.damaged: cannot open entry 5 of execution `E`"
    );
    assert_eq!(
        harmed("UPDATE events SET sealed = x'00' WHERE piece = 2").await,
        "store.damaged: cannot open entry 2 of execution `E`"
    );
    assert_eq!(
        harmed("UPDATE events SET sealed = NULL WHERE piece = 2").await,
        "store.damaged: cannot open entry 2 of execution `E`"
    );
    assert_eq!(
        harmed("UPDATE recordings SET request = zeroblob(100)").await,
        "store.damaged: cannot open the request of execution `E`"
    );
    assert_eq!(
        harmed("DELETE FROM keys").await,
        "store.deleted: cannot open the request of execution `E`"
    );
}

#[tokio::test]
async fn a_recording_of_the_version_before_is_read_and_goes_on() {
    let world = world().await;
    let (session, execution) = begin(&world).await;
    let keep = async |number: u32| {
        let entries = vec![entry(number, ReplayEntryKind::Call, "x")];
        let event = call(session, execution, number.into());
        world.store.record_with_entries(event, entries).await.unwrap();
    };
    for number in 1..4 {
        keep(number).await;
    }
    let sql = "INSERT INTO entries SELECT execution, piece, total, sealed FROM events WHERE piece IS NOT NULL;
        UPDATE events SET execution = NULL, piece = NULL, total = NULL, sealed = NULL; UPDATE recordings SET since = NULL";
    execute(&world, sql);
    for number in 4..6 {
        keep(number).await;
    }
    let kept = world.store.recording(execution).await.unwrap().unwrap();
    let numbers: Vec<u32> = kept.entries.iter().map(|entry| entry.number).collect();
    assert_eq!((numbers, kept.standing.bytes), (vec![1, 2, 3, 4, 5], 5));
}

/// The median cost of one record without and with replay entries, measured in turns on the same machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keeping_beside_an_event_costs_little() {
    let world = world().await;
    for bytes in [200, 4096] {
        let (session, execution) = begin(&world).await;
        let (mut plain, mut keeping) = (Vec::new(), Vec::new());
        for _ in 0..2000 {
            let began = Instant::now();
            world.store.record(call(session, execution, 1)).await.unwrap();
            plain.push(began.elapsed());
            let entries = vec![entry(1, ReplayEntryKind::Answer, &"x".repeat(bytes))];
            let event = call(session, execution, 1);
            let began = Instant::now();
            world.store.record_with_entries(event, entries).await.unwrap();
            keeping.push(began.elapsed());
        }
        let median = |times: &mut Vec<Duration>| {
            times.sort_unstable();
            times[times.len() / 2]
        };
        let (plain, keeping) = (median(&mut plain), median(&mut keeping));
        println!("{bytes} bytes: record {plain:?}, record_keeping {keeping:?}");
        // Far above the usual cost, so that only a change of kind fails on a busy machine.
        assert!(keeping < plain + Duration::from_millis(2), "{plain:?} {keeping:?}");
    }
}

#[tokio::test]
async fn what_was_kept_with_an_acknowledged_event_survives_kill_9() {
    let world = world().await;
    for wanted in [1, 40, 200] {
        let mut child = start("keep for ever", world.home());
        let (mut acknowledged, mut named) = (0, None);
        for line in lines(&mut child) {
            named = Some((
                line[0].parse::<SessionId>().unwrap(),
                line[1].parse::<ExecutionId>().unwrap(),
            ));
            acknowledged = line[2].parse().unwrap();
            if acknowledged == wanted {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        let (session, execution) = named.unwrap();
        let next = Store::open(world.home()).await.unwrap();
        let kept = next.recording(execution).await.unwrap().unwrap();
        let events = next.session_records(session).await.unwrap();
        // Every event has its entry and every entry its event.
        assert_eq!(events.len(), 2 + kept.entries.len());
        assert!(kept.entries.len() >= acknowledged, "{acknowledged}");
        let numbers = (1..)
            .zip(&kept.entries)
            .all(|(number, entry)| entry.number == number && entry.bytes == number.to_string().into_bytes());
        assert!(numbers);
        assert_eq!(kept.standing.state, RecordingState::Running);
        assert!(report(&world.store).await.is_ok());
    }
}

/// Leaves the lease file of the process of the test as if it had been killed: the lock goes, the file stays.
fn leave_as_killed(world: &World) {
    let file = world.home().join(format!("run/{}.lock", world.lease.id()));
    let free = file.with_extension("copy");
    std::fs::copy(&file, &free).unwrap();
    std::fs::rename(free, file).unwrap();
}

/// Sweeps after the process of the test as if it were dead, and returns whether the session was lost.
async fn swept(world: &World, session: SessionId) -> bool {
    let other = Store::open(world.home()).await.unwrap();
    leave_as_killed(world);
    finish_sweep(&other, session).await
}

async fn finish_sweep(other: &Store, session: SessionId) -> bool {
    let dead = other.dead_leases().await.unwrap().remove(0);
    let lost = other.finish_dead_lease(dead, &[]).await.unwrap();
    let listed = other.session(session).await.unwrap().unwrap();
    assert_eq!(listed.lease, None);
    assert_eq!(listed.state == SessionState::Lost, lost.contains(&session));
    assert!(report(other).await.is_ok());
    lost.contains(&session)
}

#[tokio::test]
async fn what_a_process_that_ended_in_good_order_could_not_end_is_lost_unless_it_waits_for_somebody() {
    for is_asked in [false, true] {
        let world = crate::support::world().await;
        let (session, execution) = begin(&world).await;
        if is_asked {
            crate::approvals::ask(&world.store, session, execution, crate::approvals::HOUR).await;
        }
        let other = Store::open(world.home()).await.unwrap();
        // A lease that is given back has no file.
        std::fs::remove_file(world.home().join(format!("run/{}.lock", world.lease.id()))).unwrap();
        assert_eq!(finish_sweep(&other, session).await, !is_asked);
        let found = other.execution(execution).await.unwrap().unwrap();
        let (status, state) = if is_asked {
            (ExecutionStatus::Running, RecordingState::Interrupted)
        } else {
            (ExecutionStatus::Lost, RecordingState::Over)
        };
        assert_eq!(found.status, status);
        assert_eq!(other.recording_status(execution).await.unwrap().unwrap().state, state);
    }
}

#[tokio::test]
async fn a_session_is_lost_with_its_process_unless_all_of_it_can_be_run_again() {
    // Every execution in progress was recorded.
    let world = crate::support::world().await;
    let (session, execution) = begin(&world).await;
    let before = world.store.session_records(session).await.unwrap().len();
    assert!(!swept(&world, session).await);
    assert_eq!(world.store.session_records(session).await.unwrap().len(), before);
    assert_eq!(
        world.store.interrupted_executions(10).await.unwrap(),
        [(execution, session)]
    );
    assert_eq!(world.store.next_due_time().await.unwrap(), None);
    let standing = world.store.recording_status(execution).await.unwrap().unwrap();
    assert_eq!(standing.state, RecordingState::Interrupted);
    assert_eq!(
        world.store.execution(execution).await.unwrap().unwrap().status,
        ExecutionStatus::Running
    );

    // One execution was not recorded.
    let world = crate::support::world().await;
    let (session, execution) = begin(&world).await;
    let program = ExecutionId::generate().unwrap();
    world.store.record(started(session, program)).await.unwrap();
    assert!(swept(&world, session).await);
    let standing = world.store.recording_status(execution).await.unwrap().unwrap();
    assert_eq!(standing.state, RecordingState::Over);

    // One execution cannot be run again.
    let world = crate::support::world().await;
    let (session, execution) = begin(&world).await;
    world.store.mark_unrepeatable(execution, "threads").await.unwrap();
    assert!(swept(&world, session).await);

    // No execution was in progress.
    let world = crate::support::world().await;
    let (session, execution) = begin(&world).await;
    world.store.record(ended(session, execution)).await.unwrap();
    assert!(swept(&world, session).await);

    // Somebody requested a stop.
    let world = crate::support::world().await;
    let (session, _) = begin(&world).await;
    let by = ringfence_journal::Principal::Local(1);
    let told = world
        .store
        .request_stop(StopTarget::Session(session), by)
        .await
        .unwrap();
    assert_eq!(told, [(session, StopOwner::Notified)]);
    assert!(swept(&world, session).await);
}

#[tokio::test]
async fn a_skill_that_was_under_way_is_lost_and_what_called_it_is_not() {
    let world = crate::support::world().await;
    let (session, execution) = begin(&world).await;
    let skill = ExecutionId::generate().unwrap();
    let mut called = started(session, skill);
    if let EventKind::ExecutionStarted { parent, .. } = &mut called.kind {
        *parent = Some(execution);
    }
    world.store.record(called).await.unwrap();
    assert!(!swept(&world, session).await);
    for (which, status) in [(execution, ExecutionStatus::Running), (skill, ExecutionStatus::Lost)] {
        let found = world.store.execution(which).await.unwrap().unwrap();
        assert_eq!(found.status, status);
    }
    let events = world.store.session_records(session).await.unwrap();
    let last = events.last().unwrap().event().unwrap();
    assert_eq!(last.execution, Some(skill));
    assert!(matches!(
        last.kind,
        EventKind::ExecutionEnded {
            status: ExecutionStatus::Lost,
            ..
        }
    ));
    assert_eq!(
        world.store.interrupted_executions(10).await.unwrap(),
        [(execution, session)]
    );
}

#[tokio::test]
async fn what_a_person_answered_goes_on_by_itself_after_a_crash() {
    let world = crate::support::world().await;
    let (session, execution) = begin(&world).await;
    crate::approvals::answer_and_note(&world, session, execution).await;
    assert!(!swept(&world, session).await);
    let ready = world.store.ready_executions(Timestamp::now(), 10).await.unwrap();
    assert_eq!(ready, [(execution, session)]);
}

#[tokio::test]
async fn recordings_of_sessions_that_are_over_are_trimmed_oldest_first() {
    let world = world().await;
    let mut all = Vec::new();
    for _ in 0..4 {
        let (session, execution) = begin(&world).await;
        let entries = vec![entry(1, ReplayEntryKind::Answer, &"x".repeat(1000))];
        world
            .store
            .record_with_entries(call(session, execution, 1), entries)
            .await
            .unwrap();
        all.push((session, execution));
    }
    all.sort();
    // The first session is still open, whatever its age.
    for (session, execution) in &all[1..] {
        world.store.record(ended(*session, *execution)).await.unwrap();
        world.store.record(closed(*session)).await.unwrap();
    }
    let there = async || {
        let mut there = Vec::new();
        for (_, execution) in &all {
            there.push(world.store.recording(*execution).await.unwrap().is_some());
        }
        there
    };
    let now = Timestamp::now();
    let trim = |keep, now| world.store.trim_recordings(keep, now);
    assert_eq!(trim(RecordingRetention::default(), now).await.unwrap(), 0);
    let small = RecordingRetention {
        bytes: 2600,
        ..RecordingRetention::default()
    };
    assert_eq!(trim(small, now).await.unwrap(), 1);
    assert_eq!(there().await, [true, false, true, true]);
    let later = now + SignedDuration::from_hours(8 * 24);
    assert_eq!(trim(RecordingRetention::default(), later).await.unwrap(), 2);
    assert_eq!(there().await, [true, false, false, false]);
    assert!(report(&world.store).await.is_ok());
}

#[tokio::test]
async fn many_small_ones_before_a_large_one_do_not_keep_it_too_long() {
    let world = world().await;
    let mut newest = None;
    for n in 0..80 {
        let (session, execution) = begin(&world).await;
        let text = "x".repeat(if n < 79 { 10 } else { 100_000 });
        let entries = vec![entry(1, ReplayEntryKind::Answer, &text)];
        let event = call(session, execution, 1);
        world.store.record_with_entries(event, entries).await.unwrap();
        world.store.record(ended(session, execution)).await.unwrap();
        world.store.record(closed(session)).await.unwrap();
        newest = Some(execution);
    }
    let small = RecordingRetention {
        bytes: 5000,
        ..RecordingRetention::for_server()
    };
    assert_eq!(world.store.trim_recordings(small, Timestamp::now()).await.unwrap(), 80);
    assert!(world.store.recording(newest.unwrap()).await.unwrap().is_none());
}

#[tokio::test]
async fn what_is_over_is_trimmed_behind_a_thousand_that_wait() {
    let world = world().await;
    for _ in 0..1001 {
        begin(&world).await;
    }
    let (session, execution) = begin(&world).await;
    world.store.record(ended(session, execution)).await.unwrap();
    world.store.record(closed(session)).await.unwrap();
    let later = Timestamp::now() + SignedDuration::from_hours(8 * 24);
    assert_eq!(
        world
            .store
            .trim_recordings(RecordingRetention::default(), later)
            .await
            .unwrap(),
        1
    );
    assert!(world.store.recording(execution).await.unwrap().is_none());
}

#[tokio::test]
async fn what_is_over_is_trimmed_in_a_session_that_goes_on() {
    let world = world().await;
    let session = world.session().await;
    let mut all = Vec::new();
    for _ in 0..3 {
        let execution = begin_in(&world.store, session).await;
        let entries = vec![entry(1, ReplayEntryKind::Answer, &"x".repeat(1000))];
        let event = call(session, execution, 1);
        world.store.record_with_entries(event, entries).await.unwrap();
        all.push(execution);
    }
    for execution in &all[..2] {
        world.store.record(ended(session, *execution)).await.unwrap();
    }
    let small = RecordingRetention {
        bytes: 1500,
        ..RecordingRetention::default()
    };
    let now = Timestamp::now();
    assert_eq!(world.store.trim_recordings(small, now).await.unwrap(), 1);
    let later = now + SignedDuration::from_hours(8 * 24);
    let there = async |execution| {
        world
            .store
            .recording(execution)
            .await
            .unwrap()
            .map(|kept| kept.entries.len())
    };
    assert_eq!((there(all[0]).await, there(all[1]).await), (None, Some(1)));
    assert_eq!(world.store.trim_recordings(small, later).await.unwrap(), 1);
    // Executions in progress are kept, whatever their age.
    assert_eq!((there(all[1]).await, there(all[2]).await), (None, Some(1)));
    world.store.record(ended(session, all[2])).await.unwrap();
    assert!(report(&world.store).await.is_ok());
}

/// A server that starts with very many waiting executions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_waiting_executions_are_found_at_once_and_take_little_room() {
    const MANY: u64 = 10_000;
    let world = world().await;
    let size = |world: &World| std::fs::metadata(world.home().join("ringfence.db")).unwrap().len();
    let mut tasks = tokio::task::JoinSet::new();
    let first = Arc::new(std::sync::Mutex::new(None::<Timestamp>));
    for _ in 0..50 {
        let store = Arc::clone(&world.store);
        let mut sessions = Vec::new();
        for _ in 0..MANY / 50 {
            sessions.push(world.session().await);
        }
        let first = Arc::clone(&first);
        tasks.spawn(async move {
            for session in sessions {
                let execution = begin_in(&store, session).await;
                for number in 1..4 {
                    let entries = vec![entry(number, ReplayEntryKind::Answer, &"x".repeat(1000))];
                    store
                        .record_with_entries(call(session, execution, 1), entries)
                        .await
                        .unwrap();
                }
                let question = crate::approvals::ask(&store, session, execution, SignedDuration::from_hours(1)).await;
                store
                    .suspend(suspended(session, execution), None, Vec::new())
                    .await
                    .unwrap();
                store.release_session(session).await.unwrap();
                let mut first = first.lock().unwrap();
                *first = Some(first.map_or(question.expires, |known| known.min(question.expires)));
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    world.store.close().await;
    let each = size(&world) / MANY;
    let first = first.lock().unwrap().unwrap();

    let began = Instant::now();
    let store = Store::open(world.home()).await.unwrap();
    let opened = began.elapsed();
    assert_eq!(store.next_due_time().await.unwrap(), Some(first));
    let due = began.elapsed();
    assert!(store.ready_executions(Timestamp::now(), 100).await.unwrap().is_empty());
    let none = began.elapsed();
    let all_due = first + SignedDuration::from_hours(1);
    assert_eq!(store.ready_executions(all_due, 1000).await.unwrap().len(), 1000);
    let took = began.elapsed();
    println!(
        "open {opened:?}, next_due {due:?}, ready {none:?}, ready with 1000 {took:?}; {each} bytes each with 3 KB of results"
    );
    assert!(took < Duration::from_secs(5), "{took:?}");
    // With all of its journal, and less than 4 KB of results.
    assert!(each < 64 * 1024, "{each}");
    let began = Instant::now();
    let pending = ringfence_store::ApprovalQuery {
        state: Some(ringfence_store::ApprovalState::Pending),
        limit: Some(100),
        ..ringfence_store::ApprovalQuery::default()
    };
    assert_eq!(store.list_approvals(pending).await.unwrap().len(), 100);
    println!("a page of the inbox {:?}", began.elapsed());
}

#[tokio::test]
async fn no_execution_begins_in_a_session_whose_recordings_are_as_large_as_its_journal_may_be() {
    const LIMIT: u64 = 256 << 10;
    let world = world().await;
    let session = SessionId::generate().unwrap();
    let small = NewSession {
        journal_bytes: LIMIT,
        ..opening(session)
    };
    world.store.open_session(&world.lease, small).await.unwrap();
    let answer = "x".repeat(100 << 10);
    // Entries count with an event, alone, and with the end. A running execution is not stopped.
    let first = begin_in(&world.store, session).await;
    let kept = vec![entry(1, ReplayEntryKind::Answer, &answer)];
    let recorded = world.store.record_with_entries(call(session, first, 1), kept.clone());
    recorded.await.unwrap();
    world.store.keep_entries(session, first, kept.clone()).await.unwrap();
    let recorded = world.store.record_with_entries(call(session, first, 2), Vec::new());
    recorded.await.unwrap();
    let second = begin_in(&world.store, session).await;
    let end = world
        .store
        .record_end_with_outcome(ended(session, first), b"1".to_vec(), kept.clone());
    end.await.unwrap();
    let recorded = world.store.record_with_entries(call(session, second, 1), kept.clone());
    recorded.await.unwrap();
    let end = world
        .store
        .record_end_with_outcome(ended(session, second), b"2".to_vec(), Vec::new());
    end.await.unwrap();

    let refused = async |store: &Store| {
        let execution = ExecutionId::generate().unwrap();
        let recording = NewRecording {
            execution,
            session,
            request: Vec::new(),
            stays: None,
        };
        let error = store
            .record_start_with_recording(started(session, execution), recording)
            .await;
        let error = error.unwrap_err();
        assert_eq!(error.code(), "limit.journal", "{error}");
    };
    refused(&world.store).await;
    // The same in another process, which counts the stored bytes.
    world.store.release_session(session).await.unwrap();
    world.store.adopt_session(&world.lease, session).await.unwrap();
    refused(&world.store).await;
    // Forgotten recordings no longer count.
    let all = RecordingRetention {
        age: SignedDuration::ZERO,
        bytes: 0,
        ..RecordingRetention::default()
    };
    let later = Timestamp::now() + SignedDuration::from_hours(1);
    assert_eq!(world.store.trim_recordings(all, later).await.unwrap(), 2);
    begin_in(&world.store, session).await;
    world.store.record(closed(session)).await.unwrap();
    assert!(report(&world.store).await.is_ok());
}
