//! TypeScript, JavaScript, Python, shell and programs: value, output, errors.

use ringfence_sandbox::{JobLanguage, JobOutcomeKind, Verdict};

use crate::harness::{code, run, shell};

#[tokio::test]
async fn typescript_gives_the_last_expression() {
    let ran = run(
        code(
            JobLanguage::TypeScript,
            "const xs: number[] = [1, 2, 3];\nconsole.log('hi');\nxs.map(x => x * 2)",
        ),
        &[],
    )
    .await;
    assert_eq!(ran.ended.verdict, Verdict::Finished);
    assert_eq!(
        (ran.value(), ran.stdout.as_str(), ran.stderr.as_str()),
        ("[2,4,6]", "hi\n", "")
    );
}

#[tokio::test]
async fn python_gives_the_last_expression() {
    let source = "class A:\n    def __init__(self, x): self.x = x\ndef g():\n    yield from (1, 2)\nprint('hi')\n[A(i).x for i in g()]";
    let ran = run(code(JobLanguage::Python, source), &[]).await;
    assert_eq!(ran.ended.verdict, Verdict::Finished, "{ran:?}");
    assert_eq!(
        (ran.value(), ran.stdout.as_str(), ran.stderr.as_str()),
        ("[1, 2]", "hi\n", "")
    );
}

#[tokio::test]
async fn a_shell_pipeline_runs() {
    let ran = run(shell("printf 'b\\na\\n' | sort; exit 3"), &[]).await;
    assert_eq!(ran.stdout, "a\nb\n", "{ran:?}");
    let outcome = ran.ended.outcome.unwrap();
    assert_eq!((outcome.kind, outcome.exit_code), (JobOutcomeKind::Failed, 3));
}

#[tokio::test]
async fn a_program_may_be_as_long_as_its_cap() {
    let filler = format!("// {}\n", "x".repeat(1020)).repeat((8 << 10) - 1);
    let ran = run(code(JobLanguage::JavaScript, &format!("{filler}40 + 2")), &[]).await;
    assert_eq!((ran.ended.verdict, ran.value()), (Verdict::Finished, "42"), "{ran:?}");
}
