//! How a copy of the template becomes a confined first process.
//!
//! The template has one thread, so its copy may allocate. The copy is confined before it receives the first order, or it
//! reports the step that failed and ends.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};

use crate::landlock;
use crate::root::Root;
use crate::seccomp::Filter;
use crate::steps::Steps;
use crate::sys::fence::{self, Listener};
use crate::sys::mount::{self, attr};
use crate::sys::{fd, limit, process, socket};
use crate::told::{MOST_BYTES, PIECE, Stage, TOLD_FAILURE, TOLD_HANDLES, TOLD_LISTENER};

/// The number of the control socket in the first process.
pub(crate) const CONTROL: RawFd = 3;
const STATUS: RawFd = 4;
const AFTER_ALL: u32 = 5;

/// The sockets that the copy starts with, as numbers: all descriptors are rearranged on the way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    pub(crate) status: RawFd,
    pub(crate) control: RawFd,
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

/// Runs all stages and returns the socket to the host. When a stage fails, the process reports it and ends.
pub(crate) fn run(ends: Ends, filter: &Filter) -> OwnedFd {
    let failed = match confine(ends, filter) {
        Ok(control) => return control,
        Err(failed) => failed,
    };
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
    // The status socket has its fixed number once the descriptors are in place, and its original number before.
    if socket::send(fd::lend(ends.status), &message, &[]).is_err() {
        // If this fails too, nothing can be reported: the host sees the end of the socket without a message.
        let _ = socket::send(fd::lend(STATUS), &message, &[]);
    }
    process::leave(1)
}

fn confine(ends: Ends, filter: &Filter) -> Result<OwnedFd, Failed> {
    let mut piece = [0; PIECE];
    let mut longer = Vec::new();
    let bytes = receive_steps(fd::lend(ends.status), &mut piece, &mut longer).map_err(at(Stage::Wait))?;
    let steps = Steps::unpack(bytes).ok_or_else(|| at(Stage::Wait)(io::ErrorKind::InvalidData.into()))?;
    let sources = open_sources(&steps);
    // The copy waits even if a source cannot be opened: a copy that ended before the template wrote its id maps would look
    // like one that cannot have a user.
    wait_until_told(fd::lend(ends.control)).map_err(at(Stage::Wait))?;
    let sources = sources?;
    if steps.drop_groups {
        process::drop_groups().map_err(at(Stage::Identity))?;
    }
    process::become_user(steps.inside).map_err(at(Stage::Identity))?;
    process::control(libc::PR_SET_DUMPABLE, 0).map_err(at(Stage::Identity))?;
    cap_namespace().map_err(at(Stage::Identity))?;
    let root = Root::make(&steps.root_options).map_err(at(Stage::Root))?;
    for (index, step) in steps.build.iter().enumerate() {
        root.build(step, &sources).map_err(at_step(Stage::Build, index))?;
    }
    mount::become_root().map_err(at(Stage::Enter))?;
    mount::restrict(c"/", attr::RDONLY).map_err(at(Stage::Enter))?;
    socket::raise_loopback().map_err(at(Stage::Network))?;
    process::set_host_name(c"sandbox").map_err(at(Stage::Network))?;
    hand_out(&steps, &root, fd::lend(ends.status))?;
    drop(root);
    place_descriptors(sources, ends).map_err(at(Stage::Descriptors))?;
    limit_resources(&steps).map_err(at(Stage::Limits))?;
    drop_privileges().map_err(at(Stage::Privileges))?;
    fence_in(&steps, filter)?;
    drop(fd::adopt(STATUS).map_err(at(Stage::Descriptors))?);
    fd::adopt(CONTROL).map_err(at(Stage::Descriptors))
}

/// Receives the host's steps for this copy as bytes: those that fit into one `piece` stay in it.
fn receive_steps<'a>(
    status: BorrowedFd<'_>,
    piece: &'a mut [u8; PIECE],
    longer: &'a mut Vec<u8>,
) -> io::Result<&'a [u8]> {
    const TOTAL: usize = size_of::<u64>();
    let length = socket::receive_bytes(status, piece)?;
    let total = piece.first_chunk().map_or(u64::MAX, |total| u64::from_le_bytes(*total));
    let total = usize::try_from(total).unwrap_or(usize::MAX);
    if length < TOTAL || total > MOST_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    if total == length - TOTAL {
        return Ok(piece.get(TOTAL..length).unwrap_or_default());
    }
    longer.extend_from_slice(piece.get(TOTAL..length).unwrap_or_default());
    while longer.len() < total {
        let length = socket::receive_bytes(status, piece)?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        longer.extend_from_slice(piece.get(..length).unwrap_or_default());
    }
    Ok(longer)
}

