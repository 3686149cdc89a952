//! What a careless host would do with a program's files, names and processes: each one goes wrong, so that the probe can
//! succeed.

use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ringfence_policy::{Ceiling, Draft};
use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};

use crate::bare::{As, is_root, on_stage};

const SECRET: &str = "a secret of the host";

struct Places {
    _root: tempfile::TempDir,
    inside: PathBuf,
    outside: PathBuf,
    copy: PathBuf,
}

fn places() -> Places {
    let root = tempfile::tempdir().unwrap();
    let [inside, outside, copy] = ["inside", "outside", "copy"].map(|name| root.path().join(name));
    for folder in [&inside, &outside, &copy] {
        fs::create_dir(folder).unwrap();
    }
    fs::write(outside.join("canary"), SECRET).unwrap();
    Places {
        _root: root,
        inside,
        outside,
        copy,
    }
}

/// Copies everything and follows every link.
fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, goal) = (entry.path(), to.join(entry.file_name()));
        match fs::metadata(&path) {
            Ok(found) if found.is_dir() => copy_all(&path, &goal)?,
            Ok(_) => drop(fs::copy(&path, &goal)?),
            Err(_) => {}
        }
    }
    Ok(())
}

fn has_secret(path: &Path) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text == SECRET)
}

/// 15: a link is followed.
fn link() -> bool {
    let places = places();
    symlink(places.outside.join("canary"), places.inside.join("link")).unwrap();
    copy_all(&places.inside, &places.copy).unwrap();
    has_secret(&places.copy.join("link"))
}

/// 17: a folder that was checked becomes a link before it is entered.
fn swapped() -> bool {
    let places = places();
    let (swap, other) = (places.inside.join("swap"), places.inside.join("other"));
    fs::create_dir(&swap).unwrap();
    fs::write(swap.join("canary"), "inside").unwrap();
    symlink(&places.outside, &other).unwrap();
    let going = Arc::new(AtomicBool::new(true));
    let (still, from) = (Arc::clone(&going), swap.clone());
    let swapper = std::thread::spawn(move || {
        while still.load(Ordering::Relaxed) {
            renameat_with(CWD, &from, CWD, &other, RenameFlags::EXCHANGE).unwrap();
        }
    });
    let started = Instant::now();
    let mut escaped = false;
    while !escaped && started.elapsed() < Duration::from_secs(5) {
        // Checked without following, entered by name: what a careful but naive copy does.
        let is_folder = fs::symlink_metadata(&swap).is_ok_and(|found| found.is_dir());
        if is_folder {
            escaped = has_secret(&swap.join("canary"));
        }
    }
    going.store(false, Ordering::Relaxed);
    swapper.join().unwrap();
    escaped
}

/// 20: a denied name leaves with the rest.
fn denied_name() -> bool {
    let places = places();
    fs::write(places.inside.join("key.pem"), SECRET).unwrap();
    copy_all(&places.inside, &places.copy).unwrap();
    has_secret(&places.copy.join("key.pem"))
}

/// 23: modes are kept.
fn setuid() -> bool {
    let places = places();
    fs::write(places.inside.join("tool"), "").unwrap();
    fs::set_permissions(places.inside.join("tool"), fs::Permissions::from_mode(0o4755)).unwrap();
    copy_all(&places.inside, &places.copy).unwrap();
    fs::metadata(places.copy.join("tool")).unwrap().permissions().mode() & 0o4000 != 0
}

/// 24: a reader waits for a writer who never comes.
fn fifo() -> bool {
    let places = places();
    let path = places.inside.join("fifo");
    mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let read = path.clone();
    let reader = std::thread::spawn(move || fs::read(read).unwrap());
    std::thread::sleep(Duration::from_millis(200));
    let waits = !reader.is_finished();
    drop(fs::File::options().write(true).open(&path).unwrap());
    reader.join().unwrap();
    waits
}

