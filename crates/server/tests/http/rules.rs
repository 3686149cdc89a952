//! Rules that change while a session runs.

use std::time::Duration;

use ringfence_engine::storage::AccessScope;
use serde_json::{Value, json};

use crate::wire::Reply;
use crate::world::{Holder, World};

const POLICY: &str = "net: { enabled: true, allowlist: [a.example.org] }";
const CEILING: &str = "net: { enabled: true, allowlist: ['*.example.org'] }";

/// Requests a host that no rule allows until another rule refuses it; nothing is dialled for it.
const ASKS: &str = r#"
for i in $(seq 200); do
    found=$(curl -s http://b.example.org/ | sed 's/.*"rule":"\([^"]*\)".*/\1/')
    [ "$found" = "$last" ] || echo "$found"
    last=$found
    case $found in *denylist*) exit 0;; esac
    sleep 0.05
done
exit 1
"#;

async fn change(holder: &Holder, session: &Value, draft: &Value) -> Reply {
    let path = format!("/api/v1/sessions/{}/policy", session.as_str().unwrap());
    holder.send("PUT", &path, &draft.to_string()).await
}

/// The session of the only running execution of `holder`.
async fn running(holder: &Holder) -> Value {
    for _ in 0..1000 {
        let rows = holder.get("/api/v1/sessions?state=open").await.json();
        if let Some(session) = rows["items"].get(0) {
            return session["session_id"].clone();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("nothing runs");
}

/// Waits until the program has seen the refusal and tries again.
async fn met_rules(holder: &Holder, session: &Value) {
    let path = format!("/api/v1/sessions/{}/events", session.as_str().unwrap());
    let mut events = holder.events(&path, &[]).await;
    let mut refused = 0;
    while refused < 2 {
        let (_, data) = events.next().await.unwrap();
        refused += usize::from(data["event"]["kind"] == "egress_refused");
    }
}

#[tokio::test]
async fn rules_change_under_a_program_that_runs() {
    let world = World::under(POLICY, CEILING).await;
    let me = world.holder("me", AccessScope::Agent).await;
    let operator = world.holder("operator", AccessScope::Operator).await;
    let (run, session) = tokio::join!(me.run("shell", ASKS), async {
        let session = running(&me).await;
        met_rules(&me, &session).await;
        let mine = change(&me, &session, &json!({ "net": { "enabled": false } })).await;
        assert_eq!(mine.status, 403, "an agent does not change rules: {mine:?}");
        let narrower = json!({ "net": { "enabled": true, "denylist": ["b.example.org"] } });
        let changed = change(&operator, &session, &narrower).await;
        assert_eq!(
            (changed.status, &changed.json()["generation"]),
            (200, &json!(2)),
            "{changed:?}"
        );
        session
    });
    assert_eq!(run.status, 200, "{run:?}");
    let lines = run.json()["stdout"].as_str().unwrap().to_owned();
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0], "net.default");
    assert!(lines[1].starts_with("net.denylist["), "{lines:?}");
    let over = change(&operator, &session, &json!({ "net": { "enabled": true } })).await;
    assert_eq!((over.status, over.code().as_str()), (409, "session.elsewhere"));
}

#[tokio::test]
async fn rules_are_widened_under_the_ceiling_only() {
    let world = World::under(POLICY, CEILING).await;
    let me = world.holder("me", AccessScope::Agent).await;
    let operator = world.holder("operator", AccessScope::Operator).await;
    let body = json!({ "language": "shell", "code": "true", "session_id": "work" }).to_string();
    let ran = me.send("POST", "/api/v1/runs", &body).await;
    let session = ran.json()["session_id"].clone();
    let wider = json!({ "net": { "enabled": true, "allowlist": ["c.example.org"] } });
    let changed = change(&operator, &session, &wider).await;
    assert_eq!(
        (changed.status, &changed.json()["generation"]),
        (200, &json!(2)),
        "{changed:?}"
    );
    let cases = [
        (
            json!({ "net": { "enabled": true, "allowlist": ["elsewhere.example.com"] } }),
            "policy.ceiling",
        ),
        (json!({ "proc": { "mem_limit": "1GiB" } }), "session.fixed"),
        (json!({ "net": { "enbled": true } }), "policy.parse"),
        (json!(7), "policy.parse"),
    ];
    for (draft, code) in cases {
        let refused = change(&operator, &session, &draft).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (422, code),
            "{draft}: {refused:?}"
        );
    }
    let after = change(&operator, &session, &json!({ "net": { "enabled": false } })).await;
    assert_eq!(after.json()["generation"], 3, "what is refused has no number");
    let wider = json!({ "net": { "enabled": true, "allowlist": ["a.example.org"] } });
    let body = json!({ "language": "shell", "code": "true", "session_id": "work", "sandbox_policy": wider });
    let asked = me.send("POST", "/api/v1/runs", &body.to_string()).await.json();
    assert_eq!(
        (&asked["status"], &asked["error"]["code"]),
        (&json!("refused"), &json!("policy.ceiling")),
        "a request does not take back what an operator narrowed: {asked}"
    );
}
