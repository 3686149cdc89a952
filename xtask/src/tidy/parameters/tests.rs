use super::super::tree::ProjectTree;
use super::{check, tuple_parameters};

#[track_caller]
fn judge(text: &str, expected: &[&str]) {
    let found: Vec<String> = tuple_parameters(text)
        .into_iter()
        .map(|(line, name)| format!("{line} {name}"))
        .collect();
    assert_eq!(found, expected, "{text}");
}

#[test]
fn a_tuple_counts_taken_apart_or_not_and_behind_a_reference() {
    judge("fn one((a, b): (u8, u8)) {}", &["1 one"]);
    judge(
        "\nasync fn two(&self, pair: (u8, u8), (c, d): (u8, u8)) {}",
        &["2 two", "2 two"],
    );
    judge(
        "pub(crate) fn three<T: Into<(u8, u8)>>(\n    a: T,\n    b: &mut (T, u8),\n) {}",
        &["1 three"],
    );
    judge("fn four<F: Fn(u8) -> u8>(f: F, (a, b): (u8, u8)) {}", &["1 four"]);
}

#[test]
fn what_only_looks_like_a_tuple_does_not_count() {
    judge("fn one(error: &(dyn Error + 'static)) {}", &[]);
    judge(
        "fn two(f: impl Fn((u8, u8)) -> u8, list: &[(u8, u8)]) -> (u8, u8) { f((1, 2)) }",
        &[],
    );
    judge(
        "fn three(a: u8) { list.map(|(a, b)| a); let call: fn((u8, u8)) = x; }",
        &[],
    );
    judge(
        "// fn four((a, b): (u8, u8))\nfn five(text: &str) { say(\"fn six((a, b): (u8, u8))\") }",
        &[],
    );
    judge("fn seven(Point { x, y }: Point, Wrapper(id): Wrapper) {}", &[]);
}

#[test]
fn a_crate_has_as_many_as_the_list_says() {
    let found = |path: &str, text: &str| -> Vec<String> {
        let tree = ProjectTree::from_texts(&[(path, text)]);
        check(&tree).iter().map(ToString::to_string).collect()
    };
    let one = "fn one((a, b): (u8, u8)) {}\n";
    assert_eq!(
        found("crates/new/src/one.rs", one),
        [
            "error[parameters]: crates/new/src/one.rs:1: 1 parameters are tuples, at most 0 in `new`: make each a struct, or two parameters (`one`)"
        ]
    );
    assert_eq!(found("crates/new/src/tests.rs", one), [""; 0]);
    assert!(found("crates/engine/src/one.rs", one)[0].contains("still says"));
}
