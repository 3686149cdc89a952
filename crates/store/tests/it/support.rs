//! Shared helpers of the tests.

use std::path::Path;
use std::sync::Arc;

use ringfence_journal::{
    ContentHash, Event, EventKind, ExecutionId, ExecutionStatus, PolicyRef, Principal, RecordedLimits, ReplayEntry,
    ReplayEntryKind, ResourceUsage, SessionId, TruncationFlags, VerificationReport,
};
use ringfence_store::{Lease, NewSession, Store};

pub(crate) struct World {
    pub(crate) store: Arc<Store>,
    pub(crate) lease: Lease,
    pub(crate) folder: tempfile::TempDir,
}

pub(crate) async fn world() -> World {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(folder.path()).await.unwrap());
    let lease = Lease::acquire(folder.path()).unwrap();
    World { store, lease, folder }
}

impl World {
    pub(crate) async fn session(&self) -> SessionId {
        let session = SessionId::generate().unwrap();
        self.store.open_session(&self.lease, opening(session)).await.unwrap();
        session
    }

    pub(crate) fn home(&self) -> &Path {
        self.folder.path()
    }
}

pub(crate) fn opening(session: SessionId) -> NewSession {
    NewSession {
        session,
        principal: Principal::Local(1000),
        policy: PolicyRef {
            name: "default".into(),
            digest: "blake3:0011".into(),
        },
        policy_json: r#"{"version":1}"#.into(),
        backend: "native".into(),
        enforcement: Vec::new(),
        durable: false,
        journal_bytes: 1 << 26,
        uid: Some(100_000),
        keeping: None,
    }
}

pub(crate) fn started(session: SessionId, execution: ExecutionId) -> Event {
    let kind = EventKind::ExecutionStarted {
        language: "typescript".into(),
        program: None,
        code: ContentHash::digest(b"1"),
        bytes: 1,
        files: Vec::new(),
        limits: RecordedLimits::default(),
        client: None,
        parent: None,
    };
    Event::from_host(session, Some(execution), kind)
}

pub(crate) fn ended(session: SessionId, execution: ExecutionId) -> Event {
    let kind = EventKind::ExecutionEnded {
        status: ExecutionStatus::Completed,
        exit_code: Some(0),
        error: None,
        usage: ResourceUsage::default(),
        policy: "blake3:0011".into(),
        truncated: TruncationFlags::default(),
        output: None,
    };
    Event::from_host(session, Some(execution), kind)
}

pub(crate) fn suspended(session: SessionId, execution: ExecutionId) -> Event {
    let kind = EventKind::ExecutionSuspended {
        waiting: 1,
        until: None,
    };
    Event::from_host(session, Some(execution), kind)
}

pub(crate) fn call(session: SessionId, execution: ExecutionId, number: u64) -> Event {
    let kind = EventKind::CallStarted {
        number,
        tool: "mail.send".into(),
        rule: "tools.rules[0]".into(),
        arguments: ContentHash::digest(b"{}"),
        bytes: 2,
    };
    Event::from_host(session, Some(execution), kind)
}

pub(crate) fn entry(number: u32, kind: ReplayEntryKind, text: &str) -> ReplayEntry {
    ReplayEntry {
        number,
        kind,
        bytes: text.as_bytes().to_vec(),
    }
}

pub(crate) fn violation(session: SessionId, detail: &str) -> Event {
    let kind = EventKind::Violation {
        what: "syscall".into(),
        detail: detail.into(),
        rule: "r".into(),
    };
    Event::from_host(session, None, kind)
}

pub(crate) fn closed(session: SessionId) -> Event {
    Event::from_host(session, None, EventKind::SessionClosed { reason: "done".into() })
}

pub(crate) async fn report(store: &Store) -> VerificationReport {
    store.verify(|_| ()).await.unwrap()
}
