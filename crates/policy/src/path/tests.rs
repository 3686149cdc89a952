use proptest::prelude::*;

use super::*;
use crate::fuzz::fuzz_path;
use crate::testdata::rows;

#[test]
fn relative_paths_stay_in_their_folder() {
    for row in rows(include_str!("../../testdata/paths.tsv")) {
        let got = if row.spelling.parse::<RelPath>().is_ok() {
            "ok"
        } else {
            "refused"
        };
        assert_eq!(got, row.expected, "{:?} ({})", row.spelling, row.note);
        // The same spelling below a root is a path in the sandbox.
        let guest = format!("/{}", row.spelling).parse::<GuestPath>().is_ok();
        let absolute = row.spelling.starts_with('/');
        assert_eq!(guest, row.expected == "ok" && !absolute, "/{:?}", row.spelling);
        fuzz_path(row.spelling.as_bytes());
    }
}

#[test]
fn guest_paths_are_absolute_and_not_the_root() {
    assert_eq!("/".parse::<GuestPath>(), Err(PathError::Root));
    assert_eq!("".parse::<GuestPath>(), Err(PathError::Empty));
    assert_eq!("a".parse::<GuestPath>(), Err(PathError::Relative("a".to_owned())));
}

#[test]
fn what_the_sandbox_fills_cannot_be_mounted() {
    for path in [
        "/proc",
        "/proc/sys",
        "/dev",
        "/sys/fs",
        "/usr",
        "/usr/lib/x",
        "/etc",
        "/lib64",
    ] {
        assert!(
            path.parse::<GuestPath>().unwrap().require_mountable().is_err(),
            "{path}"
        );
    }
    for path in ["/workspace", "/deps", "/data/proc", "/library", "/processing"] {
        assert!(path.parse::<GuestPath>().unwrap().require_mountable().is_ok(), "{path}");
    }
}

#[test]
fn below_compares_whole_segments() {
    let at = |text: &str| text.parse::<GuestPath>().unwrap();
    assert_eq!(at("/data/x").below(&at("/data")), Some("x".parse().ok()));
    assert_eq!(at("/data").below(&at("/data")), Some(None));
    assert_eq!(at("/database").below(&at("/data")), None);
    assert_eq!(at("/data").below(&at("/data/x")), None);
}

proptest! {
    #[test]
    fn accepted_paths_never_escape(text in "(\\.|/|\\PC|\\x00|[a-c]){0,24}") {
        fuzz_path(text.as_bytes());
    }

    #[test]
    fn a_joined_path_stays_below(text in "[a-c./]{1,16}") {
        if let Ok(path) = text.parse::<RelPath>() {
            let joined = Path::new("/root/folder").join(path.as_path());
            prop_assert!(joined.starts_with("/root/folder"));
            let plain = joined
                .components()
                .all(|part| !matches!(part, std::path::Component::ParentDir));
            prop_assert!(plain);
        }
    }
}
