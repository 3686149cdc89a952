use std::path::{Path, PathBuf};

use super::{parse_prefixes, query_interpreter};

#[test]
fn the_systems_python_says_where_it_lives() {
    let found = query_interpreter(Path::new("/usr/bin/python3")).unwrap();
    assert_eq!(found.path, Path::new("/usr/bin/python3"));
    assert_eq!(found.prefixes, [PathBuf::from("/usr")]);
}

#[test]
fn what_is_no_python_is_an_error() {
    for path in ["/usr/bin/false", "/usr/bin/true", "/nowhere/python3", "/etc/passwd"] {
        assert!(query_interpreter(Path::new(path)).is_err(), "{path}");
    }
}

#[test]
fn the_whole_machine_is_never_a_library() {
    assert!(parse_prefixes("/\n/usr\n").is_err());
    assert!(parse_prefixes("relative\n").is_err());
    assert!(parse_prefixes("").is_err());
    assert_eq!(parse_prefixes("/usr\n/usr\n").unwrap(), [PathBuf::from("/usr")]);
}
