use super::*;
use crate::{ContentHash, LeaseId, RecordedLimits};

fn session() -> SessionId {
    "s_01jcr0000000000000000000zz".parse().unwrap()
}

fn opened() -> Event {
    let kind = EventKind::SessionOpened {
        policy: PolicyRef {
            name: "default".into(),
            digest: "d".into(),
        },
        principal: Principal::Local(7),
        backend: "native".into(),
        enforcement: vec![
            Enforcement {
                rule: "proc.mem_limit".into(),
                by: EnforcedBy::Cgroup,
            },
            Enforcement {
                rule: "fs.quota".into(),
                by: EnforcedBy::Watch,
            },
        ],
    };
    Event::from_host(session(), None, kind)
}

fn started(id: ExecutionId) -> Event {
    let kind = EventKind::ExecutionStarted {
        language: "python".into(),
        program: None,
        code: ContentHash::digest(b""),
        bytes: 0,
        files: Vec::new(),
        limits: RecordedLimits::default(),
        client: None,
        parent: None,
    };
    Event::from_host(session(), Some(id), kind)
}

fn ended(id: ExecutionId, status: ExecutionStatus) -> Event {
    let kind = EventKind::ExecutionEnded {
        status,
        exit_code: Some(0),
        error: None,
        usage: ResourceUsage {
            cpu_ms: 5,
            ..ResourceUsage::default()
        },
        policy: "d".into(),
        truncated: TruncationFlags::default(),
        output: None,
    };
    Event::from_host(session(), Some(id), kind)
}

fn closed() -> Event {
    Event::from_host(session(), None, EventKind::SessionClosed { reason: "done".into() })
}

fn statuses(events: &[Event]) -> (SessionState, Vec<ExecutionStatus>) {
    let summary = SessionSummary::from_events(events).unwrap();
    (
        summary.state,
        summary.executions.iter().map(|execution| execution.status).collect(),
    )
}

#[test]
fn a_session_is_told_by_its_events() {
    let (one, two) = (ExecutionId::generate().unwrap(), ExecutionId::generate().unwrap());
    let violation = EventKind::Violation {
        what: "syscall".into(),
        detail: "mount".into(),
        rule: "seccomp".into(),
    };
    let events = [
        opened(),
        started(one),
        Event::from_host(session(), Some(one), violation),
        ended(one, ExecutionStatus::Completed),
        started(two),
    ];
    let summary = SessionSummary::from_events(&events).unwrap();
    assert_eq!(summary.principal, Some(Principal::Local(7)));
    assert_eq!(summary.enforcement.soft[0].by, EnforcedBy::Watch);
    assert_eq!(summary.enforcement.hard.len(), 1);
    assert_eq!(summary.executions[0].violations.len(), 1);
    assert_eq!(summary.executions[0].usage.cpu_ms, 5);
    assert_eq!(
        statuses(&events),
        (
            SessionState::Open,
            vec![ExecutionStatus::Completed, ExecutionStatus::Running]
        )
    );
}

#[test]
fn what_the_sandbox_claims_changes_no_verdict() {
    let one = ExecutionId::generate().unwrap();
    let claim = Event {
        origin: EventOrigin::Sandbox,
        ..ended(one, ExecutionStatus::Completed)
    };
    let close = Event {
        origin: EventOrigin::Sandbox,
        ..closed()
    };
    let events = [
        opened(),
        started(one),
        claim,
        close,
        ended(one, ExecutionStatus::Killed),
    ];
    assert_eq!(statuses(&events), (SessionState::Open, vec![ExecutionStatus::Killed]));
    let claims = [Event {
        origin: EventOrigin::Sandbox,
        ..opened()
    }];
    assert!(SessionSummary::from_events(&claims).is_none());
}

#[test]
fn what_was_under_way_when_its_process_died_is_lost() {
    let one = ExecutionId::generate().unwrap();
    let lease = LeaseId::generate().unwrap();
    let swept = EventKind::Swept {
        what: "cgroup".into(),
        count: 1,
        lease,
    };
    let events = [
        opened(),
        started(one),
        Event::from_host(session(), None, swept),
        closed(),
    ];
    assert_eq!(statuses(&events), (SessionState::Lost, vec![ExecutionStatus::Lost]));
    assert_eq!(
        statuses(&[opened(), started(one), closed()]),
        (SessionState::Closed, vec![ExecutionStatus::Lost])
    );
}