/// 86 and 160: a process outlives the one that started it.
fn outlives() -> bool {
    let script = "setsid sleep 30 </dev/null >/dev/null 2>&1 & echo $!; sleep 30";
    let mut parent = Command::new("sh")
        .args(["-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    io::BufRead::read_line(&mut io::BufReader::new(parent.stdout.as_mut().unwrap()), &mut line).unwrap();
    let pid: i32 = line.trim().parse().unwrap();
    let own = parent.id();
    // Its own foreground sleeper goes with the group of no process: it is ended by number too.
    let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap_or_default();
    parent.kill().unwrap();
    parent.wait().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let lives = Path::new(&format!("/proc/{pid}")).exists();
    for child in children.split_whitespace().chain([line.trim()]) {
        drop(
            Command::new("kill")
                .args(["-KILL", child])
                .stderr(Stdio::null())
                .status(),
        );
    }
    lives
}

/// 152: a file made without a user namespace belongs to its maker.
fn owned_by_root() -> bool {
    let places = places();
    fs::metadata(places.outside.join("canary")).unwrap().uid() == 0
}

/// 153: a name that climbs is joined.
fn climbs() -> bool {
    let places = places();
    has_secret(&places.inside.join("../outside/canary"))
}

/// 154: two programs with one folder.
fn shared_folder() -> bool {
    let places = places();
    fs::write(places.inside.join("of-another"), SECRET).unwrap();
    let read = Command::new("cat")
        .arg(places.inside.join("of-another"))
        .output()
        .unwrap();
    read.stdout == SECRET.as_bytes()
}

/// 156: a file is written through a link.
fn written_through() -> bool {
    let places = places();
    symlink(&places.outside, places.inside.join("way")).unwrap();
    fs::write(places.inside.join("way/new"), "x").unwrap();
    places.outside.join("new").exists()
}

/// 157: what the standard library accepts as a number.
fn strange_times() -> bool {
    ["NaN", "-1", "inf", "1e99"]
        .iter()
        .all(|time| time.parse::<f64>().is_ok())
}

/// 158: the same draft without a ceiling.
fn no_ceiling() -> bool {
    Draft::empty()
        .set("proc.mem_limit", "64GiB")
        .unwrap()
        .under(&Ceiling::unlimited())
        .is_ok()
}

/// 181: only names below the mount are compared.
fn named() -> bool {
    let places = places();
    let folder = places.inside.join(".ssh");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("id"), SECRET).unwrap();
    let deny = Draft::builtin().fs.unwrap().deny;
    let below = "id".parse().unwrap();
    !deny.iter().any(|glob| glob.hides(&below)) && has_secret(&folder.join("id"))
}

/// 182: a cover lies on a file, and disappears with it.
fn uncovered() -> bool {
    let script = "cd \"$1\"; echo old > .env; echo secret > new
        unshare --mount --propagation private sh -c 'mount --bind /dev/null .env && touch ready
            while ! [ -e done ]; do sleep 0.01; done; cat .env' &
        while ! [ -e ready ]; do sleep 0.01; done; mv new .env; touch done; wait";
    let output = on_stage(As::Stranger, &["timeout", "20", "sh", "-c", script, "sh", "FOLDER"]);
    String::from_utf8_lossy(&output.stdout).contains("secret")
}

/// 185: a cover lies on only one of the paths at which a folder is shown.
fn uncovered_elsewhere() -> bool {
    let script = "cd \"$1\"; mkdir shown one two; echo secret > shown/.env
        mount --bind shown one; mount --bind shown two; mount --bind /dev/null one/.env
        cat one/.env && cat two/.env";
    let output = on_stage(As::Stranger, &["sh", "-c", script, "sh", "FOLDER"]);
    String::from_utf8_lossy(&output.stdout) == "secret\n"
}

/// 186: what does not exist cannot be covered.
fn never_covered() -> bool {
    let script = "cd \"$1\"; mkdir shown view; echo old > shown/.env; mount --bind shown view
        for name in .env .netrc; do [ ! -e view/$name ] || mount --bind /dev/null view/$name; done
        echo secret > shown/.netrc; cat view/.env view/.netrc";
    let output = on_stage(As::Stranger, &["sh", "-c", script, "sh", "FOLDER"]);
    String::from_utf8_lossy(&output.stdout) == "secret\n"
}

/// 183: a process that sees a socket can talk to its listener.
fn late_socket() -> bool {
    let places = places();
    let path = places.inside.join("late.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    UnixStream::connect(&path).is_ok()
}

/// 184: a folder is made where a path leads.
fn made_behind_a_link() -> bool {
    let places = places();
    symlink(&places.outside, places.inside.join("link")).unwrap();
    fs::create_dir_all(places.inside.join("link/made")).unwrap();
    places.outside.join("made").is_dir()
}

/// 221: a process that reads files to their end reads bytes that were never written.
fn reads_holes() -> bool {
    const STORED: u64 = 16 << 20;
    let places = places();
    for number in 0..4 {
        let file = fs::File::create(places.inside.join(format!("hole-{number}"))).unwrap();
        file.set_len(STORED - 1).unwrap();
    }
    let mut read = 0;
    for entry in fs::read_dir(&places.inside).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let mut file = fs::File::open(path).unwrap();
            read += std::io::copy(&mut file, &mut std::io::sink()).unwrap();
        }
    }
    read > STORED * 3
}

