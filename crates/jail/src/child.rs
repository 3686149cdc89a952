//! The child's way from a copy of the host to a confined worker.
//!
//! Everything here runs between `clone3` and `execveat` in a copy of a process with other threads: no allocation, no
//! lock, no panic. Only signal-safe functions of [`crate::sys`] are called, on memory that was made ready before.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use crate::compile::{Compiled, EMPTY, Missing, Step};
use crate::landlock;
use crate::plan::HiddenKind;
use crate::sys::fence::{self, Listener};
use crate::sys::mount::{self, attr};
use crate::sys::{fd, limit, process, socket};

/// Where the worker finds its control socket.
pub(crate) const CONTROL: RawFd = 3;
const STATUS: RawFd = 4;
const PROGRAM: RawFd = 5;
const AFTER_ALL: u32 = 6;
/// Numbers that no descriptor of ours has before they are put in place.
const PARKED: RawFd = 64;

/// Which part of the way failed, as one byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stage {
    Wait = 1,
    Source,
    Identity,
    Root,
    Build,
    Enter,
    Network,
    Handles,
    Descriptors,
    Limits,
    Privileges,
    Landlock,
    Seccomp,
    Exec,
}

/// The parts of the way, in words for people.
pub(crate) const STAGES: &[(Stage, &str)] = &[
    (Stage::Wait, "waiting for the host"),
    (Stage::Source, "opening a place of the host"),
    (Stage::Identity, "becoming the sandbox's user"),
    (Stage::Root, "making an empty root"),
    (Stage::Build, "building the root"),
    (Stage::Enter, "entering the root"),
    (Stage::Network, "naming the sandbox"),
    (Stage::Handles, "handing places to the host"),
    (Stage::Descriptors, "closing descriptors"),
    (Stage::Limits, "setting limits"),
    (Stage::Privileges, "dropping privileges"),
    (Stage::Landlock, "Landlock"),
    (Stage::Seccomp, "filtering system calls"),
    (Stage::Exec, "starting the worker"),
];

/// Messages from the child on the status socket, told apart by their first byte.
pub(crate) const TOLD_HANDLES: u8 = b'H';
pub(crate) const TOLD_LISTENER: u8 = b'L';
pub(crate) const TOLD_FAILURE: u8 = b'F';

/// The ends the child was born with.
#[derive(Debug)]
pub(crate) struct Ends<'a> {
    pub(crate) status: BorrowedFd<'a>,
    pub(crate) control: BorrowedFd<'a>,
    pub(crate) program: BorrowedFd<'a>,
}

struct Failed {
    stage: Stage,
    index: u16,
    error: io::Error,
}

fn at(stage: Stage) -> impl FnOnce(io::Error) -> Failed {
    move |error| Failed { stage, index: 0, error }
}

fn at_step(stage: Stage, index: usize) -> impl FnOnce(io::Error) -> Failed {
    move |error| Failed {
        stage,
        index: u16::try_from(index).unwrap_or(u16::MAX),
        error,
    }
}

/// Walks the whole way; tells where it stopped if it did.
pub(crate) fn run(compiled: &mut Compiled, ends: &Ends<'_>) -> ! {
    let Err(failed) = confine(compiled, ends);
    let number = failed.error.raw_os_error().unwrap_or(libc::EIO).to_le_bytes();
    let index = failed.index.to_le_bytes();
    let message = [
        TOLD_FAILURE,
        failed.stage as u8,
        index[0],
        index[1],
        number[0],
        number[1],
        number[2],
        number[3],
    ];
    // After the descriptors were put in place the status socket has its fixed number; before, the one it was born with.
    if socket::send(ends.status, &message, &[]).is_err()
        && let Ok(status) = fd::adopt(STATUS)
    {
        // Nobody is left to tell if this fails too: the host sees the end of the socket without a word.
        let _ = socket::send(status.as_fd(), &message, &[]);
    }
    process::leave(1)
}

fn confine(compiled: &mut Compiled, ends: &Ends<'_>) -> Result<std::convert::Infallible, Failed> {
    wait_for_maps(ends.status)?;
    for (index, (source, opened)) in compiled.sources.iter().zip(&mut compiled.opened).enumerate() {
        *opened = Some(fd::open_at(None, &source.path, libc::O_PATH, 0).map_err(at_step(Stage::Source, index))?);
    }
    if compiled.drop_groups {
        process::drop_groups().map_err(at(Stage::Identity))?;
    }
    process::become_user(compiled.inside).map_err(at(Stage::Identity))?;
    cap_namespace().map_err(at(Stage::Identity))?;
    build_root(compiled)?;
    mount::become_root().map_err(at(Stage::Enter))?;
    mount::restrict(c"/", attr::RDONLY).map_err(at(Stage::Enter))?;
    socket::raise_loopback().map_err(at(Stage::Network))?;
    process::set_host_name(c"sandbox").map_err(at(Stage::Network))?;
    hand_out(compiled, ends.status)?;
    let (status, program) = place_descriptors(compiled, ends)?;
    limit_resources(compiled).map_err(at(Stage::Limits))?;
    drop_privileges().map_err(at(Stage::Privileges))?;
    fence_in(compiled, status.as_fd())?;
    let argv = [c"ringfence-worker".as_ptr(), std::ptr::null()];
    let envp = [std::ptr::null()];
    Err(at(Stage::Exec)(process::become_program(program.as_fd(), &argv, &envp)))
}

