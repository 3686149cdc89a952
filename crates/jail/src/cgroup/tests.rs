use std::os::fd::AsFd;
use std::time::Duration;

use tempfile::TempDir;

use super::*;

/// A host made of plain folders, for testing trees that this machine lacks.
struct MadeUp {
    folder: TempDir,
    machine: HostCgroups,
}

fn unified(own: &str, controllers: &str) -> MadeUp {
    let folder = tempfile::tempdir().unwrap();
    let point = folder.path().display().to_string();
    let home = folder.path().join(own.trim_start_matches('/'));
    fs::create_dir_all(&home).unwrap();
    for place in home.ancestors().take_while(|place| place.starts_with(folder.path())) {
        fs::write(place.join("cgroup.procs"), "").unwrap();
    }
    fs::write(home.join("cgroup.controllers"), controllers).unwrap();
    let machine = HostCgroups {
        mounts: format!("30 23 0:26 / {point} rw,relatime - cgroup2 cgroup2 rw\n"),
        own: format!("0::{own}\n"),
    };
    MadeUp { folder, machine }
}

const LIMITS: LeafLimits = LeafLimits {
    memory: 64 << 20,
    sockets: 8 << 20,
    processes: 10,
    cpu_millis: 1500,
};

#[test]
fn the_unified_tree_limits_what_it_can() {
    let made_up = unified("/user.slice/app", "cpu io memory pids");
    let claim = CgroupClaim::new(&made_up.machine, "ringfence-a");
    assert_eq!(claim.missing(), []);
    let beside = made_up.folder.path().join("user.slice/ringfence-a");
    assert_eq!(claim.folders(), std::slice::from_ref(&beside));
    assert_eq!(
        fs::read_to_string(beside.join("cgroup.subtree_control")).unwrap(),
        "+memory +pids +cpu"
    );
    let group = claim.group("sandbox-0").unwrap();
    let leaf = group.leaf("x1", &LIMITS).unwrap();
    let at = |name: &str| fs::read_to_string(beside.join("sandbox-0/x1").join(name)).unwrap();
    assert_eq!(
        (
            at("memory.max").as_str(),
            at("pids.max").as_str(),
            at("cpu.max").as_str()
        ),
        ("67108864", "10", "150000 100000")
    );
    for (name, text) in [
        ("memory.events", "low 0\nhigh 0\nmax 3\noom 1\noom_kill 2\n"),
        ("memory.peak", "4096\n"),
        ("pids.events", "max 5\n"),
        ("cpu.stat", "usage_usec 1500\nuser_usec 1000\n"),
    ] {
        fs::write(beside.join("sandbox-0/x1").join(name), text).unwrap();
    }
    let expected = LeafUsage {
        cpu: Some(Duration::from_micros(1500)),
        peak_memory: Some(4096),
        memory_kills: 2,
        processes_refused: 5,
    };
    assert_eq!(leaf.usage().unwrap(), expected);
}

#[test]
fn numbers_of_the_old_tree_that_cannot_be_read_are_errors_and_those_that_are_missing_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let point = folder.path().display().to_string();
    let machine = HostCgroups {
        mounts: format!("30 23 0:26 / {point} rw,relatime - cgroup cgroup rw,memory\n"),
        own: "4:memory:/\n".to_owned(),
    };
    let claim = CgroupClaim::new(&machine, "ringfence-a");
    let group = claim.group("sandbox-0").unwrap();
    let leaf = group.leaf("x1", &LIMITS).unwrap();
    let above = folder.path().join("ringfence-a/sandbox-0");
    fs::write(above.join("memory.stat"), "total_shmem 0\n").unwrap();
    let at = |name: &str| above.join("x1").join(name);
    for (name, text) in [
        ("memory.max_usage_in_bytes", "4096\n"),
        ("memory.usage_in_bytes", "4096\n"),
        ("memory.oom_control", "oom_kill 0\n"),
        ("memory.stat", "rss 4096\n"),
    ] {
        fs::write(at(name), text).unwrap();
    }
    assert_eq!(leaf.usage().unwrap().peak_memory, Some(4096));
    assert_eq!(leaf.memory().unwrap().unwrap().own, 4096);
    let check = |name: &str, fails: &dyn Fn() -> bool| {
        assert!(!fails(), "{name} is missing");
        // A folder of this name can be opened but not read.
        fs::create_dir(at(name)).unwrap();
        assert!(fails(), "{name} cannot be read");
        fs::remove_dir(at(name)).unwrap();
        fs::write(at(name), "much\n").unwrap();
        assert!(fails(), "{name} holds no number");
        fs::remove_file(at(name)).unwrap();
    };
    check("memory.kmem.tcp.max_usage_in_bytes", &|| leaf.usage().is_err());
    check("memory.kmem.tcp.usage_in_bytes", &|| leaf.memory().is_err());
    check("memory.kmem.usage_in_bytes", &|| leaf.memory().is_err());
}

