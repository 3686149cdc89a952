use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::path::RelPath;

fn globs(texts: &[&str]) -> Vec<Glob> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// The state in `folder`, of which the first `above` names lie above the mount.
fn state(set: &GlobSet<'_>, folder: &str, above: usize) -> GlobState {
    let names: Vec<&str> = folder.split('/').filter(|name| !name.is_empty()).collect();
    let mut state = set.root_state();
    if above == 0 {
        state = set.mount_state(&state);
    }
    for (index, name) in names.iter().enumerate() {
        state = set.enter(&state, name);
        if index + 1 == above {
            state = set.mount_state(&state);
        }
    }
    state
}

#[track_caller]
fn hidden(glob: &str, (folder, above): (&str, usize), name: &str, expected: bool) {
    let globs = globs(&[glob]);
    let set = GlobSet::new(&globs);
    let found = set.hidden_by(&state(&set, folder, above), name);
    assert_eq!(found.is_some(), expected, "{glob}: {name} in {folder}");
}

#[test]
fn the_names_above_a_mount_count_for_globs_that_begin_anywhere() {
    hidden("**/.ssh/**", ("home/me", 2), ".ssh", true);
    hidden("**/.config/gcloud/**", ("home/me/.config", 3), "gcloud", true);
    hidden("**/.config/gcloud/**", ("home/me", 2), "gcloud", false);
    hidden("secret/keys", ("home/me/secret", 3), "keys", false);
    hidden("secret/keys", ("home/me/secret", 2), "keys", true);
    hidden("home", ("home/me", 2), "home", true);
}

#[test]
fn a_folder_is_hidden_with_all_that_it_holds() {
    for (glob, folder, expected) in [
        ("keys/*", "keys", true),
        ("keys/**/*", "keys", true),
        ("**/keys/*", "a/keys", true),
        ("keys/*/x", "keys", false),
        ("**/*e", "some", false),
        ("**/any*", "some", false),
    ] {
        let globs = globs(&[glob]);
        let set = GlobSet::new(&globs);
        assert_eq!(
            set.hides_all(&state(&set, folder, 0)).is_some(),
            expected,
            "{glob} {folder}"
        );
    }
}

#[test]
fn names_that_are_written_out_are_known_ahead() {
    let globs = globs(&[
        "**/.ssh/**",
        "**/.env*",
        "**/*.pem",
        "**/.config/gcloud/**",
        "top",
        "a?",
        "**/.ssh",
    ]);
    let set = GlobSet::new(&globs);
    assert_eq!(set.known_names(&state(&set, "", 0)), [".ssh", ".env", "top"]);
    assert_eq!(set.known_names(&state(&set, ".config", 0)), [".ssh", ".env", "gcloud"]);
}

#[test]
fn a_deep_path_costs_no_more_than_its_names() {
    let deep: Glob = format!("{}x", "**/a/".repeat(200)).parse().unwrap();
    let path: RelPath = vec!["a"; 2_000].join("/").parse().unwrap();
    let many = globs(&["**/.ssh/**", "**/.env*", "**/*.pem", "**/a/**/b"]);
    let started = Instant::now();
    assert!(!deep.hides(&path));
    for _ in 0..100 {
        assert!(!many.iter().any(|glob| glob.hides(&path)));
    }
    // Comparing every prefix again took minutes.
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

proptest! {
    #[test]
    fn a_walk_hides_what_the_glob_hides(
        glob in "(\\*\\*/|)[ab*?]{1,3}(/([ab*]{1,2}|\\*\\*)){0,3}",
        path in "[ab]{1,2}(/[ab]{1,2}){0,4}",
    ) {
        let Ok(glob) = glob.parse::<Glob>() else { return Ok(()) };
        let parsed: RelPath = path.parse().unwrap();
        let globs = [glob.clone()];
        let set = GlobSet::new(&globs);
        let mut state = set.mount_state(&set.root_state());
        let mut walked = false;
        for name in parsed.segments() {
            if set.hidden_by(&state, name).is_some() {
                walked = true;
                break;
            }
            state = set.enter(&state, name);
        }
        prop_assert_eq!(walked, glob.hides(&parsed), "{} {}", glob, path);
        // The matcher of single globs agrees.
        let parts: Vec<&str> = path.split('/').collect();
        let slowly = (1..=parts.len()).any(|end| {
            glob.segments.covers(&crate::segments::Segments::literal(parts[..end].iter().copied()))
        });
        prop_assert_eq!(slowly, glob.hides(&parsed), "{} {}", glob, path);
    }
}
