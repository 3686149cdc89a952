use super::*;
use crate::{ContentHash, Principal};

fn session() -> SessionId {
    "s_01jcr0000000000000000000zz".parse().unwrap()
}

fn every_kind() -> Vec<EventKind> {
    let mut kinds = kinds_of_life();
    kinds.extend(kinds_of_calls());
    kinds.extend(kinds_of_egress());
    kinds.extend(kinds_of_approval());
    kinds.extend(kinds_of_trouble());
    kinds
}

fn kinds_of_life() -> Vec<EventKind> {
    let policy = PolicyRef {
        name: "default".into(),
        digest: "blake3:00".into(),
    };
    vec![
        EventKind::SessionOpened {
            policy,
            principal: Principal::Local(1000),
            backend: "native".into(),
            enforcement: vec![Enforcement {
                rule: "proc.mem_limit".into(),
                by: EnforcedBy::Cgroup,
            }],
        },
        EventKind::ExecutionStarted {
            language: "typescript".into(),
            program: Some("a.ts".into()),
            code: ContentHash::digest(b"1 + 1"),
            bytes: 5,
            files: vec![FileIn {
                path: "in.csv".into(),
                bytes: 3,
            }],
            limits: RecordedLimits {
                wall_ms: Some(30_000),
                ..RecordedLimits::default()
            },
            client: Some(ClientClaims {
                name: Some("agent 1.0".into()),
                call: Some("toolu_1".into()),
                traceparent: None,
            }),
            parent: None,
        },
        EventKind::Output {
            stream: OutputStream::Stdout,
            number: 1,
            text: "hi\n".into(),
        },
        EventKind::ExecutionEnded {
            status: ExecutionStatus::Completed,
            exit_code: Some(-1),
            error: None,
            usage: ResourceUsage {
                wall_ms: 1,
                ..ResourceUsage::default()
            },
            policy: "blake3:00".into(),
            truncated: TruncationFlags::default(),
            output: Some(OutputHead {
                stdout: "2".into(),
                stderr: "".into(),
            }),
        },
        EventKind::FilesOut {
            files: vec![FileOut {
                path: "o".into(),
                bytes: 1,
                sha256: "ab".into(),
            }],
        },
        EventKind::SessionClosed { reason: "done".into() },
    ]
}

fn kinds_of_calls() -> Vec<EventKind> {
    vec![
        EventKind::ServerUsed {
            server: "files".into(),
            place: ServerPlace::Host,
        },
        EventKind::CallStarted {
            number: 1,
            tool: "files.read".into(),
            rule: "tools.rules[0]".into(),
            arguments: ContentHash::digest(b"{}"),
            bytes: 2,
        },
        EventKind::CallEnded {
            number: 1,
            tool: "files.read".into(),
            outcome: CallOutcome::Ok,
            error: None,
            duration_ms: 3,
            result: Some(ContentHash::digest(b"1")),
            bytes: 1,
        },
    ]
}

fn target() -> EgressTarget {
    EgressTarget {
        scheme: "https".into(),
        host: "data.example.org".into(),
        port: 443,
        method: Some("GET".into()),
        path: Some("/a".into()),
    }
}

fn kinds_of_egress() -> Vec<EventKind> {
    vec![
        EventKind::EgressStarted {
            number: 1,
            to: target(),
            address: "93.184.216.34".into(),
            rule: "net.allowlist[0]".into(),
        },
        EventKind::CredentialUsed {
            number: 1,
            credential: "TOKEN".into(),
        },
        EventKind::EgressEnded {
            number: 1,
            status: Some(200),
            error: None,
            bytes_out: 100,
            bytes_in: 2000,
            duration_ms: 3,
        },
        EventKind::PolicyChanged {
            generation: 2,
            policy: PolicyRef {
                name: "default".into(),
                digest: "blake3:00".into(),
            },
        },
    ]
}

fn kinds_of_approval() -> Vec<EventKind> {
    let id = "a_01kyxzv6g00000000000000000".parse().unwrap();
    vec![
        EventKind::ApprovalAsked {
            id,
            number: 3,
            tool: "mail.send".into(),
            rule: "tools.rules[2]".into(),
            why: AskReason::Rule,
            shown: ContentHash::digest(b"3"),
            expires: "2026-11-15T12:10:00Z".parse().unwrap(),
        },
        EventKind::ExecutionSuspended {
            waiting: 1,
            until: None,
        },
        EventKind::ExecutionResumed { known: 2, unknown: 0 },
        EventKind::ApprovalAnswered {
            id,
            number: 3,
            answer: ApprovalAnswer::Approved,
            scope: Some(ApprovalScope::Once),
            by: Some(Principal::Local(1000)),
            via: Some(ApprovalVia::Cli),
        },
    ]
}

