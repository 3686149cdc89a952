use super::graph::{Graph, Kind};
use super::tree::Tree;
use super::{Finding, check};

#[test]
fn every_rule_has_its_say() {
    let tree = Tree::of(&[
        ("SPECIFICATION.md", "1. A promise.\n"),
        (
            "crates/jail/src/sys.rs",
            "//! Calls.\nfn f() {\n    unsafe { g() };\n}\n",
        ),
        ("crates/wire/src/lib.rs", concat!("// FIX", "ME\n")),
        ("crates/wire/src/long.rs", &"//! Long.\n".repeat(601)),
    ]);
    let graph = Graph::of(
        &[
            ("wire", &[("jail", Kind::Normal), ("libc", Kind::Normal)]),
            ("jail", &[]),
        ],
        &[],
    );
    let mut rules: Vec<_> = check(&tree, &graph).into_iter().map(|finding| finding.rule).collect();
    rules.dedup();
    assert_eq!(
        rules,
        ["arrows", "fences", "sizes", "opening", "unsafe", "promises", "words"]
    );
}

#[test]
fn a_finding_reads_like_a_compilers() {
    let finding = Finding::fault("sizes", "a.rs", "too long");
    assert_eq!(finding.to_string(), "error[sizes]: a.rs: too long");
    assert_eq!(
        Finding::notice("sizes", "a.rs", "long").to_string(),
        "notice[sizes]: a.rs: long"
    );
}
