use super::*;
use crate::{Hash, LeaseId, Limits};

fn session() -> SessionId {
    "s_01jcr0000000000000000000zz".parse().unwrap()
}

fn opened() -> Event {
    let kind = Kind::SessionOpened {
        policy: PolicyRef {
            name: "default".into(),
            digest: "d".into(),
        },
        principal: Principal::Local(7),
        backend: "native".into(),
        enforcement: vec![
            Enforcement {
                rule: "proc.mem_limit".into(),
                by: By::Cgroup,
            },
            Enforcement {
                rule: "fs.quota".into(),
                by: By::Watch,
            },
        ],
    };
    Event::host(session(), None, kind)
}

fn started(id: ExecutionId) -> Event {
    let kind = Kind::ExecutionStarted {
        language: "python".into(),
        program: None,
        code: Hash::of(b""),
        bytes: 0,
        files: Vec::new(),
        limits: Limits::default(),
        client: None,
        parent: None,
    };
    Event::host(session(), Some(id), kind)
}

fn ended(id: ExecutionId, status: Status) -> Event {
    let kind = Kind::ExecutionEnded {
        status,
        exit_code: Some(0),
        error: None,
        usage: Usage {
            cpu_ms: 5,
            ..Usage::default()
        },
        policy: "d".into(),
        truncated: Truncated::default(),
        output: None,
    };
    Event::host(session(), Some(id), kind)
}

fn closed() -> Event {
    Event::host(session(), None, Kind::SessionClosed { reason: "done".into() })
}

fn statuses(events: &[Event]) -> (SessionState, Vec<Status>) {
    let summary = SessionSummary::of(events).unwrap();
    (
        summary.state,
        summary.executions.iter().map(|execution| execution.status).collect(),
    )
}

#[test]
fn a_session_is_told_by_its_events() {
    let (one, two) = (ExecutionId::generate().unwrap(), ExecutionId::generate().unwrap());
    let violation = Kind::Violation {
        what: "syscall".into(),
        detail: "mount".into(),
        rule: "seccomp".into(),
    };
    let events = [
        opened(),
        started(one),
        Event::host(session(), Some(one), violation),
        ended(one, Status::Completed),
        started(two),
    ];
    let summary = SessionSummary::of(&events).unwrap();
    assert_eq!(summary.principal, Some(Principal::Local(7)));
    assert_eq!(summary.enforcement.soft[0].by, By::Watch);
    assert_eq!(summary.enforcement.hard.len(), 1);
    assert_eq!(summary.executions[0].violations.len(), 1);
    assert_eq!(summary.executions[0].usage.cpu_ms, 5);
    assert_eq!(
        statuses(&events),
        (SessionState::Open, vec![Status::Completed, Status::Running])
    );
}

#[test]
fn what_the_sandbox_claims_changes_no_verdict() {
    let one = ExecutionId::generate().unwrap();
    let claim = Event {
        origin: Origin::Sandbox,
        ..ended(one, Status::Completed)
    };
    let close = Event {
        origin: Origin::Sandbox,
        ..closed()
    };
    let events = [opened(), started(one), claim, close, ended(one, Status::Killed)];
    assert_eq!(statuses(&events), (SessionState::Open, vec![Status::Killed]));
    let claims = [Event {
        origin: Origin::Sandbox,
        ..opened()
    }];
    assert!(SessionSummary::of(&claims).is_none());
}

#[test]
fn what_was_under_way_when_its_process_died_is_lost() {
    let one = ExecutionId::generate().unwrap();
    let lease = LeaseId::generate().unwrap();
    let swept = Kind::Swept {
        what: "cgroup".into(),
        count: 1,
        lease,
    };
    let events = [opened(), started(one), Event::host(session(), None, swept), closed()];
    assert_eq!(statuses(&events), (SessionState::Lost, vec![Status::Lost]));
    assert_eq!(
        statuses(&[opened(), started(one), closed()]),
        (SessionState::Closed, vec![Status::Lost])
    );
}
