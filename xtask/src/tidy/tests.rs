use super::graph::{DependencyGraph, DependencyKind};
use super::tree::ProjectTree;
use super::{RuleFinding, check_all};

#[test]
fn every_rule_has_its_say() {
    let tree = ProjectTree::from_texts(&[
        ("SPECIFICATION.md", "1. A promise.\n"),
        (
            "crates/jail/src/sys.rs",
            "//! Calls.\nfn f() {\n    unsafe { g() };\n}\n",
        ),
        ("crates/wire/src/lib.rs", concat!("// FIX", "ME\n")),
        ("crates/wire/src/long.rs", &"//! Long.\n".repeat(601)),
    ]);
    let graph = DependencyGraph::from_edges(
        &[
            (
                "wire",
                &[("jail", DependencyKind::Normal), ("libc", DependencyKind::Normal)],
            ),
            ("jail", &[]),
        ],
        &[],
    );
    let mut rules: Vec<_> = check_all(&tree, &graph)
        .into_iter()
        .map(|finding| finding.rule)
        .collect();
    rules.dedup();
    assert_eq!(
        rules,
        [
            "arrows",
            "fences",
            "parameters",
            "sizes",
            "opening",
            "unsafe",
            "promises",
            "words"
        ]
    );
}

#[test]
fn a_finding_reads_like_a_compilers() {
    let finding = RuleFinding::fault("sizes", "a.rs", "too long");
    assert_eq!(finding.to_string(), "error[sizes]: a.rs: too long");
    assert_eq!(
        RuleFinding::notice("sizes", "a.rs", "long").to_string(),
        "notice[sizes]: a.rs: long"
    );
}