fn kinds_of_trouble() -> Vec<EventKind> {
    vec![
        EventKind::WorkspaceOpened { bytes: 4096, files: 2 },
        EventKind::WorkspaceRemoved {
            mounts: vec!["/workspace".into()],
            why: "keep_for".into(),
            bytes: 4096,
            files: 2,
        },
        EventKind::CallRefused {
            number: 2,
            tool: "files.delete".into(),
            code: "policy.denied".into(),
            rule: "tools.rules[1]".into(),
        },
        EventKind::ToolDrifted {
            tool: "files.read".into(),
            found: "bb".into(),
            since: "2026-11-15T12:00:00Z".parse().unwrap(),
        },
        EventKind::EgressRefused {
            number: 2,
            to: target(),
            code: "net.denied".into(),
            rule: "net.default".into(),
        },
        EventKind::CredentialMisused {
            number: 2,
            credential: "TOKEN".into(),
            place: "header".into(),
            code: "credential.host".into(),
        },
        EventKind::Violation {
            what: "syscall".into(),
            detail: "mount".into(),
            rule: "seccomp".into(),
        },
        EventKind::LimitHit {
            code: "limit.wall".into(),
            rule: "proc.wall_timeout".into(),
            by: EnforcedBy::Watch,
        },
        EventKind::Refused {
            code: "policy.ceiling".into(),
            rule: "net.enabled".into(),
            hint: None,
        },
        EventKind::StopRequested {
            by: Principal::Local(0),
        },
        EventKind::Swept {
            what: "cgroup".into(),
            count: 2,
            lease: "l_01jcr0000000000000000000zz".parse().unwrap(),
        },
    ]
}