#[test]
fn an_empty_unified_tree_beside_the_old_ones_has_nothing() {
    let made_up = unified("/", "");
    let claim = CgroupClaim::new(&made_up.machine, "ringfence-a");
    assert_eq!(claim.folders(), [] as [std::path::PathBuf; 0]);
    assert_eq!(claim.missing().len(), Controller::ALL.len());
}

#[test]
fn a_tree_that_cannot_be_written_is_missing_with_the_reason() {
    let made_up = unified("/app", "memory");
    let mut machine = made_up.machine.clone();
    machine.mounts = machine
        .mounts
        .replace(&made_up.folder.path().display().to_string(), "/proc/nowhere");
    fs::remove_dir_all(made_up.folder.path()).unwrap();
    let claim = CgroupClaim::new(&machine, "ringfence-a");
    assert!(!claim.has(Controller::Memory));
}

#[test]
fn old_trees_are_found_below_the_root_that_is_mounted() {
    let machine = HostCgroups {
        mounts: "32 31 0:29 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                 33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                 34 31 0:31 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
                 35 31 0:32 / /tmp rw - tmpfs tmpfs rw\n\
                 nonsense\n"
            .to_owned(),
        own: "4:memory:/docker/abc/inner\n2:cpu,cpuacct:/x\n1:name=systemd:/y\n0::/\n".to_owned(),
    };
    let found: Vec<(Vec<Controller>, String)> = machine
        .trees()
        .into_iter()
        .map(|tree| (tree.controllers, tree.folder.display().to_string()))
        .collect();
    assert_eq!(
        found,
        [
            (vec![Controller::Memory], "/sys/fs/cgroup/memory/inner".to_owned()),
            (
                vec![Controller::Cpu, Controller::CpuTime],
                "/sys/fs/cgroup/cpu,cpuacct/x".to_owned()
            ),
        ]
    );
}

#[test]
fn a_real_leaf_counts_and_is_gone_afterwards() {
    let claim = CgroupClaim::new(
        &HostCgroups::detect().unwrap(),
        &format!("ringfence-test-{}", std::process::id()),
    );
    if claim.folders().is_empty() {
        println!("SKIPPED: no writable cgroup");
        return;
    }
    let folders = claim.folders();
    let group = claim.group("sandbox-0").unwrap();
    let leaf = group.leaf("x1", &LIMITS).unwrap();
    for task in leaf.task_files().unwrap() {
        crate::sys::fd::write_all(task.as_fd(), b"0").unwrap();
    }
    let ballast = vec![1u8; 4 << 20];
    assert!(
        leaf.usage().unwrap().peak_memory.is_none_or(|peak| peak > 0),
        "{}",
        ballast.len()
    );
    // This thread must leave the group before the group can be removed.
    for tree in HostCgroups::detect().unwrap().trees() {
        let home = claim
            .trees
            .iter()
            .find(|claimed| claimed.controllers == tree.controllers)
            .unwrap()
            .own_folder
            .clone();
        fs::write(
            home.join(if tree.version == CgroupVersion::V1 {
                "tasks"
            } else {
                "cgroup.procs"
            }),
            "0",
        )
        .unwrap();
    }
    drop((leaf, group, claim));
    assert!(folders.iter().all(|folder| !folder.exists()), "{folders:?}");
}
