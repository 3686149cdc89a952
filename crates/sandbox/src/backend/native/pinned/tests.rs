#![expect(
    clippy::disallowed_methods,
    reason = "processes of their own, whose descriptors nobody else changes"
)]

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::{
    DeletedBytes, DeletedFiles, DescriptorOwners, DescriptorScan, DiskGrowth, Visibility, device_of,
    has_queued_descriptors, has_unaccepted, mount_of, netlink_bytes, parse_mapping,
};
use crate::tree::FileId;

/// A process that alone has a file of 1 MiB open; with its folder, its path and its number.
struct Holder {
    process: Child,
    folder: tempfile::TempDir,
    path: PathBuf,
    file: FileId,
}

impl Holder {
    fn start() -> Holder {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut file = File::create(&path).unwrap();
        file.write_all(&vec![1; 1 << 20]).unwrap();
        file.sync_all().unwrap();
        let found = file.metadata().unwrap();
        let mut process = Command::new("sh")
            .args(["-c", "echo ready; read _"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(file)
            .spawn()
            .unwrap();
        // Before that, it has files of its own open for a moment.
        let mut ready = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut ready)
            .unwrap();
        Holder {
            process,
            folder,
            path,
            file: (found.dev(), found.ino()),
        }
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.process.id()).unwrap()
    }

    fn owners(&self) -> DescriptorOwners {
        let folder = File::open(self.folder.path()).unwrap();
        DescriptorOwners {
            processes: vec![self.pid()],
            mounts: HashSet::from([mount_of(folder.as_fd()).unwrap()]),
            devices: HashMap::from([(self.file.0, self.file.0)]),
            has_unaccepted: false,
        }
    }

