//! Learns the least policy from a session, and explains why a host was refused in it.

use ringfence_journal::{
    ContentHash, EgressTarget, Event, EventKind, ExecutionId, PolicyRef, Principal, RecordedLimits, Recorder as _,
    SessionId,
};
use ringfence_policy::{Ceiling, Draft, Policy};
use ringfence_store::{Lease, NewSession, Store};
use serde_json::json;

use crate::setting::Setting;

fn policy() -> Policy {
    let text = "net: { enabled: true, allowlist: [{ host: a.example.org, methods: [GET] }] }";
    Draft::parse(text, "narrow")
        .unwrap()
        .under(&Ceiling::unlimited())
        .unwrap()
}

fn to(host: &str, method: Option<&str>, path: Option<&str>) -> EgressTarget {
    EgressTarget {
        scheme: "https".into(),
        host: host.into(),
        port: 443,
        method: method.map(Into::into),
        path: path.map(Into::into),
    }
}

fn refused(number: u64, to: EgressTarget, code: &str, rule: &str) -> EventKind {
    EventKind::EgressRefused {
        number,
        to,
        code: code.into(),
        rule: rule.into(),
    }
}

/// The events of a session that requested hosts and tools, with their outcomes.
fn tried() -> Vec<EventKind> {
    vec![
        EventKind::ExecutionStarted {
            language: "program".into(),
            program: Some("curl".into()),
            code: ContentHash::digest(b"1"),
            bytes: 1,
            files: Vec::new(),
            limits: RecordedLimits::default(),
            client: None,
            parent: None,
        },
        EventKind::EgressStarted {
            number: 1,
            to: to("a.example.org", Some("GET"), Some("/x")),
            address: "93.184.216.34".into(),
            rule: "net.allowlist[0]".into(),
        },
        EventKind::EgressEnded {
            number: 1,
            status: Some(200),
            error: None,
            bytes_out: 100,
            bytes_in: 2_000,
            duration_ms: 12,
        },
        refused(
            2,
            to("a.example.org", Some("POST"), Some("/y")),
            "net.denied",
            "net.default",
        ),
        refused(3, to("b.example.org", None, None), "net.denied", "net.default"),
        refused(4, to("10.0.0.1", None, None), "net.address", "builtin.addresses"),
        refused(5, to("api.openai.com", None, None), "net.denied", "net.denylist[1]"),
        EventKind::CallRefused {
            number: 1,
            tool: "files.read".into(),
            code: "policy.denied".into(),
            rule: "tools.default".into(),
        },
    ]
}

/// A session that asked for hosts and tools, as the journal of this folder tells it.
fn session(setting: &Setting) -> SessionId {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let home = setting.home();
        let store = Store::open(&home).await.unwrap();
        let lease = Lease::acquire(&home).unwrap();
        let (session, execution) = (SessionId::generate().unwrap(), ExecutionId::generate().unwrap());
        let policy = policy();
        let opening = NewSession {
            session,
            principal: Principal::Local(1000),
            policy: PolicyRef {
                name: policy.name().into(),
                digest: policy.digest().into(),
            },
            policy_json: policy.to_json().to_string(),
            backend: ringfence_sandbox::BackendKind::default().name().into(),
            enforcement: Vec::new(),
            durable: false,
            journal_bytes: 1 << 26,
            uid: None,
            keeping: None,
        };
        store.open_session(&lease, opening).await.unwrap();
        for kind in tried() {
            let event = Event::from_host(session, Some(execution), kind);
            store.record(event).await.unwrap();
        }
        let reason = "done".into();
        store
            .record(Event::from_host(session, None, EventKind::SessionClosed { reason }))
            .await
            .unwrap();
        store.close().await;
        session
    })
}

