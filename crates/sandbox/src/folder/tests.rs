use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

use super::{empty, measure, remove};
use crate::tree::FolderUsage;

const MAX_HELD: FolderUsage = FolderUsage {
    bytes: u64::MAX,
    files: u64::MAX,
};

/// Everything that a program can leave in a place, and a neighbour that must not be touched.
fn hostile() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let base = tempfile::tempdir().unwrap();
    let (place, outside) = (base.path().join("place"), base.path().join("outside"));
    fs::create_dir_all(place.join("a/b")).unwrap();
    fs::create_dir_all(outside.join("precious")).unwrap();
    fs::write(outside.join("precious/file"), "stays").unwrap();
    fs::write(place.join("a/b/file"), "one").unwrap();
    fs::hard_link(place.join("a/b/file"), place.join("a/same")).unwrap();
    symlink(&outside, place.join("link")).unwrap();
    symlink("../../outside/precious", place.join("a/up")).unwrap();
    symlink("/", place.join("a/b/root")).unwrap();
    fs::write(place.join(OsStr::from_bytes(b"no \xff text\n")), "x").unwrap();
    let holes = fs::File::create(place.join("holes")).unwrap();
    holes.set_len(1 << 40).unwrap();
    rustix::fs::mkfifoat(CWD, place.join("pipe"), Mode::RUSR).unwrap();
    let closed = place.join("closed/in");
    fs::create_dir_all(closed.join("deeper/still")).unwrap();
    for folder in [&closed, closed.parent().unwrap()] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o0)).unwrap();
    }
    (base, place, outside)
}

/// Makes nested folders, so many that no path reaches the last.
fn deep(place: &Path, levels: u32) {
    let mut at = openat(CWD, place, OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
    for _ in 0..levels {
        mkdirat(&at, "d", Mode::RWXU).unwrap();
        at = openat(&at, "d", OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
    }
}

#[test]
fn a_hostile_place_is_removed_and_nothing_else() {
    let (_base, place, outside) = hostile();
    deep(&place, 6000);
    let mut budget = u64::MAX;
    assert!(remove(&place, &mut budget).unwrap());
    assert!(!place.exists());
    assert_eq!(fs::read_to_string(outside.join("precious/file")).unwrap(), "stays");
}

#[test]
fn emptying_stops_where_its_budget_ends_and_goes_on_later() {
    let (_base, place, outside) = hostile();
    deep(&place, 300);
    let mut rounds = 0;
    while !empty(&place, &mut 50).unwrap() {
        rounds += 1;
        assert!(rounds < 1000, "it never ends");
    }
    assert!(rounds > 5, "{rounds}");
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
    assert!(outside.join("precious/file").exists());
}

#[test]
fn a_link_in_the_place_of_a_folder_is_not_followed() {
    let (base, _, outside) = hostile();
    let link = base.path().join("way");
    symlink(&outside, &link).unwrap();
    remove(&link, &mut 100).unwrap_err();
    measure(&link, MAX_HELD).unwrap_err();
    assert!(outside.join("precious/file").exists());
}

#[test]
fn what_is_not_there_is_empty_and_gone() {
    let base = tempfile::tempdir().unwrap();
    let none = base.path().join("none");
    assert_eq!(measure(&none, MAX_HELD).unwrap(), FolderUsage::default());
    assert!(remove(&none, &mut 1).unwrap());
}

#[test]
fn holes_count_nothing_and_each_entry_counts_one() {
    let base = tempfile::tempdir().unwrap();
    fs::create_dir(base.path().join("folder")).unwrap();
    fs::write(base.path().join("folder/file"), vec![1; 10_000]).unwrap();
    let holes = fs::File::create(base.path().join("holes")).unwrap();
    holes.set_len(1 << 40).unwrap();
    let held = measure(base.path(), MAX_HELD).unwrap();
    assert_eq!(held.files, 3);
    assert!((10_000..100_000).contains(&held.bytes), "{held:?}");
}

#[test]
fn what_no_path_reaches_counts_as_too_much() {
    let base = tempfile::tempdir().unwrap();
    deep(base.path(), 2200);
    let most = FolderUsage {
        bytes: 1 << 30,
        files: 1 << 20,
    };
    let held = measure(base.path(), most).unwrap();
    assert!(held.bytes > most.bytes, "{held:?}");
    let mut budget = u64::MAX;
    assert!(remove(base.path(), &mut budget).unwrap());
    fs::create_dir(base.path()).unwrap();
}

#[test]
fn other_names_of_a_file_are_no_more_files() {
    let base = tempfile::tempdir().unwrap();
    let file = base.path().join("file");
    fs::write(&file, "").unwrap();
    for number in 0..1_000 {
        fs::hard_link(&file, base.path().join(number.to_string())).unwrap();
    }
    let most = FolderUsage {
        bytes: 1 << 20,
        files: 2,
    };
    assert_eq!(measure(base.path(), most).unwrap(), FolderUsage { bytes: 0, files: 1 });
}
