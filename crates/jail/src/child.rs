//! How a copy of the template becomes a confined first process.
//!
//! The template has one thread, so its copy may allocate. The copy is confined before it receives the first order, or it
//! reports the step that failed and ends.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};

use crate::handshake::{
    ConfinementStage, FAILURE_MESSAGE, HANDLES_MESSAGE, LISTENER_MESSAGE, MAX_STEPS_BYTES, PIECE_BYTES,
};
use crate::landlock;
use crate::root::RootBuilder;
use crate::seccomp::Filter;
use crate::steps::ConfinementSteps;
use crate::sys::fence::{self, Listener};
use crate::sys::mount::{self, attr};
use crate::sys::{fd, limit, process, socket};

/// The number of the control socket in the first process.
pub(crate) const CONTROL_FD: RawFd = 3;
const STATUS_FD: RawFd = 4;
const FIRST_UNUSED_FD: u32 = 5;

/// The sockets that the copy starts with, as numbers: all descriptors are rearranged on the way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CopySockets {
    pub(crate) status: RawFd,
    pub(crate) control: RawFd,
}

struct StageFailure {
    stage: ConfinementStage,
    index: u16,
    error: io::Error,
}

fn failed_at(stage: ConfinementStage) -> impl FnOnce(io::Error) -> StageFailure {
    move |error| StageFailure { stage, index: 0, error }
}

fn failed_at_step(stage: ConfinementStage, index: usize) -> impl FnOnce(io::Error) -> StageFailure {
    move |error| StageFailure {
        stage,
        index: u16::try_from(index).unwrap_or(u16::MAX),
        error,
    }
}

/// Runs all stages and returns the socket to the host. When a stage fails, the process reports it and ends.
pub(crate) fn become_first_process(ends: CopySockets, filter: &Filter) -> OwnedFd {
    let failed = match confine(ends, filter) {
        Ok(control) => return control,
        Err(failed) => failed,
    };
    let number = failed.error.raw_os_error().unwrap_or(libc::EIO).to_le_bytes();
    let index = failed.index.to_le_bytes();
    let message = [
        FAILURE_MESSAGE,
        failed.stage as u8,
        index[0],
        index[1],
        number[0],
        number[1],
        number[2],
        number[3],
    ];
    // The status socket has its fixed number once the descriptors are in place, and its original number before.
    if socket::send(fd::borrow_number(ends.status), &message, &[]).is_err() {
        // If this fails too, nothing can be reported: the host sees the end of the socket without a message.
        let _ = socket::send(fd::borrow_number(STATUS_FD), &message, &[]);
    }
    process::exit_now(1)
}

