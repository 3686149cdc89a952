//! Attempts on files outside the root, links that lead there, and protected names.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use ringfence_jail::attack::{self, MountedFilesystem};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use super::{AttemptResult, ProbeAttempt, nest_namespaces, new_attempt, open_to_write, read_secret};
use crate::targets::AttemptTargets;

const NEW_MOUNTS: i32 = 0x0002_0000;

pub(super) fn attempts(id: u16, targets: &AttemptTargets) -> Vec<ProbeAttempt> {
    match id {
        1 | 2 => read_outside_attempts(id, targets),
        3 | 4 | 16 => write_outside_attempts(id, targets),
        5..=9 => change_mounts_attempts(id, targets),
        10 => vec![nested_overlay_attempt(targets)],
        11 => vec![
            new_attempt("descriptors", find_leaked_descriptors),
            current_folder_attempt(targets),
        ],
        12 => targets
            .runtimes
            .iter()
            .map(|path| overwrite_runtime_attempt(path))
            .collect(),
        13 => hard_link_attempts(targets),
        14 => targets.masks.iter().map(|path| unmask_attempt(path)).collect(),
        18 | 19 => protected_name_attempts(id, targets),
        _ => Vec::new(),
    }
}

fn read_outside_attempts(id: u16, targets: &AttemptTargets) -> Vec<ProbeAttempt> {
    let (marker, canary) = (targets.marker.clone(), targets.canary.clone());
    let path = if id == 1 {
        canary
    } else {
        format!("{}{}", "../".repeat(40), canary.trim_start_matches('/'))
    };
    vec![new_attempt("canary", move || read_secret(&path, &marker))]
}

fn write_outside_attempts(id: u16, targets: &AttemptTargets) -> Vec<ProbeAttempt> {
    match id {
        3 => targets.outside.iter().map(|folder| create_attempt(folder)).collect(),
        4 => vec![
            create_attempt(&targets.shown),
            change_attempt(&format!("{}/shared.txt", targets.shown)),
        ],
        _ => {
            let scratch = PathBuf::from(&targets.scratch);
            let goals = [format!("{}/shared.txt", targets.shown), targets.canary.clone()];
            let through = |(index, goal): (usize, String)| {
                let link = scratch.join(format!("link-{index}"));
                new_attempt(format!("link to {goal}"), move || -> io::Result<()> {
                    symlink(&goal, &link)?;
                    File::options().append(true).open(&link).map(drop)
                })
            };
            goals.into_iter().enumerate().map(through).collect()
        }
    }
}

fn create_attempt(folder: &str) -> ProbeAttempt {
    let path = Path::new(folder).join("ringfence-probe-was-here");
    new_attempt(folder, move || -> io::Result<()> {
        File::options().write(true).create_new(true).open(&path)?;
        fs::remove_file(&path)
    })
}

fn change_attempt(path: &str) -> ProbeAttempt {
    let path = path.to_owned();
    new_attempt(path.clone(), move || open_to_write(&path))
}

fn new_tmpfs() -> MountedFilesystem {
    MountedFilesystem {
        kind: "tmpfs".to_owned(),
        options: String::new(),
    }
}

/// Moves to a mount namespace of its own where possible, so that a success changes no other process.
fn isolate_mounts() {
    // Where this is refused the attempt that follows is refused too.
    let _ = attack::unshare(NEW_MOUNTS);
}

