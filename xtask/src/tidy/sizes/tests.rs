use super::super::tree::ProjectTree;
use super::check;

#[track_caller]
fn judge(path: &str, lines: usize, expected: &[&str]) {
    let text = "//! x\n".repeat(lines);
    let found: Vec<_> = check(&ProjectTree::from_texts(&[(path, &text)]))
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn a_file_has_a_size() {
    judge("crates/policy/src/net.rs", 400, &[]);
    let notice = "notice[sizes]: crates/policy/src/net.rs: 401 lines; over 400, does it hold two ideas?";
    judge("crates/policy/src/net.rs", 401, &[notice]);
    let error = "error[sizes]: crates/policy/src/net.rs: 601 lines; at most 600, split it by idea";
    judge("crates/policy/src/net.rs", 601, &[error]);
    judge(
        "console/src/app.ts",
        601,
        &["error[sizes]: console/src/app.ts: 601 lines; at most 600, split it by idea"],
    );
    judge(
        "sdk/client.py",
        601,
        &["error[sizes]: sdk/client.py: 601 lines; at most 600, split it by idea"],
    );
}

#[test]
fn tests_and_texts_have_none() {
    judge("crates/policy/src/net/tests.rs", 5_000, &[]);
    judge("crates/policy/tests/it/net.rs", 5_000, &[]);
    judge("crates/policy/testdata/big.py", 5_000, &[]);
    judge("README.md", 5_000, &[]);
}

#[test]
fn a_program_begins_small() {
    judge("crates/cli/src/main.rs", 60, &[]);
    let error = "error[sizes]: crates/cli/src/main.rs: 61 lines; a `main.rs` has at most 60";
    judge("crates/cli/src/main.rs", 61, &[error]);
    judge("crates/store/tests/it/main.rs", 61, &[]);
}
