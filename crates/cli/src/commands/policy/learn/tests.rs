use ringfence_journal::{ContentHash, EgressTarget, EventKind, ExecutionId, RecordedLimits};

use super::*;

fn to(host: &str, method: Option<&str>) -> EgressTarget {
    EgressTarget {
        scheme: "https".into(),
        host: host.into(),
        port: 443,
        method: method.map(Into::into),
        path: method.map(|_| "/x".into()),
    }
}

fn started() -> EventKind {
    EventKind::ExecutionStarted {
        language: "program".into(),
        program: None,
        code: ContentHash::digest(b"1"),
        bytes: 1,
        files: Vec::new(),
        limits: RecordedLimits::default(),
        client: None,
        parent: None,
    }
}

#[test]
fn what_a_session_tried_is_read_from_its_events() {
    let (session, execution) = (SessionId::generate().unwrap(), ExecutionId::generate().unwrap());
    let kinds = [
        started(),
        EventKind::EgressStarted {
            number: 1,
            to: to("a.example.org", Some("GET")),
            address: "93.184.216.34".into(),
            rule: "net.default".into(),
        },
        EventKind::EgressRefused {
            number: 2,
            to: to("b.example.org", None),
            code: "net.denied".into(),
            rule: "net.default".into(),
        },
        EventKind::CallRefused {
            number: 1,
            tool: "files.read".into(),
            code: "policy.denied".into(),
            rule: "tools.default".into(),
        },
    ];
    let events = kinds.map(|kind| Event::from_host(session, Some(execution), kind));
    let attempts = session_attempts(&SessionSummary::from_events(&events).unwrap(), &[]);
    let host = |host: &str, method: Option<&str>, address: Option<&str>| AttemptedAction::Host {
        scheme: "https".to_owned(),
        host: host.to_owned(),
        port: 443,
        method: method.map(str::to_owned),
        path: method.map(|_| "/x".to_owned()),
        address: address.map(str::to_owned),
    };
    let refused = |code: &str, rule: &str| Some((code.to_owned(), rule.to_owned()));
    let name = "files.read".to_owned();
    let expected = [
        (host("a.example.org", Some("GET"), Some("93.184.216.34")), None),
        (host("b.example.org", None, None), refused("net.denied", "net.default")),
        (
            AttemptedAction::Tool {
                name,
                arguments: None,
                hidden: std::collections::BTreeSet::new(),
            },
            refused("policy.denied", "tools.default"),
        ),
    ];
    assert_eq!(
        attempts,
        expected.map(|(tried, refused)| ObservedAttempt { tried, refused })
    );
    let learnt = ringfence_policy::learn(&attempts).unwrap();
    let lesson = LearnedPolicy {
        session,
        attempts: 3,
        learnt,
    };
    let words = lesson.to_yaml().unwrap();
    assert!(words.starts_with(&format!(
        "# The least policy that would have allowed session {session}, from 3 attempts.\nversion: 1\nnet:\n"
    )));
    let read = ringfence_policy::Draft::parse(&words, "learnt").unwrap();
    assert_eq!(read, lesson.learnt.draft);
}
