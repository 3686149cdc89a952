//! Processes: making them, executing programs, ending and waiting for them.

use std::ffi::{CStr, c_char};
use std::io;
#[cfg(feature = "host")]
use std::os::fd::{AsRawFd, BorrowedFd};
#[cfg(any(feature = "host", feature = "inside"))]
use std::os::fd::{FromRawFd, OwnedFd};

use super::{check, check_int};

/// Which side of a fork the caller finds itself on.
#[cfg(any(feature = "inside", feature = "attack"))]
#[cfg_attr(
    not(feature = "inside"),
    expect(unreachable_pub, reason = "the worker takes it from here")
)]
#[derive(Debug)]
pub enum ForkSide {
    /// The caller is the new process.
    Child,
    /// The caller is the old process, which now knows the new one's number.
    Parent(i32),
}

/// The caller's side of a `clone3`; the parent also has a handle on the child.
#[cfg(any(feature = "host", feature = "inside"))]
#[derive(Debug)]
pub(crate) enum CloneSide {
    Child,
    Parent { pid: i32, handle: OwnedFd },
}

#[cfg(any(feature = "host", feature = "inside"))]
#[repr(C)]
#[derive(Default)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
}

/// The parent of a copy.
#[cfg(any(feature = "host", feature = "inside"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloneParent {
    /// The process that makes the copy.
    #[cfg(feature = "host")]
    Maker,
    /// The parent of the process that makes the copy: the copy is a sibling of its maker, and the parent waits for both.
    #[cfg(feature = "inside")]
    MakersParent,
}

/// Copies this process into new `namespaces`. The copy of a process with other threads may only make signal-safe calls.
#[cfg(any(feature = "host", feature = "inside"))]
pub(crate) fn clone_into(namespaces: libc::c_int, parent: CloneParent) -> io::Result<CloneSide> {
    let mut handle: libc::c_int = -1;
    // A sibling's end is signalled as its maker's is: the kernel demands that no other signal is requested.
    let (flag, exit_signal): (libc::c_int, libc::c_int) = match parent {
        #[cfg(feature = "host")]
        CloneParent::Maker => (0, libc::SIGCHLD),
        #[cfg(feature = "inside")]
        CloneParent::MakersParent => (libc::CLONE_PARENT, 0),
    };
    let arguments = CloneArguments {
        flags: u64::from((namespaces | flag).cast_unsigned()) | libc::CLONE_PIDFD as u64,
        pidfd: (&raw mut handle) as u64,
        exit_signal: u64::from(exit_signal.cast_unsigned()),
        ..CloneArguments::default()
    };
    // SAFETY: without CLONE_VM and with no stack given this is a fork: the child runs on its own copy of everything.
    // `arguments` and `handle` outlive the call and the size is that of the structure.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<CloneArguments>()) };
    let pid = i32::try_from(check(pid)?).map_err(|_| io::ErrorKind::InvalidData)?;
    if pid == 0 {
        return Ok(CloneSide::Child);
    }
    // SAFETY: CLONE_PIDFD made `handle` a new descriptor of the parent, owned by nobody else.
    let handle = unsafe { OwnedFd::from_raw_fd(handle) };
    Ok(CloneSide::Parent { pid, handle })
}

/// Forks a single-threaded process.
#[cfg(any(feature = "inside", feature = "attack"))]
pub(crate) fn fork() -> io::Result<ForkSide> {
    // SAFETY: the callers (the worker's first process and its children) have one thread, so the child may run any code.
    match check_int(unsafe { libc::fork() })? {
        0 => Ok(ForkSide::Child),
        pid => Ok(ForkSide::Parent(pid)),
    }
}

/// Executes the program behind the descriptor `program`. Returns only on failure. Signal-safe.
#[cfg(feature = "host")]
pub(crate) fn exec_program(program: BorrowedFd<'_>, argv: &[*const c_char], envp: &[*const c_char]) -> io::Error {
    debug_assert!(argv.last().is_some_and(|last| last.is_null()) && envp.last().is_some_and(|last| last.is_null()));
    // SAFETY: both arrays end in a null pointer and hold pointers to NUL-terminated strings kept by the caller.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program.as_raw_fd(),
            c"".as_ptr(),
            argv.as_ptr(),
            envp.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    io::Error::last_os_error()
}

/// Executes the program at `path`. Returns only on failure. Signal-safe.
#[cfg(feature = "inside")]
pub(crate) fn exec_path(path: &CStr, argv: &[*const c_char], envp: &[*const c_char]) -> io::Error {
    debug_assert!(argv.last().is_some_and(|last| last.is_null()) && envp.last().is_some_and(|last| last.is_null()));
    // SAFETY: both arrays end in a null pointer and hold pointers to NUL-terminated strings kept by the caller.
    unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    io::Error::last_os_error()
}

