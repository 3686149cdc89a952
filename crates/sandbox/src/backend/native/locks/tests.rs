#![expect(
    clippy::disallowed_methods,
    reason = "processes of their own, whose descriptors nobody else changes"
)]

use std::fs::{self, File};
use std::process::{Command, Stdio};

use super::{add_locks, count, locks_in};
use crate::tree::unless_ending;

#[test]
fn lines_of_locks_are_counted_and_no_others() {
    let text = b"pos:\t0\nflags:\t02\nmnt_id:\t25\nino:\t17\n\
                 lock:\t1: POSIX  ADVISORY  WRITE 4711 00:2d:17 0 0\nlock:\t2: FLOCK  ADVISORY  READ 4711 00:2d:17 0 EOF\n";
    assert_eq!(locks_in(text), 2);
    assert_eq!(locks_in(b"tfd: 5 events: 19 data: 5 lock: 1\n"), 0);
}

#[test]
fn a_lock_counts_once_however_often_its_file_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    // A lock of the open file, so that another process has it too: that process has no other locks.
    let file = File::create(&path).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let same = || Stdio::from(file.try_clone().unwrap());
    let mut process = Command::new("sleep")
        .arg("600")
        .stdin(same())
        .stdout(same())
        .stderr(same())
        .spawn()
        .unwrap();
    let counted = count(&[i32::try_from(process.id()).unwrap()]);
    process.kill().unwrap();
    process.wait().unwrap();
    assert_eq!(counted.unwrap(), 1);
}

#[test]
fn a_thread_that_has_ended_is_gone_and_any_other_must_be_looked_at() {
    let refused = || -> std::io::Result<()> { Err(std::io::ErrorKind::PermissionDenied.into()) };
    let mut process = Command::new("true").spawn().unwrap();
    let task = std::path::PathBuf::from(format!("/proc/{0}/task/{0}", process.id()));
    // The parent has not reaped it, so it still exists.
    while !fs::read_to_string(task.join("stat")).unwrap().contains(") Z ") {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(unless_ending(&task, refused()).unwrap().is_none());
    add_locks(&task, &mut 0).unwrap();
    process.wait().unwrap();
    assert!(unless_ending(&task, refused()).unwrap().is_none());
    let own = std::path::Path::new("/proc/thread-self");
    unless_ending(own, refused()).unwrap_err();
}

#[test]
fn a_process_that_is_gone_has_none() {
    assert_eq!(count(&[i32::MAX]).unwrap(), 0);
}