/// The host writes who we are before we go on.
fn wait_for_maps(status: BorrowedFd<'_>) -> Result<(), Failed> {
    let mut go = [0u8; 1];
    match socket::receive_bytes(status, &mut go) {
        Ok(1) => Ok(()),
        Ok(_) => Err(at(Stage::Wait)(io::ErrorKind::UnexpectedEof.into())),
        Err(error) => Err(at(Stage::Wait)(error)),
    }
}

/// What the kernel counts for each user namespace: without a share of its own, one sandbox could use up its user's.
const SHARES: [(&CStr, &[u8]); 5] = [
    (c"/proc/sys/user/max_inotify_instances", b"16"),
    (c"/proc/sys/user/max_inotify_watches", b"16384"),
    (c"/proc/sys/user/max_fanotify_groups", b"0"),
    (c"/proc/sys/user/max_user_namespaces", b"0"),
    (c"/proc/sys/user/max_net_namespaces", b"1"),
];

/// A host whose `/proc/sys` is closed to us, or an older kernel without a counter, has no shares to give.
fn cap_namespace() -> io::Result<()> {
    for (path, share) in SHARES {
        let written = fd::open_at(None, path, libc::O_WRONLY, 0).and_then(|file| fd::write_all(file.as_fd(), share));
        match written.as_ref().map_err(io::Error::raw_os_error) {
            Ok(()) | Err(Some(libc::ENOENT | libc::EACCES | libc::EROFS | libc::EPERM)) => {}
            Err(_) => return written,
        }
    }
    Ok(())
}

fn build_root(compiled: &Compiled) -> Result<(), Failed> {
    mount::make_private().map_err(at(Stage::Root))?;
    // `/tmp` is only the place where the new root is hung until it is entered; what was opened below it stays open.
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    mount::mount_new(c"tmpfs", c"/tmp", flags, &compiled.root_options).map_err(at(Stage::Root))?;
    mount::change_folder(c"/tmp").map_err(at(Stage::Root))?;
    for (index, step) in compiled.steps.iter().enumerate() {
        build(step, compiled).map_err(at_step(Stage::Build, index))?;
    }
    Ok(())
}

fn build(step: &Step, compiled: &Compiled) -> io::Result<()> {
    match step {
        Step::Folder { path } => fd::make_folder(path, 0o755),
        Step::Touch { path } => touch(path).map(drop),
        Step::Bind { source, to, attributes } => mount::bind(opened(compiled, *source)?, to, *attributes),
        Step::Memory { to, options, flags } => mount::mount_new(c"tmpfs", to, *flags, options),
        Step::Link { target, to } => fd::make_link(target, to),
        Step::Write { to, content } => fd::write_all(touch(to)?.as_fd(), content),
        Step::Proc => {
            let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
            mount::mount_new(c"proc", c"proc", flags, c"hidepid=2")
        }
        Step::ReadOnlyAgain { path } => {
            let Some(place) = if_there(path, Missing::Fine)? else {
                return Ok(());
            };
            mount::bind(
                place.as_fd(),
                path,
                attr::RDONLY | attr::NOSUID | attr::NODEV | attr::NOEXEC,
            )
        }
        Step::Cover { path, kind, missing } => {
            if if_there(path, *missing)?.is_none() {
                return Ok(());
            }
            // What is written to either is lost or refused, so neither needs to be made read-only.
            match kind {
                HiddenKind::File => mount::bind(opened(compiled, 0)?, path, 0),
                HiddenKind::Folder => {
                    let empty = fd::open_at(None, EMPTY, libc::O_PATH | libc::O_DIRECTORY, 0)?;
                    mount::bind(empty.as_fd(), path, attr::RDONLY)
                }
            }
        }
    }
}

fn touch(path: &CStr) -> io::Result<OwnedFd> {
    fd::open_at(None, path, libc::O_WRONLY | libc::O_CREAT | libc::O_NOFOLLOW, 0o644)
}

fn opened(compiled: &Compiled, index: usize) -> io::Result<BorrowedFd<'_>> {
    let opened = compiled.opened.get(index).and_then(Option::as_ref);
    opened.map(AsFd::as_fd).ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn if_there(path: &CStr, missing: Missing) -> io::Result<Option<OwnedFd>> {
    match fd::open_at(None, path, libc::O_PATH | libc::O_NOFOLLOW, 0) {
        Ok(place) => Ok(Some(place)),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) && missing == Missing::Fine => Ok(None),
        Err(error) => Err(error),
    }
}

