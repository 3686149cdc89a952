//! Tests of what a client's request may ask for.

use std::sync::Arc;
use std::time::Duration;

use ringfence_policy::{Ceiling, Draft, Policy};
use ringfence_sandbox::{JobLanguage, RunProgram};
use serde_json::{Value, json};

use super::{RunRequest, timed_policy};
use crate::refusal::RunRefusal;

/// The policy of a request with this timeout and draft, under a ceiling of five minutes.
fn asked(timeout: Duration, draft: Option<Value>) -> Result<Arc<Policy>, RunRefusal> {
    let top = Draft::parse("version: 1\nproc: { wall_timeout: 5m }\n", "ceiling").unwrap();
    let ceiling = Ceiling::from_draft(&top);
    let base = Arc::new(Draft::builtin().under(&ceiling).unwrap());
    let request = RunRequest {
        program: RunProgram::Code {
            language: JobLanguage::TypeScript,
            file_name: "main.ts".to_owned(),
            source: String::new(),
        },
        args: Vec::new(),
        stdin: None,
        files: Vec::new(),
        session: None,
        draft,
        timeout: Some(timeout),
        trace: None,
    };
    timed_policy(&ceiling, &base, &request)
}

#[test]
fn a_timeout_above_the_ceiling_is_refused_by_its_own_name() {
    let policy = asked(Duration::from_mins(4), None).unwrap();
    assert_eq!(policy.limits().wall, Duration::from_mins(4));
    for draft in [None, Some(json!({ "proc": { "mem_limit": "256MiB" } }))] {
        let refusal = asked(Duration::from_mins(6), draft).unwrap_err();
        assert_eq!(
            (refusal.code, refusal.rule.as_str()),
            ("policy.ceiling", "proc.wall_timeout")
        );
        assert!(
            refusal.message.starts_with("`timeout` asks for 6m") && !refusal.message.contains("sandbox_policy"),
            "{}",
            refusal.message
        );
        assert!(refusal.hint.unwrap().contains("shorter `timeout`"));
    }
    // A draft that asks for too much itself is still refused as a draft.
    let draft = json!({ "proc": { "wall_timeout": "9m" } });
    let refusal = asked(Duration::from_mins(6), Some(draft)).unwrap_err();
    assert!(
        refusal.message.contains("`proc.wall_timeout` asks for 9m"),
        "{}",
        refusal.message
    );
}