/// Ends this process at once: no destructor, no buffer, no exit handler. Signal-safe.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: _exit takes an integer and does not return.
    unsafe { libc::_exit(code) }
}

/// Sends `signal` to `pid` (-1: to all but the caller and the first process). Signal-safe.
pub(crate) fn signal(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: kill takes integers.
    check_int(unsafe { libc::kill(pid, signal) }).map(|_| ())
}

/// Sends `signal` to the process behind a handle: never to a successor that got the same number.
#[cfg(feature = "host")]
pub(crate) fn signal_handle(handle: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    let nothing = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: a null siginfo is allowed and means "as kill would".
    check(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, handle.as_raw_fd(), signal, nothing, 0) }).map(|_| ())
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEnd {
    /// It exited with this code.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
}

/// Waits for `pid` (-1: any child). `None`: `patience` was `Now` and no child has ended.
#[cfg(any(feature = "inside", feature = "attack"))]
pub(crate) fn wait_for_child(pid: i32, patience: WaitMode) -> io::Result<Option<(i32, ProcessEnd)>> {
    let options = match patience {
        WaitMode::Forever => 0,
        WaitMode::Now => libc::WNOHANG,
    };
    let mut status = 0;
    loop {
        // SAFETY: `status` is room for the integer that waitpid fills.
        match check_int(unsafe { libc::waitpid(pid, &raw mut status, options | libc::__WALL) }) {
            Ok(0) => return Ok(None),
            Ok(ended) if libc::WIFSIGNALED(status) => {
                return Ok(Some((ended, ProcessEnd::Killed(libc::WTERMSIG(status)))));
            }
            Ok(ended) => return Ok(Some((ended, ProcessEnd::Exited(libc::WEXITSTATUS(status))))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether a wait may block.
#[cfg(any(feature = "inside", feature = "attack"))]
#[cfg_attr(
    not(feature = "inside"),
    expect(unreachable_pub, reason = "the worker takes it from here")
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitMode {
    /// The wait blocks until a child ends.
    Forever,
    /// The wait does not block.
    Now,
}

/// Waits until the process behind `handle` is gone, and reaps it.
#[cfg(feature = "host")]
pub(crate) fn wait_handle(handle: BorrowedFd<'_>) -> io::Result<ProcessEnd> {
    loop {
        // SAFETY: an all-zero siginfo_t is a valid value of that plain structure.
        let mut status: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let id = handle.as_raw_fd().cast_unsigned();
        // SAFETY: `status` is room for what waitid fills; the handle is borrowed for the call.
        match check_int(unsafe { libc::waitid(libc::P_PIDFD, id, &raw mut status, libc::WEXITED | libc::__WALL) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        // SAFETY: waitid filled the child fields.
        let code = unsafe { status.si_status() };
        return Ok(if status.si_code == libc::CLD_EXITED {
            ProcessEnd::Exited(code)
        } else {
            ProcessEnd::Killed(code)
        });
    }
}

/// Whether the process behind `handle` has ended; it stays to be reaped.
#[cfg(feature = "host")]
pub(crate) fn has_ended(handle: BorrowedFd<'_>) -> io::Result<bool> {
    // SAFETY: an all-zero siginfo_t is a valid value of that plain structure.
    let mut status: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::__WALL | libc::WNOHANG | libc::WNOWAIT;
    let id = handle.as_raw_fd().cast_unsigned();
    // SAFETY: `status` is room for what waitid fills; the handle is borrowed for the call.
    check_int(unsafe { libc::waitid(libc::P_PIDFD, id, &raw mut status, options) })?;
    // SAFETY: waitid filled the child fields, or left them zero when nobody has ended.
    Ok(unsafe { status.si_pid() } != 0)
}

/// Becomes user and group `id` of this user namespace. Signal-safe.
pub(crate) fn become_user(id: u32) -> io::Result<()> {
    // SAFETY: the calls take integers; going through `syscall` they change this thread alone, the only one there is.
    check(unsafe { libc::syscall(libc::SYS_setresgid, id, id, id) })?;
    // SAFETY: as above.
    check(unsafe { libc::syscall(libc::SYS_setresuid, id, id, id) }).map(|_| ())
}

/// Drops all supplementary groups. Signal-safe.
pub(crate) fn drop_groups() -> io::Result<()> {
    // SAFETY: a length of zero means the pointer is not read.
    check(unsafe { libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()) }).map(|_| ())
}

/// Sets the user whose rights apply to files that this thread makes. For the calling thread alone.
#[cfg(feature = "host")]
pub(crate) fn set_file_user(user: u32, group: u32) {
    // SAFETY: setfsgid takes an integer and affects the calling thread only.
    unsafe { libc::syscall(libc::SYS_setfsgid, group) };
    // SAFETY: setfsuid takes an integer and affects the calling thread only.
    unsafe { libc::syscall(libc::SYS_setfsuid, user) };
}

/// Starts a new session, so that no terminal is the controlling one. Signal-safe.
pub(crate) fn new_session() -> io::Result<()> {
    // SAFETY: setsid takes nothing.
    check_int(unsafe { libc::setsid() }).map(|_| ())
}

/// Calls `prctl` with plain integers. Signal-safe.
pub(crate) fn set_process_option(option: libc::c_int, value: libc::c_ulong) -> io::Result<()> {
    // SAFETY: the options used here (dumpable, no_new_privs, parent-death signal, bounding set, ambient set) take no pointers.
    check_int(unsafe { libc::prctl(option, value, 0, 0, 0) }).map(|_| ())
}

/// Leaves the session keyring that was inherited. Signal-safe.
pub(crate) fn leave_keyring() -> io::Result<()> {
    const JOIN_SESSION_KEYRING: libc::c_int = 1;
    let anonymous = std::ptr::null::<c_char>();
    // SAFETY: a null name asks for a new anonymous keyring; no memory is read.
    check(unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, anonymous) }).map(|_| ())
}

/// Clears permitted, effective and inheritable capabilities. Signal-safe.
pub(crate) fn drop_capabilities() -> io::Result<()> {
    #[repr(C)]
    struct CapabilityHeader {
        version: u32,
        pid: i32,
    }
    let header = CapabilityHeader {
        version: 0x2008_0522,
        pid: 0,
    };
    let none = [0u32; 6];
    // SAFETY: version 3 of the interface reads the header and two sets of three words, which `none` is.
    check(unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) }).map(|_| ())
}

/// Sets the host name that programs inside see. Signal-safe.
pub(crate) fn set_host_name(name: &CStr) -> io::Result<()> {
    // SAFETY: the pointer and length describe `name`.
    check_int(unsafe { libc::sethostname(name.as_ptr(), name.to_bytes().len()) }).map(|_| ())
}

/// Blocks every signal in this thread, or unblocks all. Signal-safe.
pub(crate) fn block_signals(block: bool) -> io::Result<()> {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    let initialised = if block {
        // SAFETY: `set` is room for a signal set, which the call initialises whole.
        unsafe { libc::sigfillset(set.as_mut_ptr()) }
    } else {
        // SAFETY: as above.
        unsafe { libc::sigemptyset(set.as_mut_ptr()) }
    };
    check_int(initialised)?;
    // SAFETY: `set` was initialised above; the old set is not wanted.
    check_int(unsafe { libc::sigprocmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut()) }).map(|_| ())
}

