use crate::Draft;

#[test]
fn a_name_is_not_part_of_the_file() {
    let draft = Draft::empty().with_name("mine");
    assert_eq!(serde_json::to_string(&draft).unwrap(), "{}");
    assert!(Draft::parse("name: mine", "x").is_err());
}

#[test]
fn mounts_that_could_not_be_meant_are_refused() {
    for (mount, reason) in [
        (
            "{ path: /a, access: ro, from: x, quota: 1MiB }",
            "is read-only and can have no `quota`",
        ),
        ("{ path: /a, access: ro, from: x, keep: true }", "can only be kept"),
        ("{ path: /a, access: rw, from: x, keep: true }", "can only be kept"),
        (
            "{ path: /a, access: rw, quota: 1MiB, keep_for: 1h }",
            "without `keep: true`",
        ),
        (
            "{ path: /a, access: rw, quota: 1MiB, clean: on_complete }",
            "has `clean` without `keep: true`",
        ),
        ("{ path: /a, access: ro }", "needs `from`"),
        ("{ path: /a, access: rw }", "needs a `quota`"),
        ("{ path: /, access: rw, quota: 1MiB }", "`/` itself cannot be named"),
        ("{ path: /a/../b, access: rw, quota: 1MiB }", "`.` or `..`"),
    ] {
        let error = Draft::parse(&format!("fs: {{ mounts: [{mount}] }}"), "x").unwrap_err();
        assert!(error.to_string().contains(reason), "{mount}: {error}");
    }
}