fn confine(ends: CopySockets, filter: &Filter) -> Result<OwnedFd, StageFailure> {
    let mut piece = [0; PIECE_BYTES];
    let mut longer = Vec::new();
    let bytes = receive_steps(fd::borrow_number(ends.status), &mut piece, &mut longer)
        .map_err(failed_at(ConfinementStage::Wait))?;
    let steps = ConfinementSteps::decode(bytes)
        .ok_or_else(|| failed_at(ConfinementStage::Wait)(io::ErrorKind::InvalidData.into()))?;
    let sources = open_sources(&steps);
    // The copy waits even if a source cannot be opened: a copy that ended before the template wrote its id maps would look
    // like one that cannot have a user.
    wait_for_identity(fd::borrow_number(ends.control)).map_err(failed_at(ConfinementStage::Wait))?;
    let sources = sources?;
    if steps.drop_groups {
        process::drop_groups().map_err(failed_at(ConfinementStage::Identity))?;
    }
    process::become_user(steps.inside).map_err(failed_at(ConfinementStage::Identity))?;
    process::set_process_option(libc::PR_SET_DUMPABLE, 0).map_err(failed_at(ConfinementStage::Identity))?;
    limit_namespace().map_err(failed_at(ConfinementStage::Identity))?;
    let root = RootBuilder::mount_empty(&steps.root_options).map_err(failed_at(ConfinementStage::Root))?;
    for (index, step) in steps.build.iter().enumerate() {
        root.apply_step(step, &sources)
            .map_err(failed_at_step(ConfinementStage::Build, index))?;
    }
    mount::pivot_to_current().map_err(failed_at(ConfinementStage::Enter))?;
    mount::restrict_mount(c"/", attr::RDONLY).map_err(failed_at(ConfinementStage::Enter))?;
    socket::bring_loopback_up().map_err(failed_at(ConfinementStage::Network))?;
    process::set_host_name(c"sandbox").map_err(failed_at(ConfinementStage::Network))?;
    send_handles(&steps, &root, fd::borrow_number(ends.status))?;
    drop(root);
    place_descriptors(sources, ends).map_err(failed_at(ConfinementStage::Descriptors))?;
    limit_resources(&steps).map_err(failed_at(ConfinementStage::Limits))?;
    drop_privileges().map_err(failed_at(ConfinementStage::Privileges))?;
    restrict_process(&steps, filter)?;
    drop(fd::adopt_descriptor(STATUS_FD).map_err(failed_at(ConfinementStage::Descriptors))?);
    fd::adopt_descriptor(CONTROL_FD).map_err(failed_at(ConfinementStage::Descriptors))
}

