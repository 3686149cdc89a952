use ringfence_journal::{EventKind, ExecutionId, SessionId, VerificationReport};

use super::*;
use crate::{Lease, NewSession};

/// A store with a short busy timeout and additional pragmas on its writer connection.
fn store(home: &Path, pragmas: &'static str) -> Store {
    let mut opened = OpenedDatabase::open_at(home, LossHandling::Refuse).unwrap();
    opened.connection.execute_batch(pragmas).unwrap();
    opened.busy_timeout = Duration::from_millis(50);
    Store::start(opened, SinkSet::start(&[], Vec::new()).unwrap())
}

fn opening(session: SessionId) -> NewSession {
    NewSession {
        session,
        principal: ringfence_journal::Principal::Local(1),
        policy: ringfence_journal::PolicyRef {
            name: "p".into(),
            digest: "d".into(),
        },
        policy_json: "{}".into(),
        backend: "native".into(),
        enforcement: Vec::new(),
        durable: false,
        journal_bytes: 1 << 26,
        uid: None,
        keeping: None,
    }
}

fn violation(session: SessionId) -> Event {
    let detail = "x".repeat(4000);
    Event::from_host(
        session,
        None,
        EventKind::Violation {
            what: "w".into(),
            detail: detail.into(),
            rule: "r".into(),
        },
    )
}

/// An event that changes more tables than its chain.
fn started(session: SessionId) -> Event {
    let kind = EventKind::ExecutionStarted {
        language: "typescript".into(),
        program: None,
        code: ringfence_journal::ContentHash::digest(b"1"),
        bytes: 1,
        files: Vec::new(),
        limits: ringfence_journal::RecordedLimits::default(),
        client: None,
        parent: None,
    };
    Event::from_host(session, Some(ExecutionId::generate().unwrap()), kind)
}

/// Simulates another process that continued a chain of one record.
fn go_on_elsewhere(other: &Connection, session: SessionId) {
    let forked = "INSERT INTO events (session, seq, prev, json, hash)
        SELECT session, seq + 1, hash, json, zeroblob(32) FROM events WHERE session = ?";
    other.execute(forked, [session.to_string()]).unwrap();
}

async fn report(store: &Store) -> VerificationReport {
    store.verify(|_| ()).await.unwrap()
}

#[tokio::test]
async fn a_full_disk_refuses_the_event_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let full = store(folder.path(), "PRAGMA max_page_count = 60");
    let lease = Lease::acquire(folder.path()).unwrap();
    let session = SessionId::generate().unwrap();
    full.open_session(&lease, opening(session)).await.unwrap();
    let mut written = 1;
    let error = loop {
        match full.record(violation(session)).await {
            Ok(recorded) => {
                written += 1;
                assert_eq!(recorded.seq, written);
            }
            Err(error) => break error,
        }
    };
    assert_eq!(error.code(), "store.full", "{error:?}");
    assert!(error.hint().is_some());
    // The disk is still full: refused again, and the chain did not move.
    assert_eq!(full.record(violation(session)).await.unwrap_err().code(), "store.full");
    full.close().await;
    let gone = lease.id();
    drop(lease);

    // The next process finds everything that was answered.
    let roomy = store(folder.path(), "PRAGMA max_page_count = 100000");
    assert_eq!(report(&roomy).await.records, written);
    let lease = Lease::acquire(folder.path()).unwrap();
    roomy.release_for_test(session, gone).await;
    roomy.adopt_session(&lease, session).await.unwrap();
    assert_eq!(roomy.record(violation(session)).await.unwrap().seq, written + 1);
    let report = report(&roomy).await;
    assert!(report.is_ok(), "{report:?}");
}

impl Store {
    /// Simulates that the owning process released the session.
    async fn release_for_test(&self, session: SessionId, from: LeaseId) {
        let adopted: Result<(), crate::AdoptError> = self
            .send(|reply| WriterCommand::Adopt {
                session,
                from: Some(from),
                to: from,
                reply,
            })
            .await;
        adopted.unwrap();
        self.release_session(session).await.unwrap();
    }
}

#[tokio::test]
async fn a_locked_journal_is_waited_for_then_refused_and_all_who_waited_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path(), "");
    let lease = Lease::acquire(folder.path()).unwrap();
    let session = SessionId::generate().unwrap();
    store.open_session(&lease, opening(session)).await.unwrap();
    let other = database::connect(&store.home.database_path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (one, two) = tokio::join!(store.record(started(session)), store.record(started(session)));
    for outcome in [one, two] {
        let error = outcome.unwrap_err();
        assert_eq!(error.code(), "store.locked", "{error:?}");
        assert!(error.hint().is_some());
    }
    // An append is safe without the database, which gets it later.
    assert_eq!(store.record(violation(session)).await.unwrap().seq, 2);
    assert_eq!(report(&store).await.records, 1);
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(store.record(started(session)).await.unwrap().seq, 3);
    let report = report(&store).await;
    assert!(report.is_ok() && report.records == 3, "{report:?}");
}

