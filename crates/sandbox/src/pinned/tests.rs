use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;

use super::{DeletedFiles, DescriptorOwners, DiskGrowth, Visibility, carries, has_unaccepted, mapping, netlink};

#[test]
fn queues_of_netlink_are_added_up() {
    let list = "sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode\n\
                00000000 0 123 00000000 4096 0 0 2 0 77\n\
                00000000 0 124 00000000 1000 24 0 2 0 78\n";
    assert_eq!(netlink(list), 5120);
}

#[test]
fn lines_of_the_kernel_are_read() {
    let line = "7f00-8000 r--p 00000000 fe:01 1234                       /place/x (deleted)";
    assert_eq!(mapping(line), Some(("7f00-8000", (rustix::fs::makedev(0xfe, 1), 1234))));
    assert_eq!(
        (carries("pos:\t0\nscm_fds: 0\n"), carries("scm_fds: 3\n")),
        (false, true)
    );
}

#[test]
fn a_file_without_a_name_counts_as_long_as_it_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let mut file = File::create(&path).unwrap();
    file.write_all(&vec![1; 1 << 20]).unwrap();
    file.sync_all().unwrap();
    let beside = fs::metadata(folder.path()).unwrap();
    let named = || HashMap::from([((beside.dev(), beside.ino()), 4096)]);
    let own = DescriptorOwners {
        processes: vec![i32::try_from(std::process::id()).unwrap()],
        has_unaccepted: false,
    };
    let mut deleted = DeletedFiles::default();
    let before = deleted.count(&own, named(), 0).bytes;
    fs::remove_file(&path).unwrap();
    let open = deleted.count(&own, named(), 0).bytes;
    assert!(open >= before + (1 << 20), "{before} {open}");
    drop(file);
    assert!(deleted.count(&own, named(), 0).bytes < open);
}

#[test]
fn connections_that_nobody_accepted_are_told_and_a_list_that_cannot_be_read_is_not_an_empty_one() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("unix");
    assert!(!has_unaccepted(&list).unwrap());
    for (number, expected) in [(17, false), (0, true)] {
        let line = format!("ffff: 00000002 00000000 00000000 0001 01 {number}\n");
        fs::write(&list, format!("Num RefCount Protocol Flags Type St Inode Path\n{line}")).unwrap();
        assert_eq!(has_unaccepted(&list).unwrap(), expected);
    }
    has_unaccepted(folder.path()).unwrap_err();
}

#[test]
fn what_is_not_seen_is_bounded_by_what_the_disk_grew_since_everything_was() {
    const MIB: u64 = 1 << 20;
    let mut growth = DiskGrowth::new(1000 * MIB, 10 * MIB);
    let mut bound = |in_use: u64, counted: u64, visibility| growth.bound(in_use * MIB, counted * MIB, visibility) / MIB;
    // One look at which something is on its way says nothing; after the second what grew is the sandbox's, but for 64 MiB.
    assert_eq!(bound(1100, 20, Visibility::Partial), 20);
    assert_eq!(bound(1100, 20, Visibility::Partial), 46);
    assert_eq!(bound(1100, 20, Visibility::Complete), 20);
    assert_eq!(bound(1110, 20, Visibility::Partial), 20);
    assert_eq!(bound(1110, 20, Visibility::Partial), 20);
    assert_eq!(bound(1190, 25, Visibility::Partial), 46);
    // What others delete makes nothing less than what is seen.
    assert_eq!(bound(500, 25, Visibility::Partial), 25);
}