#[test]
fn every_event_reads_back_as_itself() {
    for kind in every_kind() {
        for origin in [EventOrigin::Host, EventOrigin::Sandbox] {
            let execution = Some(ExecutionId::generate().unwrap());
            let mut event = Event::from_host(session(), execution, kind.clone());
            event.origin = origin;
            let text = event.canonical().unwrap();
            assert_eq!(Event::parse(&text).unwrap(), event, "{text}");
            assert!(text.contains(&format!(r#""kind":"{}""#, kind.name())), "{text}");
        }
    }
}

#[test]
fn the_canonical_text_of_an_event_does_not_change() {
    let event = Event {
        at: "2026-11-15T12:00:00.123456Z".parse().unwrap(),
        session: session(),
        execution: None,
        origin: EventOrigin::Host,
        kind: EventKind::SessionClosed {
            reason: "idle\u{1b}".into(),
        },
    };
    assert_eq!(
        event.canonical().unwrap(),
        r#"{"at":"2026-11-15T12:00:00.123456Z","execution":null,"kind":"session_closed","origin":"host","reason":"idle\\u{1b}","session":"s_01jcr0000000000000000000zz","v":1}"#
    );
}

const GOOD: &str = r#"{"at":"2026-11-15T12:00:00Z","execution":null,"kind":"session_closed","origin":"host","reason":"r","session":"s_01jcr0000000000000000000zz","v":1}"#;

#[track_caller]
fn check(from: &str, to: &str, says: &str) {
    let text = GOOD.replacen(from, to, 1);
    assert_ne!(text, GOOD);
    let error = Event::parse(&text).unwrap_err();
    assert!(error.to_string().contains(says), "{text}: {error}");
}

#[test]
fn only_what_was_written_reads_back() {
    assert!(Event::parse(GOOD).is_ok());
    check(r#","v":1"#, r#","v":2"#, "unknown event version `2`");
    check(r#","v":1"#, "", "unknown event version `none`");
    check(r#""reason""#, r#""extra":1,"reason""#, "not an event");
    check(r#""reason":"r","#, "", "not an event");
    check(r#""execution":null,"#, "", "canonical");
    check("session_closed", "call", "not an event");
    check("12:00:00Z", "14:00:00+02:00", "canonical");
    check(r#""at""#, r#" "at""#, "canonical");
    check(r#""reason":"r""#, r#""reason":"q","reason":"r""#, "canonical");
    check(r#""host""#, r#""root""#, "not an event");
    check("s_01jcr", "../../", "not an event");
    check("{", "", "not an event");
    check(r#""r""#, r#""a\nb""#, "not an event");
}

#[test]
fn numbers_beyond_what_json_holds_are_held_at_the_most() {
    let kind = EventKind::Swept {
        what: "x".into(),
        count: u64::MAX,
        lease: "l_01jcr0000000000000000000zz".parse().unwrap(),
    };
    let text = Event::from_host(session(), None, kind).canonical().unwrap();
    assert!(text.contains(r#""count":9007199254740991"#), "{text}");
    assert!(Event::parse(&text).is_ok());
}

#[test]
fn long_lists_become_several_events_that_each_fit() {
    let file = FileOut {
        path: "\u{7f}".repeat(5000).into(),
        bytes: 1,
        sha256: "0".repeat(64).into(),
    };
    let kinds: Vec<EventKind> = files_out_events(&vec![file; 250]).collect();
    assert_eq!(kinds.len(), 3);
    for kind in kinds {
        assert!(Event::from_host(session(), None, kind).canonical().is_ok());
    }
    let printed = [b'x'; 10_000];
    let parts: Vec<EventKind> = output_events(OutputStream::Stderr, &printed).collect();
    assert_eq!(parts.len(), 3);
    assert_eq!(output_events(OutputStream::Stdout, b"").count(), 0);
}

#[test]
fn an_event_that_is_too_large_is_refused() {
    let part = Enforcement {
        rule: "x".repeat(4000).into(),
        by: EnforcedBy::Quota,
    };
    let kind = EventKind::SessionOpened {
        policy: PolicyRef {
            name: "n".into(),
            digest: "d".into(),
        },
        principal: Principal::Local(1),
        backend: "native".into(),
        enforcement: vec![part; 400],
    };
    let error = Event::from_host(session(), None, kind).canonical().unwrap_err();
    assert!(matches!(error, EventError::TooLarge { .. }), "{error}");
}

#[test]
fn calls_have_the_canonical_text_without_being_sorted() {
    let odd = r#"a.b "quoted" \u{202e}über\n\\ / € 🦀 \u{7f}"#;
    let numbers = [0, 1, 1000, (1 << 53) - 1, 1 << 53, u64::MAX];
    let execution: ExecutionId = "x_01jcr0000000000000000000zz".parse().unwrap();
    for (number, execution) in numbers.into_iter().zip([None, Some(execution)].into_iter().cycle()) {
        let (tool, rule) = (CleanText::clean(odd), CleanText::clean("tools.rules[0]"));
        let started = EventKind::CallStarted {
            number,
            tool: tool.clone(),
            rule,
            arguments: ContentHash::digest(&number.to_le_bytes()),
            bytes: number,
        };
        let ended = |error: Option<CleanText>, result| EventKind::CallEnded {
            number,
            tool: tool.clone(),
            outcome: crate::CallOutcome::Failed,
            error,
            duration_ms: number,
            result,
            bytes: number,
        };
        for kind in [
            started,
            ended(None, Some(ContentHash::digest(b"x"))),
            ended(Some(CleanText::clean(odd)), None),
        ] {
            for event in [
                Event::from_host(session(), execution, kind.clone()),
                Event::from_sandbox(session(), execution, kind),
            ] {
                let text = event.canonical().unwrap();
                assert_eq!(text, serde_json_canonicalizer::to_string(&event).unwrap());
                assert!(Event::parse(&text).is_ok(), "{text}");
            }
        }
    }
}

#[test]
fn times_have_six_digits_and_the_shorter_ones_of_before_still_read() {
    for (micros, long, short) in [
        (1_500_000, "1970-01-01T00:00:01.500000Z", "1970-01-01T00:00:01.5Z"),
        (2_000_000, "1970-01-01T00:00:02.000000Z", "1970-01-01T00:00:02Z"),
    ] {
        for kind in every_kind() {
            let event = Event {
                at: Timestamp::from_microsecond(micros).unwrap(),
                ..Event::from_host(session(), None, kind)
            };
            let text = event.canonical().unwrap();
            assert!(text.contains(&format!("\"at\":\"{long}\"")), "{text}");
            assert_eq!(Event::parse(&text).unwrap(), event);
            let before = event.with_short_times().unwrap();
            assert!(before.contains(&format!("\"at\":\"{short}\"")), "{before}");
            assert_eq!(Event::parse(&before).unwrap(), event);
            let between = text.replace(long, &format!("{}0Z", short.trim_end_matches('Z')));
            assert!(Event::parse(&between).is_err(), "{between}");
        }
    }
}

#[test]
fn every_time_has_a_text_of_the_same_width() {
    for nanoseconds in [0, 500_000_000, 123_456_789] {
        let text = crate::time_text(Timestamp::from_nanosecond(nanoseconds).unwrap());
        assert_eq!((text.len(), text.chars().last()), (27, Some('Z')), "{text}");
    }
}