    /// The folder itself, because a place always has a name.
    fn named(&self) -> HashMap<FileId, u64> {
        let found = fs::metadata(self.folder.path()).unwrap();
        HashMap::from([((found.dev(), found.ino()), 4096)])
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_program_that_runs_keeps_its_deleted_file() {
    let holder = Holder::start();
    let path = holder.folder.path().join("program");
    fs::copy("/bin/sleep", &path).unwrap();
    let mut process = Command::new(&path).arg("60").spawn().unwrap();
    let found = fs::metadata(&path).unwrap();
    let pid = i32::try_from(process.id()).unwrap();
    let held = |owners: &DescriptorOwners, named: &HashMap<FileId, u64>| {
        let mut scan = DescriptorScan::new(owners, named);
        scan.add_executable(pid);
        scan.held
    };
    let (owners, named) = (holder.owners(), holder.named());
    assert_eq!(held(&owners, &named), HashMap::new());
    fs::remove_file(&path).unwrap();
    let expected = HashMap::from([((found.dev(), found.ino()), found.blocks() * 512)]);
    let seen = held(&owners, &named);
    process.kill().unwrap();
    process.wait().unwrap();
    assert_eq!(seen, expected);
}

/// Where volumes have numbers of their own, a list of mappings names the whole file system.
#[test]
fn a_deleted_file_that_is_mapped_counts_by_whatever_device_the_list_names() {
    const VOLUME: u64 = 77;
    let holder = Holder::start();
    let path = holder.folder.path().join("program");
    fs::copy("/bin/sleep", &path).unwrap();
    let number = fs::metadata(&path).unwrap().ino();
    let mut process = Command::new(&path).arg("60").spawn().unwrap();
    let pid = i32::try_from(process.id()).unwrap();
    fs::remove_file(&path).unwrap();
    let mut owners = holder.owners();
    let named = HashMap::from([((VOLUME, 1), 4096)]);
    let seen = |owners: &DescriptorOwners| {
        let mut scan = DescriptorScan::new(owners, &named);
        scan.add_mappings(pid);
        let files: HashSet<FileId> = scan.held.into_keys().chain(scan.mapped).collect();
        files
    };
    owners.devices.clear();
    let unknown = seen(&owners);
    owners.devices.insert(holder.file.0, VOLUME);
    let known = seen(&owners);
    process.kill().unwrap();
    process.wait().unwrap();
    assert_eq!((unknown, known), (HashSet::new(), HashSet::from([(VOLUME, number)])));
    let table = "36 35 0:44 / /x rw - btrfs /dev/x rw\n37 35 254:1 / /y rw - ext4 /dev/y rw\n";
    assert_eq!(device_of(table, "37"), Some(rustix::fs::makedev(254, 1)));
    assert_eq!(device_of(table, "3"), None);
}

#[test]
fn queues_of_netlink_are_added_up() {
    let list = "sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode\n\
                00000000 0 123 00000000 4096 0 0 2 0 77\n\
                00000000 0 124 00000000 1000 24 0 2 0 78\n";
    assert_eq!(netlink_bytes(list), 5120);
}

#[test]
fn lines_of_the_kernel_are_read() {
    let line = "7f00-8000 r--p 00000000 fe:01 1234                       /place/x (deleted)";
    assert_eq!(
        parse_mapping(line),
        Some(("7f00-8000", (rustix::fs::makedev(0xfe, 1), 1234)))
    );
    assert_eq!(
        (
            has_queued_descriptors("pos:\t0\nscm_fds: 0\n"),
            has_queued_descriptors("scm_fds: 3\n")
        ),
        (false, true)
    );
}

#[test]
fn a_file_without_a_name_counts_as_long_as_it_is_open() {
    let mut holder = Holder::start();
    let mut deleted = DeletedFiles::default();
    let nothing = DeletedBytes {
        bytes: 0,
        visibility: Visibility::Complete,
    };
    assert_eq!(deleted.count(&holder.owners(), holder.named(), 0), nothing);
    fs::remove_file(&holder.path).unwrap();
    let held = deleted.count(&holder.owners(), holder.named(), 0);
    assert!(
        held.bytes >= 1 << 20 && held.visibility == Visibility::Complete,
        "{held:?}"
    );
    holder.process.kill().unwrap();
    holder.process.wait().unwrap();
    assert_eq!(deleted.count(&holder.owners(), holder.named(), 0), nothing);
}

/// As an ordinary user sees the files of Ringfence's own child in a sandbox.
#[test]
fn where_files_are_only_told_those_with_a_name_are_seen_and_others_are_not() {
    let holder = Holder::start();
    let task = PathBuf::from(format!("/proc/{0}/task/{0}", holder.pid()));
    let owners = holder.owners();
    // It may have inherited files of tests that run beside this one.
    let open = fs::read_dir(task.join("fd")).unwrap();
    let open = open.map(|entry| fs::metadata(entry.unwrap().path()).unwrap());
    let mut named: HashMap<FileId, u64> = open.map(|found| ((found.dev(), found.ino()), 0)).collect();
    named.remove(&holder.file);
    let visibility = |named: &HashMap<FileId, u64>| {
        let mut scan = DescriptorScan::new(&owners, named);
        assert!(scan.add_reported_files(&task));
        scan.visibility
    };
    assert_eq!(visibility(&named), Visibility::Partial);
    named.insert(holder.file, 1 << 20);
    assert_eq!(visibility(&named), Visibility::Complete);
}

#[test]
fn what_was_there_counts_as_held_only_when_not_everything_is_seen_twice_in_a_row() {
    let (kept, gone) = ((1, 1), (1, 2));
    let owners = |has_unaccepted: bool| DescriptorOwners {
        processes: Vec::new(),
        mounts: HashSet::new(),
        devices: HashMap::new(),
        has_unaccepted,
    };
    let mut deleted = DeletedFiles::default();
    let mut count = |has_unaccepted: bool, named: &[FileId]| {
        let named = named.iter().map(|file| (*file, 100)).collect();
        deleted.count(&owners(has_unaccepted), named, 0).bytes
    };
    assert_eq!(count(false, &[kept, gone]), 0);
    assert_eq!(count(true, &[kept]), 0);
    assert_eq!(count(true, &[kept]), 100);
    assert_eq!(count(true, &[kept, gone]), 0);
    assert_eq!(count(true, &[kept]), 100);
    assert_eq!(count(false, &[kept]), 0);
    assert_eq!(count(true, &[kept]), 0);
    assert_eq!(count(true, &[kept]), 0);
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
    // One partial scan proves nothing; after the second the growth counts as the sandbox's, except for 64 MiB.
    assert_eq!(bound(1100, 20, Visibility::Partial), 20);
    assert_eq!(bound(1100, 20, Visibility::Partial), 46);
    assert_eq!(bound(1100, 20, Visibility::Complete), 20);
    assert_eq!(bound(1110, 20, Visibility::Partial), 20);
    assert_eq!(bound(1110, 20, Visibility::Partial), 20);
    assert_eq!(bound(1190, 25, Visibility::Partial), 46);
    // What others delete does not lower what the host sees.
    assert_eq!(bound(500, 25, Visibility::Partial), 25);
}
