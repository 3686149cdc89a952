use ringfence_journal::{Kind, Report, SessionId};

use super::*;
use crate::{Lease, Opening};

/// A store with little patience, whose own connection has some pragmas more.
fn store(home: &Path, pragmas: &'static str) -> Store {
    let mut opened = Opened::at(home).unwrap();
    opened.connection.execute_batch(pragmas).unwrap();
    opened.patience = Duration::from_millis(50);
    Store::start(opened, Sinks::start(&[], Vec::new()).unwrap())
}

fn opening(session: SessionId) -> Opening {
    Opening {
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
        uid: None,
    }
}

fn violation(session: SessionId) -> Event {
    let detail = "x".repeat(4000);
    Event::host(
        session,
        None,
        Kind::Violation {
            what: "w".into(),
            detail: detail.into(),
            rule: "r".into(),
        },
    )
}

async fn report(store: &Store) -> Report {
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
    // Still full: refused again, and the chain did not move.
    assert_eq!(full.record(violation(session)).await.unwrap_err().code(), "store.full");
    assert_eq!(report(&full).await.records, written);
    full.close().await;

    let roomy = store(folder.path(), "PRAGMA max_page_count = 100000");
    roomy.release_for_test(session, &lease).await;
    roomy.adopt_session(&lease, session).await.unwrap();
    assert_eq!(roomy.record(violation(session)).await.unwrap().seq, written + 1);
    let report = report(&roomy).await;
    assert!(report.is_ok(), "{report:?}");
}

impl Store {
    /// As if the process that had the session had left it.
    async fn release_for_test(&self, session: SessionId, lease: &Lease) {
        let from = lease.id();
        let adopted: Result<(), crate::AdoptError> = self
            .ask(|reply| Command::Adopt {
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
    let other = database::connect(&store.home.database()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (one, two) = tokio::join!(store.record(violation(session)), store.record(violation(session)));
    for outcome in [one, two] {
        let error = outcome.unwrap_err();
        assert_eq!(error.code(), "store.locked", "{error:?}");
        assert!(error.hint().is_some());
    }
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(store.record(violation(session)).await.unwrap().seq, 2);
    assert!(report(&store).await.is_ok());
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