/// Opens the sources on the host while the copy still has the caller's identity.
fn open_sources(steps: &Steps<'_>) -> Result<Vec<OwnedFd>, Failed> {
    let sources = steps.sources.iter().enumerate();
    let opened = sources
        .map(|(index, source)| fd::open_at(None, source, libc::O_PATH, 0).map_err(at_step(Stage::Source, index)));
    opened.collect()
}

/// Waits until the template has written the id maps of this copy.
fn wait_until_told(control: BorrowedFd<'_>) -> io::Result<()> {
    match socket::receive_bytes(control, &mut [0u8; 1])? {
        1 => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Limits for what the kernel counts for each user namespace and keeps for each network namespace: without limits of its
/// own, one sandbox could use up what its user may have.
const SHARES: [(&CStr, &[u8]); 7] = [
    (c"/proc/sys/user/max_inotify_instances", b"8"),
    (c"/proc/sys/user/max_inotify_watches", b"16384"),
    (c"/proc/sys/user/max_fanotify_groups", b"0"),
    (c"/proc/sys/user/max_user_namespaces", b"0"),
    (c"/proc/sys/user/max_net_namespaces", b"1"),
    // The minimum, initial and maximum bytes that the kernel keeps for one connection in each direction; the host's own
    // values may be tens of MiB.
    (c"/proc/sys/net/ipv4/tcp_rmem", b"4096 131072 524288"),
    (c"/proc/sys/net/ipv4/tcp_wmem", b"4096 16384 524288"),
];

/// Limits the namespaces. A host whose `/proc/sys` is not writable, or an older kernel without a counter, has no limits to
/// set.
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

/// Sends the host the handles that the plan asks for, in one message.
fn hand_out(steps: &Steps<'_>, root: &Root, status: BorrowedFd<'_>) -> Result<(), Failed> {
    let mut places = Vec::with_capacity(steps.handles.len());
    for (index, path) in steps.handles.iter().enumerate() {
        let opened = root.open(path, libc::O_RDONLY | libc::O_DIRECTORY);
        places.push(opened.map_err(at_step(Stage::Handles, index))?);
    }
    let numbers: Vec<RawFd> = places.iter().map(AsRawFd::as_raw_fd).collect();
    if numbers.is_empty() {
        return Ok(());
    }
    socket::send(status, &[TOLD_HANDLES], &numbers)
        .map(drop)
        .map_err(at(Stage::Handles))
}

/// Leaves only the descriptors of the first process open: none of the host's or the template's stays.
fn place_descriptors(sources: Vec<OwnedFd>, ends: Ends) -> io::Result<()> {
    // Closed below, together with all others.
    let null = fd::open_at(None, c"/dev/null", libc::O_RDWR, 0)?.into_raw_fd();
    for source in sources {
        let _ = source.into_raw_fd();
    }
    for number in 0..CONTROL {
        fd::dup_onto(null, number, 0)?;
    }
    // The template's own socket has this number, so neither of these sockets has it.
    fd::dup_onto(ends.control, CONTROL, libc::O_CLOEXEC)?;
    if ends.status != STATUS {
        fd::dup_onto(ends.status, STATUS, libc::O_CLOEXEC)?;
    }
    fd::close_from(AFTER_ALL)
}

fn limit_resources(steps: &Steps<'_>) -> io::Result<()> {
    let limits = &steps.limits;
    // Not 0: a host that pipes cores to a program starts it even then; at 1 it does not, and no core fits into a file.
    limit::set(libc::RLIMIT_CORE, 1)?;
    limit::set(libc::RLIMIT_NOFILE, limits.open_files)?;
    limit::set(libc::RLIMIT_FSIZE, limits.file_bytes)?;
    limit::set(libc::RLIMIT_MEMLOCK, 64 << 10)?;
    limit::set(libc::RLIMIT_MSGQUEUE, 0)?;
    limit::set(libc::RLIMIT_SIGPENDING, 1024)?;
    // The priorities that a desktop session or an audio group grants its user are not for programs in a jail.
    limit::set(libc::RLIMIT_RTPRIO, 0)?;
    limit::set(libc::RLIMIT_NICE, 0)?;
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
    // Set after the identity changed, which clears it. The thread that made this process lives as long as the host.
    process::control(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong)
}

fn fence_in(steps: &Steps<'_>, filter: &Filter) -> Result<(), Failed> {
    let version = landlock::restrict(&steps.uses).map_err(at(Stage::Landlock))?;
    let sockets = socket::open_diagnosis().map_err(at(Stage::Network))?;
    let listener = fence::filter(&filter.0, Listener::New).map_err(at(Stage::Seccomp))?;
    if let Some(listener) = listener {
        let version = u8::try_from(version).unwrap_or(u8::MAX);
        let message = [TOLD_LISTENER, version];
        let mut numbers = vec![listener.as_raw_fd()];
        numbers.extend(sockets.iter().map(AsRawFd::as_raw_fd));
        socket::send(fd::lend(STATUS), &message, &numbers).map_err(at(Stage::Seccomp))?;
    }
    Ok(())
}
