use ringfence_journal::ExecutionStatus;
use ringfence_policy::RuleEffect::{self, Allow, Ask, Deny};

use super::{OriginalDecision, compare_outcomes};
use crate::records::recording::OutcomeDigest;

#[test]
fn a_call_differs_only_where_it_would_have_gone_another_way() {
    // The verdict of its own policy, whether a person was asked, whether it was executed; then whether allow, ask and deny differ.
    let cases: [(Option<RuleEffect>, bool, bool, [bool; 3]); 8] = [
        (Some(Allow), false, true, [false, true, true]),
        // Its arguments were wrong: no rule changes that.
        (Some(Allow), false, false, [false, false, false]),
        (Some(Ask), true, true, [false, false, true]),
        (Some(Ask), true, false, [true, false, false]),
        // Granted before, for the session or permanently.
        (Some(Ask), false, true, [false, false, true]),
        (Some(Deny), false, false, [true, true, false]),
        (None, true, true, [false, false, true]),
        (None, false, false, [true, true, false]),
    ];
    for (verdict, was_asked, went, expected) in cases {
        let then = OriginalDecision {
            verdict,
            executed: went,
            was_asked,
        };
        let told = [Allow, Ask, Deny].map(|now| then.differs(now));
        assert_eq!(told, expected, "{verdict:?} {was_asked} {went}");
    }
}

#[test]
fn whatever_is_not_as_before_is_named() {
    let before = OutcomeDigest {
        status: ExecutionStatus::Completed,
        exit_code: 0,
        error: None,
        value: Some("a".to_owned()),
        stdout: "b".to_owned(),
        stderr: "c".to_owned(),
    };
    assert!(compare_outcomes(&before, &before, None).is_empty());
    let now = OutcomeDigest {
        status: ExecutionStatus::Failed,
        exit_code: 1,
        error: Some("program.error".to_owned()),
        value: None,
        stdout: "d".to_owned(),
        stderr: "e".to_owned(),
    };
    let named: Vec<&str> = compare_outcomes(&before, &now, None)
        .iter()
        .map(|one| one.what)
        .collect();
    assert_eq!(named, ["status", "exit_code", "error", "value", "stdout", "stderr"]);
    let error = &compare_outcomes(&before, &now, None)[2];
    assert_eq!(
        (error.before.as_deref(), error.now.as_deref()),
        (None, Some("program.error"))
    );
}
