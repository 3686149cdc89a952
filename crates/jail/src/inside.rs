//! What the worker needs after it is confined: fork, the child's own restrictions, limits, reaping.

use std::ffi::{CString, NulError, c_char};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::Duration;

use crate::landlock::{self, LandlockAccess};
use crate::seccomp::Filter;
pub use crate::sys::process::{ForkSide, ProcessEnd, WaitMode};
use crate::sys::{fd, fence, limit, process, socket};

/// Takes ownership of a descriptor that was inherited under a fixed number.
pub fn adopt_descriptor(number: RawFd) -> io::Result<OwnedFd> {
    fd::adopt_descriptor(number)
}

/// Forks this process; the worker has one thread.
pub fn fork() -> io::Result<ForkSide> {
    process::fork()
}

/// Waits for a child of this process.
pub fn wait_for_child(pid: i32, patience: WaitMode) -> io::Result<Option<(i32, ProcessEnd)>> {
    process::wait_for_child(pid, patience)
}

/// Lets the kernel reap every child of this process, including adopted orphans: no zombie remains.
pub fn reap_automatically() {
    process::ignore_signal(libc::SIGCHLD);
}

/// Keeps ended children until they are waited for.
pub fn keep_zombies() {
    process::default_signal(libc::SIGCHLD);
}

/// A descriptor that becomes readable when the child `pid` has ended.
pub fn child_handle(pid: i32) -> io::Result<OwnedFd> {
    process::open_pidfd(pid)
}

/// What to wait for on a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Readable data, or the end of the stream.
    Read,
    /// Readable data, and capacity to write.
    ReadAndWrite,
    /// Capacity to write only.
    Write,
}

/// What a descriptor is ready for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Readiness {
    /// Whether reading does not block; it may return the end or an error.
    pub read: bool,
    /// Whether writing does not block; it may return an error.
    pub write: bool,
}