#[tokio::test]
async fn an_event_that_fits_nowhere_does_not_hurt_its_neighbours_in_the_commit() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path(), "");
    let lease = Lease::acquire(folder.path()).unwrap();
    let session = SessionId::generate().unwrap();
    store.open_session(&lease, opening(session)).await.unwrap();
    let stranger = SessionId::generate().unwrap();
    let (bad, good, again) = tokio::join!(
        store.record(violation(stranger)),
        store.record(violation(session)),
        store.open_session(&lease, opening(session)),
    );
    assert_eq!(bad.unwrap_err().code(), "session.not_owned");
    assert_eq!(good.unwrap().seq, 2);
    assert_eq!(again.unwrap_err().code(), "journal.forked");
    assert!(report(&store).await.is_ok());
}

#[tokio::test]
async fn where_another_went_on_with_a_chain_nothing_more_is_added_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path(), "");
    let lease = Lease::acquire(folder.path()).unwrap();
    let session = SessionId::generate().unwrap();
    store.open_session(&lease, opening(session)).await.unwrap();
    let other = database::connect(&store.home.database_path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for _ in 0..2 {
        store.record(violation(session)).await.unwrap();
    }
    go_on_elsewhere(&other, session);
    other.execute_batch("COMMIT").unwrap();
    let error = store.record(started(session)).await.unwrap_err();
    assert_eq!(error.code(), "session.not_owned");
    let count: i64 = other
        .query_row("SELECT count(*) FROM events", [], |row| row.get(0))
        .unwrap();
    assert_eq!(count, 2, "the first record, and the other's");
}

#[tokio::test]
async fn where_another_went_on_with_a_chain_what_only_adds_to_it_is_not_added_either() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path(), "");
    let lease = Lease::acquire(folder.path()).unwrap();
    let session = SessionId::generate().unwrap();
    store.open_session(&lease, opening(session)).await.unwrap();
    let other = database::connect(&store.home.database_path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    // Until the write-ahead queue is full.
    while store.record(violation(session)).await.is_ok() {}
    go_on_elsewhere(&other, session);
    other.execute_batch("COMMIT").unwrap();
    let error = store.record(violation(session)).await.unwrap_err();
    assert_eq!(error.code(), "session.not_owned");
    assert_eq!(
        store.record(violation(session)).await.unwrap_err().code(),
        "session.not_owned"
    );
    let count: i64 = other
        .query_row("SELECT count(*) FROM events", [], |row| row.get(0))
        .unwrap();
    assert_eq!(count, 2, "the first record, and the other's");
}

#[tokio::test]
async fn nothing_goes_ahead_of_a_full_database_because_another_process_writes() {
    let folder = tempfile::tempdir().unwrap();
    let full = store(folder.path(), "PRAGMA max_page_count = 60");
    let lease = Lease::acquire(folder.path()).unwrap();
    let session = SessionId::generate().unwrap();
    full.open_session(&lease, opening(session)).await.unwrap();
    while full.record(violation(session)).await.is_ok() {}
    let other = database::connect(&full.home.database_path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for _ in 0..3 {
        let error = full.record(violation(session)).await.unwrap_err();
        assert_eq!(error.code(), "store.locked");
    }
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(full.record(violation(session)).await.unwrap_err().code(), "store.full");
}

#[tokio::test]
async fn sessions_of_two_leases_share_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path(), "");
    let leases = [(); 2].map(|()| Lease::acquire(folder.path()).unwrap());
    let [one, two] = [(); 2].map(|()| SessionId::generate().unwrap());
    store.open_session(&leases[0], opening(one)).await.unwrap();
    store.open_session(&leases[1], opening(two)).await.unwrap();
    let sessions_ahead = |lease: &Lease| -> Vec<SessionId> {
        let bytes = std::fs::read(write_ahead::file_path(&store.home.run_folder(), lease.id())).unwrap_or_default();
        let rows = write_ahead::decode_rows(&bytes);
        rows.iter().map(|row| row.record.session).collect()
    };
    let other = database::connect(&store.home.database_path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    store.record(violation(one)).await.unwrap();
    // The queue of the first lease is committed first; a commit with both leases is not written ahead.
    let (alone, (first, second)) = (
        store.record(violation(two)).await,
        tokio::join!(store.record(violation(one)), store.record(violation(two))),
    );
    for outcome in [alone, first, second] {
        assert_eq!(outcome.unwrap_err().code(), "store.locked");
    }
    assert_eq!(leases.each_ref().map(sessions_ahead), [vec![one], vec![]]);
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(store.record(violation(two)).await.unwrap().seq, 2);
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(store.record(violation(two)).await.unwrap().seq, 3);
    assert_eq!(leases.each_ref().map(sessions_ahead), [vec![], vec![two]]);
    other.execute_batch("ROLLBACK").unwrap();
    let report = report(&store).await;
    assert!(report.is_ok() && report.records == 5, "{report:?}");
}
