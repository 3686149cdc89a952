use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

#[track_caller]
fn hides(glob: &str, path: &str, expected: bool) {
    let glob: Glob = glob.parse().unwrap();
    assert_eq!(glob.hides(&path.parse().unwrap()), expected, "{glob} {path}");
}

#[test]
fn globs_hide_what_they_name_and_all_below() {
    hides("**/.ssh/**", ".ssh/id_rsa", true);
    hides("**/.ssh/**", "a/b/.ssh/keys/id", true);
    hides("**/.ssh/**", ".ssh", true);
    hides("**/.ssh/**", "x.ssh/id", false);
    hides("**/.env*", ".env", true);
    hides("**/.env*", "app/.env.local", true);
    hides("**/.env*", "app/.env.d/secret", true);
    hides("**/.env*", "app/env", false);
    hides("**/*.pem", "a/b/key.pem", true);
    hides("**/*.pem", "key.pem.txt", false);
    hides("secret", "secret/x/y", true);
    hides("secret", "a/secret", false);
    hides("a/*/c", "a/b/c", true);
    hides("a/*/c", "a/b/d/c", false);
    hides("a/**/c", "a/c", true);
    hides("a/**/c", "a/b/d/c", true);
    hides("file?.txt", "file1.txt", true);
    hides("file?.txt", "file10.txt", false);
    hides("file[0-9a].txt", "file7.txt", true);
    hides("file[0-9a].txt", "filea.txt", true);
    hides("file[!0-9].txt", "file7.txt", false);
    hides("file[!0-9].txt", "filex.txt", true);
    hides("[]]x", "]x", true);
    hides("[a-]", "-", true);
}

#[test]
fn useless_globs_are_errors() {
    for glob in [
        "", "/", "/etc/**", "**", "*", "**/*", "**/**", "*/**", "a//b", "a/", "./a", "../a", "a/..", "**a", "a**",
        "***", "[", "a[", "[]", "[a", "a]", "[b-a]", "[!]", "a\0b", "a\nb",
    ] {
        assert!(glob.parse::<Glob>().is_err(), "{glob:?}");
    }
    let error = "**".parse::<Glob>().unwrap_err().to_string();
    assert_eq!(error, "`**` matches everything: name what is to be hidden");
}

#[test]
fn globs_that_mean_something_elsewhere_are_errors_with_a_way_out() {
    let braces = "braces list nothing here, write one entry for each alternative (`[{]` is a brace in a name)";
    let home = "which stands for no folder here: globs are relative to each mount, write `**/…`";
    for (glob, expected) in [
        ("**/*.{key,txt}", format!("`**/*.{{key,txt}}`: {braces}")),
        ("a{b}/c", format!("`a{{b}}/c`: {braces}")),
        ("~/x", format!("`~/x` has `~`, {home}")),
        ("$HOME/.x", format!("`$HOME/.x` has `$HOME`, {home}")),
        ("${HOME}/.x", format!("`${{HOME}}/.x` has `${{HOME}}`, {home}")),
        (
            "**/$XDG_CONFIG_HOME/x",
            format!("`**/$XDG_CONFIG_HOME/x` has `$XDG_CONFIG_HOME`, {home}"),
        ),
    ] {
        assert_eq!(glob.parse::<Glob>().unwrap_err().to_string(), expected);
    }
    hides("**/*.[{]key,txt}", "a/b.{key,txt}", true);
    hides("a?b}", "a{b}", true);
    hides("**/$RECYCLE.BIN", "a/$RECYCLE.BIN", true);
    hides("**/~", "a/~", true);
    hides("**/*~", "a/old~", true);
}

#[test]
fn matching_does_not_explode() {
    let glob: Glob = format!("{}b", "*a".repeat(100)).parse().unwrap();
    let deep: Glob = format!("{}x", "**/a/".repeat(100)).parse().unwrap();
    let name: RelPath = "a".repeat(255).parse().unwrap();
    let path: RelPath = vec!["a"; 2_000].join("/").parse().unwrap();
    let started = Instant::now();
    assert!(!glob.matches(&name));
    assert!(!deep.matches(&path));
    assert!(started.elapsed() < Duration::from_secs(2));
}

proptest! {
    #[test]
    fn parsing_and_matching_never_panic(glob in "\\PC{0,24}", path in "[a-c./*\\[]{1,16}") {
        if let (Ok(glob), Ok(path)) = (glob.parse::<Glob>(), path.parse::<RelPath>()) {
            prop_assert!(!glob.matches(&path) || glob.hides(&path));
        }
    }

    #[test]
    fn a_literal_glob_matches_exactly_itself(path in "[a-c]{1,3}(/[a-c]{1,3}){0,3}", other in "[a-c]{1,3}(/[a-c]{1,3}){0,3}") {
        let glob: Glob = path.parse().unwrap();
        prop_assert_eq!(glob.matches(&other.parse().unwrap()), path == other);
    }
}
