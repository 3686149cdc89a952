use std::fs::File;

use super::{count, locks_in};

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
    let own = [i32::try_from(std::process::id()).unwrap()];
    let before = count(&own).unwrap();
    let file = File::create(&path).unwrap();
    let again: Vec<File> = (0..20).map(|_| File::open(&path).unwrap()).collect();
    rustix::fs::fcntl_lock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    assert_eq!(count(&own).unwrap(), before + 1);
    drop((again, file));
    assert_eq!(count(&own).unwrap(), before);
}

#[test]
fn a_process_that_is_gone_has_none() {
    assert_eq!(count(&[i32::MAX]).unwrap(), 0);
}