/// Receives the host's steps for this copy as bytes: those that fit into one `piece` stay in it.
fn receive_steps<'a>(
    status: BorrowedFd<'_>,
    piece: &'a mut [u8; PIECE_BYTES],
    longer: &'a mut Vec<u8>,
) -> io::Result<&'a [u8]> {
    const TOTAL: usize = size_of::<u64>();
    let length = socket::receive_bytes(status, piece)?;
    let total = piece.first_chunk().map_or(u64::MAX, |total| u64::from_le_bytes(*total));
    let total = usize::try_from(total).unwrap_or(usize::MAX);
    if length < TOTAL || total > MAX_STEPS_BYTES {
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
fn open_sources(steps: &ConfinementSteps<'_>) -> Result<Vec<OwnedFd>, StageFailure> {
    let sources = steps.sources.iter().enumerate();
    let opened = sources.map(|(index, source)| {
        fd::open_at(None, source, libc::O_PATH, 0).map_err(failed_at_step(ConfinementStage::Source, index))
    });
    opened.collect()
}

/// Waits until the template has written the id maps of this copy.
fn wait_for_identity(control: BorrowedFd<'_>) -> io::Result<()> {
    match socket::receive_bytes(control, &mut [0u8; 1])? {
        1 => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Limits for what the kernel counts for each user namespace and keeps for each network namespace: without limits of its
/// own, one sandbox could use up what its user may have.
const NAMESPACE_LIMITS: [(&CStr, &[u8]); 7] = [
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
fn limit_namespace() -> io::Result<()> {
    for (path, share) in NAMESPACE_LIMITS {
        let written = fd::open_at(None, path, libc::O_WRONLY, 0).and_then(|file| fd::write_all(file.as_fd(), share));
        match written.as_ref().map_err(io::Error::raw_os_error) {
            Ok(()) | Err(Some(libc::ENOENT | libc::EACCES | libc::EROFS | libc::EPERM)) => {}
            Err(_) => return written,
        }
    }
    Ok(())
}

/// Sends the host the handles that the plan asks for, in one message.
fn send_handles(steps: &ConfinementSteps<'_>, root: &RootBuilder, status: BorrowedFd<'_>) -> Result<(), StageFailure> {
    let mut places = Vec::with_capacity(steps.handles.len());
    for (index, path) in steps.handles.iter().enumerate() {
        let opened = root.open(path, libc::O_RDONLY | libc::O_DIRECTORY);
        places.push(opened.map_err(failed_at_step(ConfinementStage::Handles, index))?);
    }
    let numbers: Vec<RawFd> = places.iter().map(AsRawFd::as_raw_fd).collect();
    if numbers.is_empty() {
        return Ok(());
    }
    socket::send(status, &[HANDLES_MESSAGE], &numbers)
        .map(drop)
        .map_err(failed_at(ConfinementStage::Handles))
}

/// Leaves only the descriptors of the first process open: none of the host's or the template's stays.
fn place_descriptors(sources: Vec<OwnedFd>, ends: CopySockets) -> io::Result<()> {
    // Closed below, together with all others.
    let null = fd::open_at(None, c"/dev/null", libc::O_RDWR, 0)?.into_raw_fd();
    for source in sources {
        let _ = source.into_raw_fd();
    }
    for number in 0..CONTROL_FD {
        fd::dup_onto(null, number, 0)?;
    }
    // The template's own socket has this number, so neither of these sockets has it.
    fd::dup_onto(ends.control, CONTROL_FD, libc::O_CLOEXEC)?;
    if ends.status != STATUS_FD {
        fd::dup_onto(ends.status, STATUS_FD, libc::O_CLOEXEC)?;
    }
    fd::close_from(FIRST_UNUSED_FD)
}

fn limit_resources(steps: &ConfinementSteps<'_>) -> io::Result<()> {
    let limits = &steps.limits;
    // Not 0: a host that pipes cores to a program starts it even then; at 1 it does not, and no core fits into a file.
    limit::set_limit(libc::RLIMIT_CORE, 1)?;
    limit::set_limit(libc::RLIMIT_NOFILE, limits.open_files)?;
    limit::set_limit(libc::RLIMIT_FSIZE, limits.file_bytes)?;
    limit::set_limit(libc::RLIMIT_MEMLOCK, 64 << 10)?;
    limit::set_limit(libc::RLIMIT_MSGQUEUE, 0)?;
    limit::set_limit(libc::RLIMIT_SIGPENDING, 1024)?;
    // The priorities that a desktop session or an audio group grants its user are not for programs in a jail.
    limit::set_limit(libc::RLIMIT_RTPRIO, 0)?;
    limit::set_limit(libc::RLIMIT_NICE, 0)?;
    if let Some(processes) = limits.processes {
        limit::set_limit(libc::RLIMIT_NPROC, processes)?;
    }
    if let Some(count) = limits.processors {
        limit::confine_to_processors(count)?;
    }
    Ok(())
}

fn drop_privileges() -> io::Result<()> {
    process::new_session()?;
    process::leave_keyring()?;
    process::set_process_option(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong)?;
    for capability in 0..64 {
        match process::set_process_option(libc::PR_CAPBSET_DROP, capability) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => break,
            other => other?,
        }
    }
    process::drop_capabilities()?;
    process::set_process_option(libc::PR_SET_NO_NEW_PRIVS, 1)?;
    // Set after the identity changed, which clears it. The thread that made this process lives as long as the host.
    process::set_process_option(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong)
}

fn restrict_process(steps: &ConfinementSteps<'_>, filter: &Filter) -> Result<(), StageFailure> {
    let version = landlock::restrict_to_places(&steps.uses).map_err(failed_at(ConfinementStage::Landlock))?;
    let sockets = socket::open_socket_listing().map_err(failed_at(ConfinementStage::Network))?;
    let listener = fence::install_filter(&filter.0, Listener::New).map_err(failed_at(ConfinementStage::Seccomp))?;
    if let Some(listener) = listener {
        let version = u8::try_from(version).unwrap_or(u8::MAX);
        let message = [LISTENER_MESSAGE, version];
        let mut numbers = vec![listener.as_raw_fd()];
        numbers.extend(sockets.iter().map(AsRawFd::as_raw_fd));
        socket::send(fd::borrow_number(STATUS_FD), &message, &numbers).map_err(failed_at(ConfinementStage::Seccomp))?;
    }
    Ok(())
}