/// Waits without limit until one of `descriptors` is ready. The result has their order.
pub fn poll<const N: usize>(descriptors: [Option<(BorrowedFd<'_>, Interest)>; N]) -> io::Result<[Readiness; N]> {
    fd::poll(descriptors, None)
}

/// Waits for at most `patience`; after that time none is ready.
pub fn poll_within<const N: usize>(
    descriptors: [Option<(BorrowedFd<'_>, Interest)>; N],
    patience: Duration,
) -> io::Result<[Readiness; N]> {
    fd::poll(descriptors, Some(patience))
}

/// Waits for any number of descriptors.
pub fn poll_list(descriptors: &[Option<(BorrowedFd<'_>, Interest)>]) -> io::Result<Vec<Readiness>> {
    fd::poll_list(descriptors)
}

/// Makes closing this connection's socket a reset for its peer.
pub fn reset_when_closed(connection: BorrowedFd<'_>) -> io::Result<()> {
    socket::reset_when_closed(connection)
}

/// Whether reading would not block, now or within `patience`.
pub fn is_readable(descriptor: BorrowedFd<'_>, patience: Duration) -> io::Result<bool> {
    fd::is_readable(descriptor, patience)
}

/// The largest peak memory of an ended child of this process, in bytes.
pub fn max_child_memory() -> io::Result<u64> {
    process::max_child_memory()
}

/// Settles this process as the first one of a place that something else has made: it keeps no descriptor but the standard
/// streams and no privilege, nobody inspects it, and what loses its parent becomes its child. Restrictions of the place
/// itself, such as its root and its namespaces, are not made here.
pub fn settle() -> io::Result<()> {
    fd::close_from(FIRST_AFTER_STANDARD)?;
    process::set_process_option(libc::PR_SET_DUMPABLE, 0)?;
    // Each of these two fails where it is not needed: for the leader of a session, and where the place has no keyrings.
    let _ = process::new_session();
    let _ = process::leave_keyring();
    // As in the template: only signals without a handler are kept from the first process of a place.
    process::default_signal(libc::SIGSEGV);
    process::default_signal(libc::SIGBUS);
    process::drop_capabilities()?;
    process::set_process_option(libc::PR_SET_NO_NEW_PRIVS, 1)?;
    process::set_process_option(libc::PR_SET_CHILD_SUBREAPER, 1)
}

/// The first descriptor that is no standard stream.
const FIRST_AFTER_STANDARD: u32 = 3;

/// Whether this is the first process of its process namespace, which everything else there ends with.
pub fn is_first_process() -> bool {
    std::process::id() == 1
}

/// Sends `SIGKILL` to one process.
pub fn kill(pid: i32) -> io::Result<()> {
    process::signal(pid, libc::SIGKILL)
}

/// Kills every process in the sandbox except the first one, which alone may call this: elsewhere it would reach every process
/// of the user, and is refused.
pub fn kill_all_others() -> io::Result<()> {
    if !is_first_process() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    match process::signal(-1, libc::SIGKILL) {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        other => other,
    }
}

/// Ends this process immediately, without running exit handlers.
pub fn exit_now(code: i32) -> ! {
    process::exit_now(code)
}

/// Installs `filter` in addition to those in force.
pub fn install_filter(filter: &Filter) -> io::Result<()> {
    fence::install_filter(&filter.0, fence::Listener::None).map(drop)
}

/// Confines this process to `places`, in addition to earlier restrictions.
pub fn restrict_files(places: &[(CString, LandlockAccess)]) -> io::Result<()> {
    landlock::restrict_to_places(places).map(drop)
}

/// Limits of one process that the worker sets for an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessLimit {
    /// Address space in bytes, for engines whose memory nothing else counts.
    AddressSpace,
    /// Private writable memory in bytes.
    PrivateMemory,
    /// Processor seconds: the kernel ends the process if the host is late.
    CpuSeconds,
}

/// Sets a limit for this process and its children.
pub fn set_process_limit(kind: ProcessLimit, value: u64) -> io::Result<()> {
    let resource = match kind {
        ProcessLimit::AddressSpace => libc::RLIMIT_AS,
        ProcessLimit::PrivateMemory => libc::RLIMIT_DATA,
        ProcessLimit::CpuSeconds => libc::RLIMIT_CPU,
    };
    limit::set_limit(resource, value)
}

/// Makes `to` a copy of `from` that stays open across `exec`.
pub fn dup_onto(from: BorrowedFd<'_>, to: RawFd) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    if from.as_raw_fd() == to {
        fd::set_close_on_exec(to, false)
    } else {
        fd::dup_onto(from.as_raw_fd(), to, 0)
    }
}

/// Writes all of `bytes`.
pub fn write_all(to: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
    fd::write_all(to, bytes)
}

/// Replaces this process with the program at `path`; returns only the error. Signals have their defaults, as a program
/// expects.
pub fn become_program(
    path: &Path,
    argv: &[String],
    env: &[(String, String)],
) -> Result<std::convert::Infallible, ExecError> {
    use std::os::unix::ffi::OsStrExt;
    let path = CString::new(path.as_os_str().as_bytes())?;
    let argv = argv
        .iter()
        .map(|one| CString::new(one.as_str()))
        .collect::<Result<Vec<_>, _>>()?;
    let env = env
        .iter()
        .map(|(key, value)| CString::new(format!("{key}={value}")))
        .collect::<Result<Vec<_>, _>>()?;
    process::default_signal(libc::SIGPIPE);
    process::default_signal(libc::SIGCHLD);
    Err(ExecError::Refused(process::exec_path(
        &path,
        &argument_pointers(&argv),
        &argument_pointers(&env),
    )))
}

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// An argument contains a NUL byte.
    #[error("an argument holds a NUL character")]
    Nul(#[from] NulError),
    /// The kernel refused to execute it.
    #[error("the kernel refused")]
    Refused(#[source] io::Error),
}

fn argument_pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings
        .iter()
        .map(|one| one.as_ptr())
        .chain(std::iter::once(std::ptr::null()))
        .collect()
}
