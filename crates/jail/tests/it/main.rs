//! Jails made from a template that only answers.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails there")]

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use ringfence_jail::{
    ExecPolicy, JailedProcess, LandlockAccess, Launcher, LauncherError, MountAccess, Plan, ProcessEnd, ProcessLimits,
    RootEntry, SealedProgram, UserIds, socket,
};

fn launcher() -> Launcher {
    let first = fs::read(env!("CARGO_BIN_EXE_ringfence-jail-first")).unwrap();
    Launcher::start(SealedProgram::new(&first).unwrap()).unwrap()
}

fn plan() -> Plan {
    let host = |path: &str| RootEntry::Host {
        from: path.into(),
        to: path.into(),
        access: MountAccess::Read,
    };
    let mut places = vec![host("/usr")];
    for name in ["bin", "lib", "lib64"] {
        let path = format!("/{name}");
        if Path::new(&path).is_symlink() {
            places.push(RootEntry::Link {
                target: format!("usr/{name}"),
                to: path,
            });
        } else if Path::new(&path).exists() {
            places.push(host(&path));
        }
    }
    places.extend([
        RootEntry::Memory {
            to: "/workspace".into(),
            bytes: 1 << 20,
            inodes: 100,
            programs: ExecPolicy::Allowed,
        },
        RootEntry::Proc,
        RootEntry::Device { name: "null".into() },
    ]);
    Plan {
        ids: UserIds::choose().unwrap(),
        entries: places,
        landlock_rules: vec![
            ("/".into(), LandlockAccess::Programs),
            ("/workspace".into(), LandlockAccess::Write),
            ("/dev/null".into(), LandlockAccess::Device),
        ],
        limits: ProcessLimits {
            open_files: 256,
            processes: None,
            file_bytes: 1 << 20,
            processors: None,
        },
        handles: vec!["/workspace".into()],
    }
}

fn ask(jailed: &JailedProcess, question: &str) -> String {
    let mut packet = [0; 1024];
    socket::send(jailed.control(), question.as_bytes(), &[]).unwrap();
    let (length, _) = socket::receive(jailed.control(), &mut packet).unwrap();
    String::from_utf8_lossy(&packet[..length]).into_owned()
}

fn wait_for_end(jailed: &JailedProcess) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while jailed.is_alive() {
        assert!(Instant::now() < deadline, "it must end");
        thread::yield_now();
    }
}

/// Children of this process in its own namespaces: templates, including those of other tests.
fn templates() -> Vec<i32> {
    let ours = format!("PPid:\t{}", std::process::id());
    let is_template = |pid: &i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let numbers = |line: &str| line.strip_prefix("NSpid:").map(|rest| rest.split_whitespace().count());
        status.lines().any(|line| line == ours) && status.lines().find_map(numbers) == Some(1)
    };
    let numbers = fs::read_dir("/proc").unwrap();
    let numbers = numbers.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter(is_template).collect()
}

#[test]
fn a_copy_of_the_template_becomes_the_first_process_of_a_jail() {
    let launcher = launcher();
    let jailed = launcher.launch(plan()).unwrap();
    assert_eq!(jailed.handles().len(), 1);
    assert!(jailed.landlock_version() > 0);
    let space = ringfence_jail::disk_space(jailed.handles()[0].as_fd()).unwrap();
    assert_eq!((space.bytes, space.inodes), (1 << 20, 100));
    assert!(jailed.is_alive());
    socket::send(jailed.control(), b"leave", &[]).unwrap();
    wait_for_end(&jailed);
    assert_eq!(jailed.kill_and_wait().unwrap(), Some(ProcessEnd::Exited(0)));
}

#[test]
fn a_first_process_has_nothing_of_the_host_or_the_template() {
    // Not close-on-exec, as a careless host has it.
    let stray = fs::File::open("/dev/zero").unwrap();
    rustix::io::fcntl_setfd(&stray, rustix::io::FdFlags::empty()).unwrap();
    let launcher = launcher();
    let (first, second) = (launcher.launch(plan()).unwrap(), launcher.launch(plan()).unwrap());
    for jailed in [&first, &second] {
        assert_eq!(ask(jailed, "descriptors"), "[0, 1, 2, 3]");
        assert_eq!(ask(jailed, "environment"), "[]");
    }
}

#[test]
fn a_missing_folder_of_the_host_is_named() {
    let mut plan = plan();
    plan.entries.push(RootEntry::Host {
        from: "/nowhere/at/all".into(),
        to: "/deps".into(),
        access: MountAccess::Read,
    });
    let error = launcher().launch(plan).unwrap_err();
    assert!(
        matches!(&error, LauncherError::Source { path, .. } if path == "/nowhere/at/all"),
        "{error:?}"
    );
}

#[test]
fn a_plan_longer_than_a_socket_holds_arrives_whole() {
    let mut plan = plan();
    plan.entries.push(RootEntry::File {
        to: "/etc/long".into(),
        content: vec![b'x'; 400 << 10],
    });
    let launcher = launcher();
    let jailed = launcher.launch(plan).unwrap();
    assert_eq!(ask(&jailed, "environment"), "[]");
}

#[test]
fn a_template_that_was_killed_is_replaced_and_its_copies_live_on() {
    let launcher = launcher();
    let before = launcher.launch(plan()).unwrap();
    let found = templates();
    assert!(!found.is_empty());
    for pid in found {
        // The template of another test may have ended meanwhile.
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_raw(pid).unwrap(),
            rustix::process::Signal::KILL,
        );
    }
    let after = launcher.launch(plan()).unwrap();
    for jailed in [&before, &after] {
        assert_eq!(ask(jailed, "descriptors"), "[0, 1, 2, 3]");
    }
}

#[test]
fn more_copies_than_one_template_makes() {
    let launcher = launcher();
    for _ in 0..70 {
        let jailed = launcher.launch(plan()).unwrap();
        assert_eq!(jailed.kill_and_wait().unwrap(), Some(ProcessEnd::Killed(9)));
    }
}

#[test]
fn jails_end_with_their_launcher() {
    let launcher = launcher();
    let jailed = launcher.launch(plan()).unwrap();
    drop(launcher);
    wait_for_end(&jailed);
    assert_eq!(jailed.kill_and_wait().unwrap(), Some(ProcessEnd::Killed(9)));
}