/// Restores the default effect of a signal. Signal-safe.
#[cfg(feature = "inside")]
pub(crate) fn default_signal(number: i32) {
    // SAFETY: SIG_DFL installs no code of ours.
    unsafe { libc::signal(number, libc::SIG_DFL) };
}

/// Makes a signal have no effect. Signal-safe.
#[cfg(feature = "inside")]
pub(crate) fn ignore_signal(number: i32) {
    // SAFETY: SIG_IGN installs no code of ours.
    unsafe { libc::signal(number, libc::SIG_IGN) };
}

/// The largest resident size of an ended child, or of one of its own ended children, in bytes.
#[cfg(feature = "inside")]
pub(crate) fn max_child_memory() -> io::Result<u64> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is room for what getrusage fills.
    check_int(unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()) })?;
    // SAFETY: getrusage succeeded, and an all-zero rusage is valid anyway.
    let kib = unsafe { usage.assume_init() }.ru_maxrss;
    Ok(u64::try_from(kib).unwrap_or(0) * 1024)
}

/// Opens a handle on the process `pid`.
#[cfg(feature = "inside")]
pub(crate) fn open_pidfd(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open takes integers.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    let fd = i32::try_from(fd).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: the kernel just made this descriptor and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// This process's effective user and group.
pub(crate) fn effective_ids() -> (u32, u32) {
    // SAFETY: geteuid takes nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    // SAFETY: getegid takes nothing and cannot fail.
    (user, unsafe { libc::getegid() })
}