/// 222: two processes that write before they read wait for each other.
fn two_that_write_wait() -> bool {
    let (one, other) = UnixStream::pair().unwrap();
    let write = |mut end: UnixStream| {
        end.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        std::thread::spawn(move || {
            let written = end.write_all(&vec![1; 24 << 20]);
            (
                written.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock),
                end,
            )
        })
    };
    let [one, other] = [write(one), write(other)];
    let [(one, _first), (other, _second)] = [one.join().unwrap(), other.join().unwrap()];
    one && other
}

/// 223: a supervisor in the program's process namespace is stopped by it.
fn stops_its_supervisor() -> bool {
    let script = "timeout 0.2 sh -c 'kill -STOP $PPID; sleep 1; echo outlived'; true";
    let output = on_stage(As::Stranger, &["timeout", "-s", "KILL", "2", "sh", "-c", script]);
    String::from_utf8_lossy(&output.stdout).contains("outlived")
}

/// A server that decodes a dot in two bytes as a dot leaves the folder it shows.
fn read_as_dots() -> bool {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("public")).unwrap();
    fs::write(folder.path().join("secret"), "x").unwrap();
    let encoded = [0xc0_u8, 0xae, 0xc0, 0xae];
    let lax = |pair: &[u8]| char::from_u32(u32::from(pair[0] & 0x1f) << 6 | u32::from(pair[1] & 0x3f));
    let name: String = encoded.chunks(2).filter_map(lax).collect();
    fs::read(folder.path().join("public").join(name).join("secret")).is_ok()
}

fn no_limit_named() -> bool {
    let draft = Draft::empty().set("tools.call_timeout", "10h").unwrap();
    draft.under(&Ceiling::unlimited()).is_ok()
}

/// 191: a host that records every refusal writes for as long as a program is refused.
fn every_refusal_is_written() -> bool {
    let places = places();
    let path = places.outside.join("journal");
    let event = r#"{"event":"call_refused","session":"01J0000000000000000000000","execution":"01J0000000000000000000000",
        "tool":"server.tool","code":"tool.unknown","message":"there is no such tool","rule":"tools.default","origin":"host"}"#;
    let mut journal = fs::File::create(&path).unwrap();
    for number in 0..20_000 {
        writeln!(journal, "{number} {event}").unwrap();
    }
    fs::metadata(&path).unwrap().len() > 4 << 20
}

/// 192: a chain alone does not show how long it was.
fn a_shorter_chain_is_a_chain() -> bool {
    let link = |before: u64, text: &str| {
        let mut hasher = std::hash::DefaultHasher::new();
        (before, text).hash(&mut hasher);
        hasher.finish()
    };
    let chain = |texts: &[&'static str]| -> Vec<(&'static str, u64)> {
        let mut last = 0;
        let linked = |text: &&'static str| {
            last = link(last, text);
            (*text, last)
        };
        texts.iter().map(linked).collect()
    };
    let verifies = |records: &[(&str, u64)]| {
        let mut last = 0;
        records.iter().all(|(text, told)| {
            last = link(last, text);
            last == *told
        })
    };
    let whole = chain(&["one", "two", "three"]);
    let mut rolled_back = whole[..1].to_vec();
    rolled_back.push(("other", link(rolled_back[0].1, "other")));
    verifies(&whole) && verifies(&rolled_back)
}

/// Each probe of what the host does, with the outcome without care. `None`: not on this machine.
pub(crate) fn controls() -> Vec<(u16, Option<bool>)> {
    let outlived = outlives();
    vec![
        (15, Some(link())),
        (17, Some(swapped())),
        (20, Some(denied_name())),
        (23, Some(setuid())),
        (24, Some(fifo())),
        (86, Some(outlived)),
        (152, is_root().then(owned_by_root)),
        (153, Some(climbs())),
        (154, Some(shared_folder())),
        (156, Some(written_through())),
        (157, Some(strange_times())),
        (158, Some(no_ceiling())),
        (160, Some(outlived)),
        (181, Some(named())),
        (182, Some(uncovered())),
        (183, Some(late_socket())),
        (184, Some(made_behind_a_link())),
        (185, Some(uncovered_elsewhere())),
        (186, Some(never_covered())),
        (191, Some(every_refusal_is_written())),
        (192, Some(a_shorter_chain_is_a_chain())),
        (221, Some(reads_holes())),
        (222, Some(two_that_write_wait())),
        (223, Some(stops_its_supervisor())),
        (211, Some(read_as_dots())),
        (212, Some(no_limit_named())),
    ]
}
