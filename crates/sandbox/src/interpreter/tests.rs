use std::path::{Path, PathBuf};

use super::{ask, prefixes};

#[test]
fn the_systems_python_says_where_it_lives() {
    let found = ask(Path::new("/usr/bin/python3")).unwrap();
    assert_eq!(found.path, Path::new("/usr/bin/python3"));
    assert_eq!(found.prefixes, [PathBuf::from("/usr")]);
}

#[test]
fn what_is_no_python_is_an_error() {
    for path in ["/usr/bin/false", "/usr/bin/true", "/nowhere/python3", "/etc/passwd"] {
        assert!(ask(Path::new(path)).is_err(), "{path}");
    }
}

#[test]
fn the_whole_machine_is_never_a_library() {
    assert!(prefixes("/\n/usr\n").is_err());
    assert!(prefixes("relative\n").is_err());
    assert!(prefixes("").is_err());
    assert_eq!(prefixes("/usr\n/usr\n").unwrap(), [PathBuf::from("/usr")]);
}