fn change_mounts_attempts(id: u16, targets: &AttemptTargets) -> Vec<ProbeAttempt> {
    let scratch = PathBuf::from(&targets.scratch);
    let shown = PathBuf::from(&targets.shown);
    let on_scratch = move |name: &str, act: fn(&Path) -> io::Result<()>| {
        let scratch = scratch.clone();
        new_attempt(name, move || {
            isolate_mounts();
            act(&scratch)
        })
    };
    match id {
        5 => vec![on_scratch("chroot", |scratch| {
            let root = rustix::fs::open("/", OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
            attack::change_root(scratch)?;
            rustix::process::fchdir(&root)?;
            std::env::set_current_dir("../../../..")
        })],
        6 => vec![on_scratch("open_by_handle_at", attack::open_by_handle)],
        7 => vec![on_scratch("name_to_handle_at", |scratch| {
            attack::file_handle(scratch).map(drop)
        })],
        8 => vec![
            on_scratch("mount", |scratch| attack::mount_new(&new_tmpfs(), scratch)),
            on_scratch("bind", |scratch| attack::mount_bind(&scratch.join("."), scratch)),
            new_attempt("remount", move || {
                isolate_mounts();
                attack::remount(&shown)
            }),
            on_scratch("pivot_root", attack::pivot_root),
        ],
        _ => vec![
            new_attempt("fsopen", || attack::open_filesystem("tmpfs")),
            on_scratch("open_tree", |scratch| attack::open_tree(scratch).map(drop)),
            on_scratch("move_mount", |scratch| attack::move_tree(scratch, scratch)),
            new_attempt("mount_setattr", move || {
                isolate_mounts();
                attack::clear_mount_attributes(&shown)
            }),
        ],
    }
}

/// Mounts an overlay whose upper layer covers a file that is not the program's, in a user namespace of its own.
fn nested_overlay_attempt(targets: &AttemptTargets) -> ProbeAttempt {
    let (scratch, shown) = (PathBuf::from(&targets.scratch), targets.shown.clone());
    new_attempt("overlay", move || -> io::Result<()> {
        let [upper, work, at] = ["upper", "work", "overlay"].map(|name| scratch.join(name));
        for folder in [&upper, &work, &at] {
            fs::create_dir_all(folder)?;
        }
        nest_namespaces(NEW_MOUNTS)?;
        let options = format!(
            "lowerdir={shown},upperdir={},workdir={},userxattr",
            upper.display(),
            work.display()
        );
        attack::mount_new(
            &MountedFilesystem {
                kind: "overlay".to_owned(),
                options,
            },
            &at,
        )
    })
}

fn find_leaked_descriptors() -> AttemptResult {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else {
        return AttemptResult::Refused(io::ErrorKind::PermissionDenied.into());
    };
    let leaked: Vec<String> = entries
        .flatten()
        .filter(|entry| {
            entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<u32>().ok())
                .is_none_or(|fd| fd > 2)
        })
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        // The folder that is being read is open too.
        .filter(|goal| !goal.ends_with("fd"))
        .map(|goal| goal.display().to_string())
        .collect();
    if leaked.is_empty() {
        AttemptResult::WithoutEffect("only 0, 1 and 2 are open".to_owned())
    } else {
        AttemptResult::Succeeded(leaked.join(", "))
    }
}

fn current_folder_attempt(targets: &AttemptTargets) -> ProbeAttempt {
    let scratch = targets.scratch.clone();
    new_attempt("current folder", move || match std::env::current_dir() {
        Ok(folder) if folder == Path::new(&scratch) => AttemptResult::WithoutEffect("its own".to_owned()),
        Ok(folder) => AttemptResult::Succeeded(folder.display().to_string()),
        Err(error) => AttemptResult::Refused(error),
    })
}

fn overwrite_runtime_attempt(path: &str) -> ProbeAttempt {
    let path = path.to_owned();
    new_attempt(path.clone(), move || {
        match rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Err(error) => AttemptResult::Refused(error.into()),
            Ok(held) => open_to_write(&format!("/proc/self/fd/{}", held.as_raw_fd())),
        }
    })
}

fn hard_link_attempts(targets: &AttemptTargets) -> Vec<ProbeAttempt> {
    let goals = [targets.canary.clone(), format!("{}/shared.txt", targets.shown)];
    let link = |(index, goal): (usize, String)| {
        let name = Path::new(&targets.scratch).join(format!("hard-{index}"));
        new_attempt(goal.clone(), move || -> io::Result<()> {
            rustix::fs::linkat(CWD, &goal, CWD, &name, AtFlags::empty())?;
            fs::remove_file(&name)
        })
    };
    goals.into_iter().enumerate().map(link).collect()
}

fn unmask_attempt(path: &str) -> ProbeAttempt {
    let path = path.to_owned();
    new_attempt(path.clone(), move || {
        isolate_mounts();
        attack::unmount(Path::new(&path))
    })
}

fn protected_name_attempts(id: u16, targets: &AttemptTargets) -> Vec<ProbeAttempt> {
    let project = format!("{}/home/project", targets.shown);
    let marker = targets.marker.clone();
    if id == 18 {
        let (from, to) = (format!("{project}/.git"), format!("{project}/moved"));
        let hidden = format!("{project}/.git/hooks/pre-commit");
        return vec![
            new_attempt("rename the folder above", move || {
                fs::rename(&from, &to).and_then(|()| fs::rename(&to, &from))
            }),
            new_attempt("read what is hidden", move || read_secret(&hidden, &marker)),
        ];
    }
    ["service/.env.local", ".ssh/authorized_keys", "new.pem"]
        .into_iter()
        .map(|name| {
            let path = format!("{project}/{name}");
            new_attempt(name, move || -> io::Result<()> {
                if let Some(above) = Path::new(&path).parent() {
                    fs::create_dir_all(above)?;
                }
                File::options().write(true).create_new(true).open(&path)?;
                fs::remove_file(&path)
            })
        })
        .collect()
}
