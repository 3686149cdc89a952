use std::fs;
use std::path::Path;

use super::{NEEDS, advice, missing};

fn place(system: &Path, file: &str) {
    let place = system.join(file);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::write(place, "").unwrap();
}

#[test]
fn on_an_empty_system_everything_is_missing() {
    let system = tempfile::tempdir().unwrap();
    assert_eq!(missing(system.path()).len(), NEEDS.len());
}

#[test]
fn one_of_a_packages_files_is_enough() {
    let system = tempfile::tempdir().unwrap();
    for need in &NEEDS {
        place(system.path(), need.files[need.files.len() - 1]);
    }
    assert!(missing(system.path()).is_empty());
    fs::remove_file(system.path().join("usr/bin/bwrap")).unwrap();
    let packages: Vec<_> = missing(system.path()).iter().map(|need| need.package).collect();
    assert_eq!(packages, ["bubblewrap"]);
}

#[test]
fn the_advice_is_a_line_to_paste() {
    let expected = "  sudo sh -c 'apt-get update && apt-get install -y --no-install-recommends bubblewrap git'";
    assert_eq!(advice(&["bubblewrap", "git"]), expected);
}
