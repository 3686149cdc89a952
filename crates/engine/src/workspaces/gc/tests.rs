use std::fs;
use std::time::Duration;

use ringfence_journal::{PolicyRef, Principal, SessionState};
use ringfence_store::{NewSession, NewWorkspace};

use super::*;
use crate::{Engine, EngineConfig};

async fn engine(home: &Path) -> Engine {
    let settings = EngineConfig {
        home: home.to_owned(),
        sinks: Vec::new(),
        principal: Principal::Local(1),
        python: None,
        servers: ringfence_gateway::Servers::default(),
        server_policies: std::collections::BTreeMap::new(),
        credentials: ringfence_gateway::Credentials::default(),
        checkers: crate::CheckerTools::default(),
        environment: std::sync::Arc::new(|_| None),
        serve: None,
    };
    Engine::open(settings).await.unwrap()
}

/// A session that keeps files for this long, and that no process has.
async fn left(engine: &Engine, keep: Duration) -> SessionId {
    let session = SessionId::generate().unwrap();
    let opening = NewSession {
        session,
        principal: Principal::Local(1),
        policy: PolicyRef {
            name: "default".into(),
            digest: "blake3:0011".into(),
        },
        policy_json: r#"{"version":1}"#.into(),
        backend: ringfence_sandbox::BackendKind::default().name().into(),
        enforcement: Vec::new(),
        durable: false,
        journal_bytes: 1 << 26,
        uid: None,
        keeping: Some(NewWorkspace { name: None, keep }),
    };
    engine
        .workspaces()
        .records
        .store
        .open_session(&engine.workspaces().records.lease, opening)
        .await
        .unwrap();
    engine.workspaces().records.store.park_session(session).await.unwrap();
    fs::create_dir_all(engine.workspaces().records.data.workspace(session)).unwrap();
    session
}

async fn state(engine: &Engine, id: SessionId) -> (SessionState, bool) {
    let row = engine.workspaces().records.store.session(id).await.unwrap().unwrap();
    (row.state, row.lease.is_some())
}

#[tokio::test]
async fn a_session_that_was_used_since_it_was_found_is_left_as_it_was() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path()).await;
    let (used, over) = (
        left(&engine, Duration::from_hours(1)).await,
        left(&engine, Duration::ZERO).await,
    );
    for id in [used, over] {
        engine.workspaces().sweep_workspace(id).await.unwrap();
    }
    assert_eq!(state(&engine, used).await, (SessionState::Open, false));
    assert!(engine.workspaces().records.data.workspace(used).exists());
    assert_eq!(state(&engine, over).await, (SessionState::Closed, false));
    assert!(!engine.workspaces().records.data.workspace(over).exists());
}

#[tokio::test]
async fn what_cannot_be_removed_keeps_nothing_else_from_it() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path()).await;
    let (trash, kept) = (home.path().join("trash"), home.path().join("workspaces"));
    let ids = || (0..8).map(|_| SessionId::generate().unwrap().to_string());
    // A file is not a folder: it can neither be emptied nor replaced by one.
    let stuck: Vec<String> = ids().collect();
    for id in &stuck {
        fs::create_dir_all(kept.join(id)).unwrap();
        fs::create_dir_all(&trash).unwrap();
        fs::write(trash.join(id), "").unwrap();
    }
    for id in ids() {
        fs::create_dir_all(trash.join(&id).join("in")).unwrap();
        fs::create_dir_all(kept.join(ids().next().unwrap())).unwrap();
    }
    engine.workspaces().empty_trash(u64::MAX).await.unwrap();
    assert_eq!(fs::read_dir(&trash).unwrap().count(), stuck.len());
    assert_eq!(fs::read_dir(&kept).unwrap().count(), stuck.len());
}

#[tokio::test]
async fn a_session_that_could_not_be_ended_is_left_to_the_next() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path()).await;
    let id = left(&engine, Duration::ZERO).await;
    fs::write(home.path().join("trash"), "no folder").unwrap();
    engine.workspaces().sweep_workspace(id).await.unwrap_err();
    assert_eq!(state(&engine, id).await, (SessionState::Closed, false));
    fs::remove_file(home.path().join("trash")).unwrap();
    engine.workspaces().empty_trash(u64::MAX).await.unwrap();
    assert!(!engine.workspaces().records.data.workspace(id).exists());
}