#[test]
fn the_least_policy_is_printed_and_allows_what_was_tried() {
    let setting = Setting::new();
    let id = session(&setting);
    let learnt = setting.run(&["policy", "learn", &id.to_string()]);
    assert_eq!(learnt.code, Some(0), "{}", learnt.stderr);
    let expected = format!(
        "# The least policy that would have allowed session {id}, from 6 attempts.\n\
         version: 1\nnet:\n  enabled: true\n  allowlist:\n  - host: a.example.org\n    methods:\n    - GET\n    paths:\n    - /x\n  \
         - host: a.example.org\n    methods:\n    - POST\n    paths:\n    - /y\n  - b.example.org\ntools:\n  rules:\n  - allow: files.read\n\
         # left out: https://10.0.0.1:443: refused with `net.address` by `builtin.addresses`: no allow rule helps\n\
         # left out: https://api.openai.com:443: refused by `net.denylist[1]`, and deny beats allow\n"
    );
    assert_eq!(learnt.stdout, expected);
    for same in [&["policy", "learn"][..], &["policy", "learn", "--last"]] {
        assert_eq!(setting.run(same).stdout, learnt.stdout);
    }
    // The printed text is a valid policy file.
    setting.write("learnt.yaml", &learnt.stdout);
    assert_eq!(setting.run(&["policy", "check", "learnt.yaml"]).code, Some(0));
    let url = "https://a.example.org/y?q=1";
    let asked = [
        "policy",
        "explain",
        "--policy",
        "learnt.yaml",
        "--host",
        url,
        "--method",
        "post",
        "--json",
    ];
    assert_eq!(setting.json(&asked)["verdict"], "allow");
    let object = setting.json(&["policy", "learn", "--json"]);
    assert_eq!((&object["session_id"], &object["attempts"]), (&json!(id), &json!(6)));
    assert_eq!(object["policy"]["net"]["allowlist"][2], "b.example.org");
    assert_eq!(object["notes"].as_array().unwrap().len(), 2);
}

#[test]
fn a_host_is_explained_with_what_the_session_tried_there() {
    let setting = Setting::new();
    let id = session(&setting).to_string();
    let explained = setting.run(&[
        "policy",
        "explain",
        "--host",
        "https://a.example.org/y",
        "--method",
        "POST",
        "--session",
        &id,
    ]);
    assert_eq!(
        explained.stdout,
        "host `a.example.org` port 443 is denied by `net.default`\n  deny  net.default\n\
         hint: `net.allowlist[0]` names this host, and not this method or path: widen it if it is yours\n\
         what the session tried there:\n  \
         ok      GET https://a.example.org:443/x 200 by `net.allowlist[0]`\n  \
         refused POST https://a.example.org:443/y net.denied by `net.default`\n",
        "{}",
        explained.stderr
    );
    let object = setting.json(&[
        "policy",
        "explain",
        "--host",
        "a.example.org",
        "--session",
        &id,
        "--json",
    ]);
    assert_eq!(
        (&object["verdict"], &object["policy"]["digest"]),
        (&json!("allow"), &json!(policy().digest()))
    );
    let attempts = object["attempts"].as_array().unwrap();
    assert_eq!((attempts.len(), &attempts[1]["outcome"]), (2, &json!("refused")));
    // Other rules can be asked about the same attempts.
    let wider = [
        "policy",
        "explain",
        "--host",
        "c.example.org",
        "--session",
        &id,
        "--set",
        "net={ enabled: true, default: allow }",
    ];
    let wider = setting.run(&wider);
    assert!(
        wider
            .stdout
            .starts_with("host `c.example.org` port 443 is allowed by `net.default`"),
        "{}",
        wider.stdout
    );
    assert!(wider.stdout.ends_with("the session did not try this host\n"));
    for wrong in ["ftp://a.example.org", "https://a.example.org:x/"] {
        assert_eq!(
            setting.run(&["policy", "explain", "--host", wrong]).code,
            Some(2),
            "{wrong}"
        );
    }
}

#[test]
fn without_a_session_there_is_nothing_to_learn_from() {
    let setting = Setting::new();
    let learnt = setting.run(&["policy", "learn", "--last"]);
    assert_eq!((learnt.code, learnt.stdout.as_str()), (Some(1), ""));
    session(&setting);
    let unknown = SessionId::generate().unwrap().to_string();
    assert_eq!(setting.run(&["policy", "learn", &unknown]).code, Some(1));
}

#[test]
fn observing_stays_under_the_operators_ceiling() {
    let setting = Setting::new();
    setting.write(
        "ringfence.yaml",
        "ceiling: { net: { enabled: true, allowlist: [a.example.org] } }\n",
    );
    let refused = setting.run(&["exec", "--config", "ringfence.yaml", "--learn", "--", "true"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(126), ""));
    assert!(
        refused
            .stderr
            .contains("`net.default` asks for allow, the ceiling allows deny"),
        "{}",
        refused.stderr
    );
    assert!(
        refused
            .stderr
            .contains("`--learn` lets a program reach every public host"),
        "{}",
        refused.stderr
    );
    // A file is written with `=`, so that a program is never taken for one.
    let refused = setting.run(&["exec", "--config", "ringfence.yaml", "--learn=learnt.yaml", "true"]);
    assert_eq!(refused.code, Some(126));
    assert!(!setting.work().join("learnt.yaml").exists());
}
