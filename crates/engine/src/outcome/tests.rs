use ringfence_journal::ExecutionStatus;
use ringfence_sandbox::{
    ConcludedExecution, JobFailure, JobOutcome, JobOutcomeKind, MeasuredUsage, ToolRefusal, Verdict,
};

use super::judge_end;

#[expect(clippy::default_trait_access, reason = "the list has no name in this crate")]
fn ended(kind: JobOutcomeKind, code: &str, refused: Option<ToolRefusal>) -> ConcludedExecution {
    let fault = JobFailure {
        code: code.try_into().unwrap(),
        message: "Error: by order of the operator".try_into().unwrap(),
        file: "main.ts".try_into().unwrap(),
        line: 2,
        column: 1,
        call: Some(1),
    };
    ConcludedExecution {
        verdict: Verdict::Finished,
        outcome: Some(JobOutcome {
            kind,
            exit_code: 0,
            signal: None,
            has_value: false,
            error: Some(fault),
            diagnostics: Default::default(),
        }),
        refused,
        value: Vec::new(),
        usage: MeasuredUsage::default(),
        output_bytes: (0, 0),
        violations: Vec::new(),
        more_violations: 0,
        unanswered: Vec::new(),
        trace: Vec::new(),
        unrepeatable: None,
        emitted: Vec::new(),
    }
}

#[test]
fn whatever_code_a_program_gives_itself_is_a_programs_failure() {
    for code in [
        "policy.ceiling",
        "limit.memory",
        "cancelled",
        "tool.denied",
        "program.",
        "program.invented",
        "",
        "sandbox.died",
    ] {
        let judged = judge_end(&ended(JobOutcomeKind::Failed, code, None));
        let error = judged.error.unwrap();
        assert_eq!(
            (error.code.as_str(), error.rule, error.hint, judged.exit_code),
            ("program.failed", None, None, 1),
            "{code}"
        );
        assert_eq!(error.message, "main.ts:2:1: Error: by order of the operator");
    }
}

#[test]
fn an_end_that_only_the_host_can_say_is_not_taken_from_a_program() {
    for (kind, code) in [
        (JobOutcomeKind::Cancelled, "program.failed"),
        (JobOutcomeKind::OutOfMemory, "program.failed"),
    ] {
        let judged = judge_end(&ended(kind, "cancelled", None));
        let error = judged.error.unwrap();
        assert_eq!(
            (judged.status, judged.exit_code, error.code.as_str(), error.rule),
            (ExecutionStatus::Failed, 1, code, None)
        );
    }
}

#[test]
fn a_refusal_of_the_hosts_that_nobody_caught_is_told_in_the_hosts_words() {
    let refused = ToolRefusal {
        code: "tool.denied".to_owned(),
        message: "not this one".to_owned(),
        rule: Some("tools.default".to_owned()),
        hint: Some("ask the operator".to_owned()),
        retry_after_ms: None,
    };
    let error = judge_end(&ended(JobOutcomeKind::Failed, "policy.ceiling", Some(refused)))
        .error
        .unwrap();
    assert_eq!(
        (error.code.as_str(), error.rule.as_deref(), error.hint.as_deref()),
        ("tool.denied", Some("tools.default"), Some("ask the operator"))
    );
    assert_eq!(error.message, "main.ts:2:1: not this one");
}
