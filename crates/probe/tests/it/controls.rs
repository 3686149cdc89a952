//! Each probe's control: the same attempt without the fence succeeds, or there is a reason why no control is possible here.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringfence_probe::catalogue;
use serde_json::Value;

use crate::bare::{As, EXE, hog, is_root, objects, on_stage};
use crate::naive;

/// Attempts that cannot succeed on this or any machine without harming it, and why.
const IMPOSSIBLE: [(u16, &str, &str); 15] = [
    (
        13,
        "shared.txt",
        "the shown folder is a mount of its own: no link crosses one",
    ),
    (
        43,
        "/proc/self/mem",
        "the kernel itself writes through no shared read-only mapping",
    ),
    (51, "CapInh", "a new user namespace has no inheritable capabilities"),
    (51, "CapAmb", "a new user namespace has no ambient capabilities"),
    (60, "init_module", "loading a module would change the machine"),
    (60, "finit_module", "loading a module would change the machine"),
    (60, "delete_module", "unloading a module would change the machine"),
    (60, "kexec_load", "another kernel would change the machine"),
    (61, "clock_settime", "the machine has one clock"),
    (63, "x32", "this kernel was built without x32"),
    (69, "TIOCLINUX", "needs a virtual console, which is the machine's own"),
    (144, "descriptor 1", "only standard input is a socket in the control"),
    (144, "descriptor 2", "only standard input is a socket in the control"),
    (54, "bpf", "as an ordinary user: the machine keeps it to itself"),
    (66, "", "as an ordinary user: needs a capability of the machine's own"),
];

/// Whole probes without a control, and why.
const WITHOUT: [(u16, &str); 8] = [
    (69, "needs a virtual console, which is the machine's own"),
    (21, "not applicable: no archives"),
    (22, "not applicable: no archives"),
    (70, "not applicable: no terminal"),
    (
        155,
        "asks our own interface whether it stands being called twice; there is no fence to take away",
    ),
    (159, "not applicable: no tasks in words"),
    (
        193,
        "asks in whose words the host tells of an end; there is no fence to take away",
    ),
    (60, "every way to change the kernel would change the machine"),
];

/// Hogs, each with what it must be able to take where there is no limit.
const HOGS: [(u16, &[&str], u64); 34] = [
    (72, &["processes", "80"], 80),
    (73, &["threads", "80"], 80),
    (74, &["memory", "64"], 64),
    (74, &["many", "2", "16"], 32),
    (74, &["hidden", "2", "16"], 32),
    (75, &["segments", "16"], 16),
    (75, &["record-locks", "2"], 16),
    (75, &["memory-files"], 1),
    (76, &["file", "9"], 9),
    (76, &["allocate", "9"], 9),
    (76, &["sparse", "8", "8"], 64),
    (77, &["inodes", "300"], 300),
    (78, &["deep", "1000"], 1000),
    (79, &["descriptors", "300"], 300),
    (80, &["flood", "2"], 2),
    (81, &["complain", "2"], 2),
    (83, &["busy", "300"], 10),
    (161, &["unix-queues", "2"], 16),
    (162, &["netlink-queues", "2"], 16),
    (163, &["udp-queues", "2"], 16),
    (164, &["tcp-buffers", "2"], 16),
    // The kernel gives a user smaller pipes once there are many, and other processes of this user may have theirs.
    (165, &["pipes", "2"], 2),
    (166, &["event-queues", "2"], 1),
    (167, &["page-tables", "2"], 64),
    (168, &["memory", "160"], 160),
    (169, &["nameless", "16"], 16),
    (169, &["sent", "16"], 16),
    (169, &["queued", "16"], 16),
    (169, &["mapped", "16"], 16),
    (169, &["running", "16"], 16),
    (170, &["inodes", "300"], 300),
    (176, &["unaccepted", "2"], 16),
    (177, &["held-datagrams", "2"], 16),
    (178, &["error-queues", "2"], 16),
];

type Key = (u16, String);

/// Every attempt with its outcome.
fn rehearsed(right: As, ids: &[&str]) -> BTreeMap<Key, Value> {
    let words: Vec<&str> = [EXE, "probe-attempt", "rehearse", "FOLDER"]
        .into_iter()
        .chain(ids.iter().copied())
        .collect();
    let output = on_stage(right, &words);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let lines = objects(&output).into_iter().filter(|line| line.get("part").is_some());
    lines
        .map(|line| {
            let id = u16::try_from(line["id"].as_u64().unwrap()).unwrap();
            ((id, line["part"].as_str().unwrap().to_owned()), line)
        })
        .collect()
}

fn succeeded(line: &Value) -> bool {
    line["outcome"] == "succeeded"
}

fn is_impossible(key: &Key, line: &Value) -> bool {
    const INVALID: u64 = 22;
    const NO_SUCH_OPTION: u64 = 92;
    const NO_SUCH_FAMILY: u64 = 97;
    // Features that the kernel may have been built without.
    let absent = match key.0 {
        64 => line["errno"] == NO_SUCH_FAMILY,
        171 => line["errno"] == NO_SUCH_FAMILY || line["errno"] == NO_SUCH_OPTION,
        172 => line["errno"] == INVALID,
        _ => false,
    };
    let listed = IMPOSSIBLE.iter().any(|(id, part, why)| {
        let here = !why.starts_with("as an ordinary user") || !is_root();
        *id == key.0 && key.1.ends_with(part) && here
    });
    absent || listed
}

