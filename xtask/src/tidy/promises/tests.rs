use super::super::tree::ProjectTree;
use super::{check, promise_number, test_references};

const SUITE: (&str, &str) = (
    "crates/sandbox/tests/it/limits.rs",
    "#[test]\nfn a_fork_bomb_ends() {}\n\n#[tokio::test(start_paused = true)]\n#[cfg(unix)]\n\
     async fn a_sleeper_ends() {}\n\nfn helper() {}\n// #[test]\nfn commented() {}\n",
);

#[track_caller]
fn judge(specification: &str, expected: &[&str]) {
    let tree = ProjectTree::from_texts(&[SUITE, ("examples/csv.sh", ""), ("SPECIFICATION.md", specification)]);
    let found = check(&tree);
    let found: Vec<_> = found
        .into_iter()
        .map(|finding| format!("{}: {}", finding.place, finding.message))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn a_promise_with_its_test_passes() {
    judge(
        "# Limits\n1. A fork bomb ends (test: `limits::a_fork_bomb_ends`).\n",
        &[],
    );
    judge(
        "**1.2** It ends.\n  test: a_fork_bomb_ends, `limits::a_sleeper_ends`, as it should.\n",
        &[],
    );
    judge(
        "| 1.1 | It ends | test: crates/sandbox/tests/it/limits.rs::a_sleeper_ends |\n",
        &[],
    );
    judge(
        "1. The examples run. test: examples/csv.sh\n2. All of them. test: examples/\n",
        &[],
    );
}

#[test]
fn a_promise_without_a_test_fails() {
    let missing = "names no test; write `test: module::name`";
    judge(
        "Words.\n\n1. It ends.\n",
        &[&format!("SPECIFICATION.md:3: promise 1 {missing}")],
    );
    judge(
        "**P1.2** It ends.\n\nFar below: test: a_fork_bomb_ends\n",
        &[&format!("SPECIFICATION.md:1: promise P1.2 {missing}")],
    );
    judge(
        "1. One.\n2. Two. test: a_fork_bomb_ends\n",
        &[&format!("SPECIFICATION.md:1: promise 1 {missing}")],
    );
}

#[test]
fn a_test_that_does_not_exist_is_named() {
    for name in [
        "a::gone",
        "helper",
        "commented",
        "crates/sandbox/tests/it/other.rs::a_fork_bomb_ends",
        "examples/x.sh",
    ] {
        let expected = format!("SPECIFICATION.md:1: promise 1 names `{name}`, which does not exist");
        judge(&format!("1. It ends. test: {name}\n"), &[&expected]);
    }
}

#[test]
fn a_number_is_given_once() {
    judge(
        "**1.1** One. test: a_fork_bomb_ends\n\n**1.1** Two. test: a_fork_bomb_ends\n",
        &["SPECIFICATION.md:3: there are two promises numbered 1.1"],
    );
}

#[test]
fn without_a_specification_there_is_nothing_to_check() {
    assert_eq!(check(&ProjectTree::from_texts(&[SUITE])), []);
}

#[test]
fn a_number_is_told_from_prose() {
    for (line, expected) in [
        ("1. It ends", Some("1")),
        ("- **2.3** It ends", Some("2.3")),
        ("**P-4.** It ends", Some("P-4")),
        ("| 5.6 | It ends |", Some("5.6")),
        ("| number | promise |", None),
        ("|---|---|", None),
        ("**Words** in bold", None),
        ("10 MB is the most. Really", None),
        ("", None),
    ] {
        assert_eq!(promise_number(line).as_deref(), expected, "{line}");
    }
}

#[test]
fn examples_in_a_fence_are_no_promises() {
    judge("```text\n1. It ends.\n```\n", &[]);
}

#[test]
fn references_end_where_the_sentence_goes_on() {
    assert_eq!(test_references("test: a::b, c::d; and more"), ["a::b", "c::d"]);
    assert_eq!(test_references("(test: `a::b`), which shows"), ["a::b"]);
    assert_eq!(test_references("no test here"), Vec::<String>::new());
}