/// Gives the host handles of the places it asked for, in one message.
fn hand_out(compiled: &Compiled, status: BorrowedFd<'_>) -> Result<(), Failed> {
    const NONE: Option<OwnedFd> = None;
    let mut places = [NONE; socket::MOST_DESCRIPTORS];
    let mut numbers = [-1; socket::MOST_DESCRIPTORS];
    let slots = places.iter_mut().zip(&mut numbers);
    for (index, (path, (place, number))) in compiled.handles.iter().zip(slots).enumerate() {
        let opened = fd::open_at(None, path, libc::O_RDONLY | libc::O_DIRECTORY, 0);
        let opened = opened.map_err(at_step(Stage::Handles, index))?;
        *number = opened.as_raw_fd();
        *place = Some(opened);
    }
    let numbers = numbers.get(..compiled.handles.len()).unwrap_or_default();
    if numbers.is_empty() {
        return Ok(());
    }
    socket::send(status, &[TOLD_HANDLES], numbers)
        .map(drop)
        .map_err(at(Stage::Handles))
}

/// Leaves exactly the worker's descriptors open: nothing of the host's is inherited.
fn place_descriptors(compiled: &mut Compiled, ends: &Ends<'_>) -> Result<(OwnedFd, OwnedFd), Failed> {
    let failed = || at(Stage::Descriptors);
    let park = |number: RawFd| fd::dup_above(number, PARKED);
    let null = {
        let opened = fd::open_at(None, c"/dev/null", libc::O_RDWR, 0).map_err(failed())?;
        park(opened.as_raw_fd()).map_err(failed())?
    };
    let control = park(ends.control.as_raw_fd()).map_err(failed())?;
    let status = park(ends.status.as_raw_fd()).map_err(failed())?;
    let program = park(ends.program.as_raw_fd()).map_err(failed())?;
    for opened in &mut compiled.opened {
        *opened = None;
    }
    let kept = [(null, 0, 0), (null, 1, 0), (null, 2, 0), (control, CONTROL, 0)];
    let until_exec = [(status, STATUS, libc::O_CLOEXEC), (program, PROGRAM, libc::O_CLOEXEC)];
    for (from, to, flags) in kept.into_iter().chain(until_exec) {
        fd::dup_onto(from, to, flags).map_err(failed())?;
    }
    fd::close_from(AFTER_ALL).map_err(failed())?;
    Ok((
        fd::adopt(STATUS).map_err(failed())?,
        fd::adopt(PROGRAM).map_err(failed())?,
    ))
}

fn limit_resources(compiled: &Compiled) -> io::Result<()> {
    let limits = &compiled.limits;
    // Not 0: a host that pipes cores to a program starts it even then; at 1 it does not, and no core fits a file.
    limit::set(libc::RLIMIT_CORE, 1)?;
    limit::set(libc::RLIMIT_NOFILE, limits.open_files)?;
    limit::set(libc::RLIMIT_FSIZE, limits.file_bytes)?;
    limit::set(libc::RLIMIT_MEMLOCK, 64 << 10)?;
    limit::set(libc::RLIMIT_MSGQUEUE, 0)?;
    limit::set(libc::RLIMIT_SIGPENDING, 1024)?;
    if let Some(processes) = limits.processes {
        limit::set(libc::RLIMIT_NPROC, processes)?;
    }
    if let Some(count) = limits.processors {
        limit::confine_to_processors(count)?;
    }
    Ok(())
}

fn drop_privileges() -> io::Result<()> {
    process::new_session()?;
    process::leave_keyring()?;
    process::control(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong)?;
    for capability in 0..64 {
        match process::control(libc::PR_CAPBSET_DROP, capability) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => break,
            other => other?,
        }
    }
    process::drop_capabilities()?;
    process::control(libc::PR_SET_NO_NEW_PRIVS, 1)?;
    // Set after the identity changed, which clears it. The thread that made us lives as long as the host.
    process::control(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong)
}

fn fence_in(compiled: &Compiled, status: BorrowedFd<'_>) -> Result<(), Failed> {
    let version = landlock::restrict(&compiled.uses).map_err(at(Stage::Landlock))?;
    let listener = fence::filter(&compiled.filter.0, Listener::New).map_err(at(Stage::Seccomp))?;
    if let Some(listener) = listener {
        let version = u8::try_from(version).unwrap_or(u8::MAX);
        socket::send(status, &[TOLD_LISTENER, version], &[listener.as_raw_fd()]).map_err(at(Stage::Seccomp))?;
    }
    Ok(())
}
