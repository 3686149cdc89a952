use super::*;

fn home() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("run")).unwrap();
    folder
}

fn cgroup(number: usize) -> LeasedResource {
    LeasedResource::Cgroup {
        path: format!("/sys/fs/cgroup/ringfence/{number}").into(),
    }
}

/// Ends a lease as `kill -9` does: the lock goes, the files stay.
fn kill(lease: Lease) {
    let mut lease = std::mem::ManuallyDrop::new(lease);
    let open = lease.file.get_mut().unwrap();
    open.file = File::open("/dev/null").unwrap();
}

fn files(home: &tempfile::TempDir) -> usize {
    fs::read_dir(home.path().join("run")).unwrap().count()
}

#[test]
fn a_living_lease_is_nobodys_to_sweep() {
    let home = home();
    let lease = Lease::acquire(home.path()).unwrap();
    lease.note_resource(cgroup(1)).unwrap();
    assert!(dead_leases(&home.path().join("run")).unwrap().is_empty());
}

#[test]
fn a_lease_with_nothing_left_leaves_nothing() {
    let home = home();
    let lease = Lease::acquire(home.path()).unwrap();
    lease.note_resource(cgroup(1)).unwrap();
    lease.forget_resource(&cgroup(1)).unwrap();
    lease.forget_resource(&cgroup(2)).unwrap();
    drop(lease);
    assert_eq!(files(&home), 0);
}

#[test]
fn a_dead_lease_tells_what_it_left_and_goes_when_removed() {
    let home = home();
    let run = home.path().join("run");
    let lease = Lease::acquire(home.path()).unwrap();
    let id = lease.id();
    for number in 1..=3 {
        lease.note_resource(cgroup(number)).unwrap();
    }
    lease.forget_resource(&cgroup(2)).unwrap();
    kill(lease);
    let mut dead = dead_leases(&run).unwrap();
    assert_eq!(dead.len(), 1);
    // A lease that one sweeper holds is not given to another.
    assert!(dead_leases(&run).unwrap().is_empty());
    let dead = dead.remove(0);
    assert_eq!(dead.id(), id);
    assert_eq!(dead.holder().unwrap().pid, std::process::id());
    assert_eq!(dead.resources(), [cgroup(1), cgroup(3)]);
    dead.remove().unwrap();
    assert_eq!(files(&home), 0);
}

#[test]
fn a_line_cut_short_by_death_hides_no_other() {
    let home = home();
    let run = home.path().join("run");
    let lease = Lease::acquire(home.path()).unwrap();
    lease.note_resource(cgroup(1)).unwrap();
    lease
        .file
        .lock()
        .unwrap()
        .file
        .write_all(b"{\"made\":{\"reso\xff")
        .unwrap();
    lease.file.lock().unwrap().torn = true;
    lease.note_resource(cgroup(2)).unwrap();
    kill(lease);
    assert_eq!(dead_leases(&run).unwrap()[0].resources(), [cgroup(1), cgroup(2)]);
}

#[test]
fn a_lease_that_made_much_stays_small_and_locked() {
    let home = home();
    let run = home.path().join("run");
    let lease = Lease::acquire(home.path()).unwrap();
    lease.note_resource(cgroup(0)).unwrap();
    for number in 1..3000 {
        lease.note_resource(cgroup(number)).unwrap();
        lease.forget_resource(&cgroup(number)).unwrap();
    }
    assert!(fs::metadata(&lease.path).unwrap().len() < 2 * COMPACT_BYTES);
    assert!(dead_leases(&run).unwrap().is_empty());
    kill(lease);
    assert_eq!(dead_leases(&run).unwrap()[0].resources(), [cgroup(0)]);
}

#[test]
fn what_is_not_a_lease_is_left_alone() {
    let home = home();
    let run = home.path().join("run");
    for name in ["notes.txt", "l_short.lock", "../../etc.lock".trim_start_matches("../")] {
        let path = run.join(name.replace('/', "_"));
        fs::write(path, "x").unwrap();
    }
    assert!(dead_leases(&run).unwrap().is_empty());
    assert_eq!(files(&home), 3);
}

#[test]
fn leases_taken_while_others_sweep_are_never_taken_for_dead() {
    let home = home();
    let run = home.path().join("run");
    std::thread::scope(|scope| {
        let takers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let lease = Lease::acquire(home.path()).unwrap();
                        lease.note_resource(cgroup(1)).unwrap();
                        lease.forget_resource(&cgroup(1)).unwrap();
                    }
                })
            })
            .collect();
        while !takers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            let dead = dead_leases(&run).unwrap();
            assert!(dead.is_empty(), "{dead:?}");
        }
    });
}
