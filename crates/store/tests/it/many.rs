//! Sessions and events of one process.

use ringfence_journal::{
    EventKind, ExecutionId, ExecutionStatus, Recorder as _, SessionId, SessionState, SessionSummary,
};
use ringfence_store::{AdoptError, NewSession, SessionQuery, Store};

use crate::support::{closed, ended, opening, report, started, violation, world};

#[tokio::test]
async fn a_sessions_life_is_written_and_listed() {
    let world = world().await;
    let session = world.session().await;
    let execution = ExecutionId::generate().unwrap();
    assert_eq!(world.store.record(started(session, execution)).await.unwrap().seq, 2);
    let running = world.store.execution(execution).await.unwrap().unwrap();
    assert_eq!((running.status, running.ended), (ExecutionStatus::Running, None));
    assert_eq!(world.store.record(ended(session, execution)).await.unwrap().seq, 3);
    world.store.record(closed(session)).await.unwrap();

    let listed = world.store.session(session).await.unwrap().unwrap();
    assert_eq!(
        (listed.state, listed.lease, listed.executions),
        (SessionState::Closed, None, 1)
    );
    assert_eq!(listed.uid, Some(100_000));
    let ran = world.store.session_executions(session).await.unwrap();
    assert_eq!(ran[0].status, ExecutionStatus::Completed);
    let policy = world.store.policy(&listed.policy_digest).await.unwrap();
    assert_eq!(policy.as_deref(), Some(r#"{"version":1}"#));

    let records = world.store.session_records(session).await.unwrap();
    let events: Vec<_> = records.iter().map(|record| record.event().unwrap()).collect();
    let summary = SessionSummary::from_events(&events).unwrap();
    assert_eq!((summary.state, summary.executions.len()), (SessionState::Closed, 1));

    let error = world.store.record(violation(session, "late")).await.unwrap_err();
    assert_eq!(error.code(), "session.closed");
    let report = report(&world.store).await;
    assert!(report.is_ok());
    assert_eq!((report.records, report.heads, report.unsigned_records), (4, 2, 0));
}

#[tokio::test]
async fn the_last_runs_of_a_page_come_together() {
    let world = world().await;
    let (one, two, none) = (world.session().await, world.session().await, world.session().await);
    // Ids of one millisecond may sort in any order.
    let mut last = [(); 3].map(|()| ExecutionId::generate().unwrap());
    last.sort();
    for (number, (session, execution)) in [one, two, one].into_iter().zip(last).enumerate() {
        let mut event = started(session, execution);
        if let EventKind::ExecutionStarted { program, .. } = &mut event.kind {
            *program = Some(format!("{number}.ts").as_str().into());
        }
        world.store.record(event).await.unwrap();
    }
    world.store.record(ended(one, last[2])).await.unwrap();
    let found = world.store.last_runs(&[one, none, two]).await.unwrap();
    let told = |session: &SessionId| {
        let run = &found[session];
        (run.execution_id, run.program.clone().unwrap(), run.status)
    };
    assert_eq!(found.len(), 2);
    assert_eq!(told(&one), (last[2], "2.ts".to_owned(), ExecutionStatus::Completed));
    assert_eq!(told(&two), (last[1], "1.ts".to_owned(), ExecutionStatus::Running));
    assert!(world.store.last_runs(&[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn sessions_are_listed_newest_first_in_pages() {
    let world = world().await;
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(world.session().await);
    }
    all.sort();
    all.reverse();
    world.store.record(closed(all[1])).await.unwrap();
    let list = async |which| {
        let sessions = world.store.list_sessions(which).await.unwrap();
        sessions
            .into_iter()
            .map(|session| session.id)
            .collect::<Vec<SessionId>>()
    };
    assert_eq!(list(SessionQuery::default()).await, all);
    let page = SessionQuery {
        limit: Some(2),
        before: Some(all[0]),
        ..SessionQuery::default()
    };
    assert_eq!(list(page).await, all[1..3]);
    let open = SessionQuery {
        state: Some(SessionState::Open),
        ..SessionQuery::default()
    };
    assert_eq!(list(open).await, [all[0], all[2], all[3], all[4]]);
    let stranger = Some(ringfence_journal::Principal::Local(1));
    assert!(
        list(SessionQuery {
            principal: stranger,
            ..SessionQuery::default()
        })
        .await
        .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_writers_at_once_make_whole_chains() {
    let world = world().await;
    let shared = world.session().await;
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..64 {
        let store = std::sync::Arc::clone(&world.store);
        let own = SessionId::generate().unwrap();
        store.open_session(&world.lease, opening(own)).await.unwrap();
        tasks.spawn(async move {
            for number in 0..20 {
                let detail = format!("{writer} {number}");
                store.record(violation(shared, &detail)).await.unwrap();
                store.record(violation(own, &detail)).await.unwrap();
            }
            store.record(closed(own)).await.unwrap().seq
        });
    }
    while let Some(seq) = tasks.join_next().await {
        assert_eq!(seq.unwrap(), 22);
    }
    world.store.record(closed(shared)).await.unwrap();
    let report = report(&world.store).await;
    assert!(report.is_ok(), "{report:?}");
    assert_eq!((report.sessions, report.records), (65, 64 * 22 + 64 * 20 + 2));
    assert_eq!((report.heads, report.unsigned_records), (65, 0));
}

#[tokio::test]
async fn a_journal_written_without_pause_keeps_its_log_short() {
    let world = world().await;
    let session = world.session().await;
    let log = world.home().join("ringfence.db-wal");
    let mut longest = 0;
    // More than three times the bound of the log.
    for _ in 0..2500 {
        world.store.record(violation(session, &"x".repeat(4000))).await.unwrap();
        longest = longest.max(std::fs::metadata(&log).unwrap().len());
    }
    assert!(longest < 20 << 20, "{longest}");
    world.store.record(closed(session)).await.unwrap();
    let report = report(&world.store).await;
    assert!(report.is_ok(), "{report:?}");
    assert_eq!(report.records, 2502);
}

#[tokio::test]
async fn a_session_left_open_is_gone_on_with_by_one_process_at_a_time() {
    let world = world().await;
    let session = world.session().await;
    let other = Store::open(world.home()).await.unwrap();
    let lease = ringfence_store::Lease::acquire(world.home()).unwrap();
    let owned = other.adopt_session(&lease, session).await.unwrap_err();
    assert!(matches!(owned, AdoptError::Owned { .. }), "{owned}");
    assert_eq!(
        other.record(violation(session, "")).await.unwrap_err().code(),
        "session.not_owned"
    );

    world.store.release_session(session).await.unwrap();
    assert!(world.store.record(violation(session, "")).await.is_err());
    other.adopt_session(&lease, session).await.unwrap();
    assert_eq!(other.record(violation(session, "")).await.unwrap().seq, 2);
    other.record(closed(session)).await.unwrap();
    let over = other.adopt_session(&lease, session).await.unwrap_err();
    assert!(matches!(over, AdoptError::Closed { .. }), "{over}");
    let unknown = other
        .adopt_session(&lease, SessionId::generate().unwrap())
        .await
        .unwrap_err();
    assert!(matches!(unknown, AdoptError::Unknown { .. }), "{unknown}");
    assert!(report(&other).await.is_ok());
}

#[tokio::test]
async fn a_refusal_before_a_session_opens_is_a_signed_chain_of_its_own() {
    let world = world().await;
    let session = SessionId::generate().unwrap();
    let refused = ringfence_journal::EventKind::Refused {
        code: "policy.ceiling".into(),
        rule: "net.enabled".into(),
        hint: None,
    };
    let event = ringfence_journal::Event::from_host(session, None, refused);
    assert_eq!(world.store.record(event.clone()).await.unwrap().seq, 1);
    assert!(world.store.record(event).await.is_err());
    assert_eq!(world.store.session(session).await.unwrap(), None);
    let report = report(&world.store).await;
    assert_eq!((report.is_ok(), report.heads, report.unsigned_records), (true, 1, 0));
}

#[tokio::test]
async fn durable_sessions_and_others_share_the_writer() {
    let world = world().await;
    let durable = SessionId::generate().unwrap();
    let opening = NewSession {
        durable: true,
        journal_bytes: 1 << 26,
        ..opening(durable)
    };
    world.store.open_session(&world.lease, opening).await.unwrap();
    let plain = world.session().await;
    for _ in 0..3 {
        world.store.record(violation(durable, "")).await.unwrap();
        world.store.record(violation(plain, "")).await.unwrap();
    }
    assert!(report(&world.store).await.is_ok());
}

#[tokio::test]
async fn a_closed_store_takes_no_events() {
    let world = world().await;
    let session = world.session().await;
    world.store.close().await;
    let error = world.store.record(violation(session, "")).await.unwrap_err();
    assert_eq!(error.code(), "store.closed");
}
