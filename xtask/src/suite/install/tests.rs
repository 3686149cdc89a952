use std::fs;
use std::path::Path;

use super::{SYSTEM_PACKAGES, install_advice, missing_packages};

fn place(system: &Path, file: &str) {
    let place = system.join(file);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::write(place, "").unwrap();
}

#[test]
fn on_an_empty_system_everything_is_missing() {
    let system = tempfile::tempdir().unwrap();
    assert_eq!(missing_packages(system.path()).len(), SYSTEM_PACKAGES.len());
}

#[test]
fn one_of_a_packages_files_is_enough() {
    let system = tempfile::tempdir().unwrap();
    for need in &SYSTEM_PACKAGES {
        place(system.path(), need.files[need.files.len() - 1]);
    }
    assert!(missing_packages(system.path()).is_empty());
    fs::remove_file(system.path().join("usr/bin/bwrap")).unwrap();
    let packages: Vec<_> = missing_packages(system.path())
        .iter()
        .map(|need| need.package)
        .collect();
    assert_eq!(packages, ["bubblewrap"]);
}

#[test]
fn the_advice_is_a_line_to_paste() {
    let expected = "  sudo sh -c 'apt-get update && apt-get install -y --no-install-recommends bubblewrap git'";
    assert_eq!(install_advice(&["bubblewrap", "git"]), expected);
}