/// The attempts of a program inside, as a stranger and, where this is root, once more with root's own privileges.
fn inside() -> BTreeSet<u16> {
    let mut tries = rehearsed(As::Stranger, &[]);
    if is_root() {
        tries.extend(rehearsed(As::Root, &["6", "54", "66", "68"]));
    }
    tries.extend(passed_descriptor());
    let vain: Vec<_> = tries
        .iter()
        .filter(|(key, line)| !succeeded(line) && !is_impossible(key, line))
        .collect();
    assert!(vain.is_empty(), "controls that did not succeed: {vain:#?}");
    let good: BTreeSet<u16> = tries
        .iter()
        .filter(|(_, line)| succeeded(line))
        .map(|((id, _), _)| *id)
        .collect();
    let (count, all) = (tries.values().filter(|line| succeeded(line)).count(), tries.len());
    println!(
        "{count} of {all} tries succeed without the fence; {} are impossible here",
        all - count
    );
    for ((id, part), line) in tries.iter().filter(|(_, line)| !succeeded(line)) {
        println!("  impossible: {id} {part}: {}", line["detail"]);
    }
    good
}

/// 144: a descriptor is passed on standard input.
fn passed_descriptor() -> BTreeMap<Key, Value> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let passed = std::fs::File::open("/dev/null").unwrap();
    ringfence_jail::socket::send(std::os::fd::AsFd::as_fd(&ours), b"x", &[passed.as_raw_fd()]).unwrap();
    let folder = crate::bare::folder();
    let targets = folder.path().join("targets.json");
    std::fs::write(&targets, serde_json::to_vec(&no_targets()).unwrap()).unwrap();
    let mut command = Command::new(EXE);
    command
        .args(["probe-attempt", "try"])
        .arg(&targets)
        .arg("144")
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)));
    let output = command.output().unwrap();
    objects(&output)
        .into_iter()
        .map(|line| ((144, line["part"].as_str().unwrap().to_owned()), line))
        .collect()
}

fn no_targets() -> Value {
    let texts = [
        "marker",
        "canary",
        "system",
        "shown",
        "scratch",
        "abstract_socket",
        "socket",
        "shared_memory",
    ];
    let lists = [
        "outside",
        "homes",
        "runtimes",
        "masks",
        "victims",
        "env",
        "leaks",
        "addresses",
    ];
    let texts = texts.into_iter().map(|name| (name.to_owned(), Value::from("")));
    let lists = lists
        .into_iter()
        .map(|name| (name.to_owned(), Value::Array(Vec::new())));
    let port = [("port".to_owned(), Value::from(0))];
    Value::Object(texts.chain(lists).chain(port).collect())
}

fn abuses() -> BTreeSet<u16> {
    let mut good = BTreeSet::new();
    for (id, words, least) in HOGS {
        let held = hog(words);
        assert!(
            held.is_some_and(|held| held >= least),
            "{id} {words:?}: {held:?} of {least}"
        );
        good.insert(id);
    }
    let all = std::thread::available_parallelism().unwrap().get() as u64;
    assert_eq!(hog(&["processors"]), Some(all), "83 processors");
    assert!(never_ends(), "82 blocked");
    assert!(leaves_a_daemon(), "84 daemon");
    assert!(leaves_zombies(), "85 orphans");
    good.extend([82, 84, 85]);
    good
}

/// 82: without a deadline the program still runs after a while.
fn never_ends() -> bool {
    let mut child = Command::new(EXE)
        .args(["probe-attempt", "hog", "blocked"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_millis(500);
    let mut waits = true;
    while waits && Instant::now() < until {
        waits = child.try_wait().unwrap().is_none();
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    waits
}

/// 84: its process still exists after the program has ended.
fn leaves_a_daemon() -> bool {
    let script =
        format!("{EXE} probe-attempt hog daemon > /dev/null; grep -l ringfence-probe /proc/[0-9]*/comm | wc -l");
    let output = on_stage(As::Stranger, &["sh", "-c", &script]);
    String::from_utf8_lossy(&output.stdout).trim() == "1"
}

/// 85: a first process that does not reap leaves all zombies.
fn leaves_zombies() -> bool {
    let count = "grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l";
    // The counting process ends with the first process, which lives on for a while after the last of them.
    let counts = format!("until n=$({count}); [ $n -ge 40 ]; do sleep 0.02; done; echo $n >&2");
    let script = format!("({counts}) & exec {EXE} probe-attempt hog orphans 50");
    let output = on_stage(As::Stranger, &["sh", "-c", &script]);
    String::from_utf8_lossy(&output.stderr)
        .trim()
        .parse::<u64>()
        .is_ok_and(|count| count >= 40)
}

#[test]
fn every_probe_can_succeed_without_the_fence() {
    let mut good = inside();
    good.extend(abuses());
    let mut absent = Vec::new();
    for (id, control) in naive::controls() {
        match control {
            Some(true) => drop(good.insert(id)),
            Some(false) => panic!("{id}: nothing goes wrong without care either"),
            None => absent.push(id),
        }
    }
    if !is_root() {
        // Ordinary users own none of root's files, and have no capability on the machine itself.
        absent.extend([54, 66]);
    }
    let known = |id: &u16| good.contains(id) || absent.contains(id) || WITHOUT.iter().any(|(without, _)| without == id);
    // The egress probes have a test of their own.
    let ids = catalogue().filter(|probe| !probe.is_egress()).map(|probe| probe.id);
    let missing: Vec<u16> = ids.filter(|id| !known(id)).collect();
    println!(
        "{} probes have a control that succeeds; {} have none, each with its reason",
        good.len(),
        WITHOUT.len() + absent.len()
    );
    assert!(missing.is_empty(), "probes without a control: {missing:?}");
}
