//! What a host without care would do with a program's files, names and processes: each goes wrong, so that the probe can.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ringfence_policy::{Ceiling, Draft};
use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};

use crate::bare::is_root;

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

/// Follows everything, keeps everything.
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

/// 17: a folder that was looked at becomes a link before it is entered.
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
        // Looked at without following, entered by name: what a careful but naive copy does.
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

/// 86 and 160: a process lives on after whoever started it.
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
    // Its own foreground sleeper goes with the group of nobody: it is ended by number too.
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

/// 152: a file made without a user namespace belongs to whoever made it.
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

/// 157: what the standard library takes for a number.
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
        .under(&Ceiling::own_word())
        .is_ok()
}

/// Each probe of what the host does, with what goes wrong without care. `None`: not on this machine.
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
    ]
}
