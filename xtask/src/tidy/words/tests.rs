use super::super::tree::ProjectTree;
use super::check;

#[track_caller]
fn judge(path: &str, line: &str, expected: Option<&str>) {
    let found = check(&ProjectTree::from_texts(&[(path, &format!("fine\n{line}\n"))]));
    let names: Vec<_> = found
        .iter()
        .map(|finding| finding.message.split('`').nth(1).unwrap_or_default())
        .collect();
    assert_eq!(names, expected.into_iter().collect::<Vec<_>>(), "{path}: {line}");
    assert!(
        found.iter().all(|finding| finding.place == format!("{path}:2")),
        "{found:?}"
    );
}

const SOURCE: &str = "crates/engine/src/run.rs";

#[test]
fn an_open_end_names_its_issue() {
    judge(SOURCE, "// TODO: later", Some("TODO"));
    judge(SOURCE, "// TODO(#12): later", None);
    judge(SOURCE, "// TODO #12: later", None);
    judge(SOURCE, "// TODO(#12) and TODO", Some("TODO"));
    judge(SOURCE, "// TODO(#): later", Some("TODO"));
    judge(SOURCE, "const TODO_LIST: u8 = 1;", None);
    judge(SOURCE, "// FIXME #12", Some("FIXME"));
}

#[test]
fn leftovers_are_found() {
    judge(SOURCE, "    dbg!(value);", Some("dbg!"));
    judge(SOURCE, "    #[ignore = \"slow\"]", Some("#[ignore]"));
    judge("README.md", "Simply run it.", Some("simply"));
    judge("README.md", "It runs simplyfied.", None);
}

#[test]
fn registries_are_named_only_where_a_policy_speaks_of_them() {
    judge(".ci/run", "curl https://static.rust-lang.org/x", Some("registry"));
    judge("README.md", "It is on crates.io.", Some("registry"));
    judge("deny.toml", "registry.npmjs.org", Some("registry"));
    judge(
        "Cargo.lock",
        "source = \"registry+https://github.com/rust-lang/crates.io-index\"",
        None,
    );
    judge("policies/net/npm.yaml", "- { host: registry.npmjs.org }", None);
    judge("crates/engine/src/run/tests.rs", "host: pypi.org", None);
}

#[test]
fn paths_of_one_machine_are_found() {
    judge(SOURCE, "\"/work/main/x\"", Some("machine path"));
    judge(SOURCE, "see /root/notes", Some("machine path"));
    judge(SOURCE, "/workspace/a /rooted target/work/x ./root/x", None);
    judge("crates/sandbox/tests/it/escape.rs", "read(\"/root/.ssh/id\")", None);
    judge("crates/probe/src/secrets.rs", "\"/root/.ssh/id\"", None);
}

#[test]
fn the_project_speaks_of_itself_alone() {
    judge("README.md", "An AI-generated file.", Some("authorship"));
    judge("CHANGELOG.md", "Co-Authored-By: somebody", Some("authorship"));
    judge("docs/x.md", "ask your assistant", Some("authorship"));
    judge(SOURCE, "role: \"assistant\"", None);
    judge("README.md", "Ringfence lets an AI agent do real work.", None);
}

#[test]
fn what_others_wrote_is_not_ours_to_mend() {
    judge("crates/policy/testdata/hosts.txt", "TODO crates.io /root/x", None);
    judge("LICENSE", "simply", None);
}
