//! What a jail must refuse, one attempt each: for the escape probes alone.
//!
//! Every attempt is harmless where it succeeds: it changes only the process that makes it, gives back immediately what it
//! was given, or leaves it to the kernel to release when that process ends.

mod kept;
mod memory;
mod mounts;
mod peers;
mod sockets;

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

pub use kept::{
    SpaceReservation, attach_filter, grow_lock_table, keep_errors, keep_mapped, keep_rule, lease, notices, reserve,
    set_option,
};
pub use memory::{
    leak_shared_segment, lock_bytes, make_timers, reserve_async_io, scatter_page_tables, write_through_mapping,
    write_through_memory_file,
};
pub use mounts::{
    MountedFilesystem, change_root, clear_mount_attributes, file_handle, make_device, mount_bind, mount_new, move_tree,
    open_by_handle, open_filesystem, open_tree, pivot_root, remount, unmount,
};
pub use peers::{
    ForkedResult, VictimProcess, become_traced, compare_processes, copy_descriptor, fork_until_refused, leave_daemon,
    make_orphan, read_memory_of, run_in_child, seize, set_user, signal, spawn_victim, write_own_memory,
};
pub use sockets::{push_into_terminal, resize_loopback, socket, socket_pair, terminal_paste};

use super::check;
use super::process::{self, ForkSide};

/// Makes a raw system call whose arguments are plain numbers or addresses.
///
/// # Safety
/// Whatever `number` reads or fills through an argument must be there, large enough, until the call is over.
unsafe fn raw_call(number: libc::c_long, arguments: [usize; 6]) -> io::Result<libc::c_long> {
    let [one, two, three, four, five, six] = arguments;
    // SAFETY: the caller vouches for every argument that is an address.
    check(unsafe { libc::syscall(number, one, two, three, four, five, six) })
}

/// Takes ownership of a new descriptor that a call returned.
fn owned_descriptor(answer: libc::c_long) -> io::Result<OwnedFd> {
    let fd = i32::try_from(answer).map_err(|_| io::ErrorKind::InvalidData)?;
    if fd < 0 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // SAFETY: the callers pass what a call that makes a descriptor just answered; nobody else knows that number.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Asks for a ring of system calls that no filter sees.
pub fn open_io_uring() -> io::Result<OwnedFd> {
    let mut parameters = [0u64; 15];
    let address = parameters.as_mut_ptr() as usize;
    // SAFETY: the call fills an io_uring_params of 120 bytes, which `parameters` is.
    owned_descriptor(unsafe { raw_call(libc::SYS_io_uring_setup, [1, address, 0, 0, 0, 0]) }?)
}

/// Asks a ring which operations (sockets, files) it supports.
pub fn io_uring_operations() -> io::Result<()> {
    const PROBE: usize = 8;
    const OPERATIONS: usize = 64;
    let ring = open_io_uring();
    let number = ring.as_ref().map_or(-1, AsRawFd::as_raw_fd).cast_unsigned() as usize;
    let mut answer = [0u64; 2 + OPERATIONS];
    let address = answer.as_mut_ptr() as usize;
    // SAFETY: the call fills 16 bytes and 8 for each of `OPERATIONS`, which is the size of `answer`.
    unsafe { raw_call(libc::SYS_io_uring_register, [number, PROBE, address, OPERATIONS, 0, 0]) }.map(drop)
}

/// Makes a small BPF map, which is gone with its descriptor.
pub fn make_bpf_map() -> io::Result<()> {
    const MAP_CREATE: usize = 0;
    // Map type (array), key size, value size, entries, flags, and zeroes as far as the kernel may read.
    let mut attributes = [0u32; 32];
    attributes[..4].copy_from_slice(&[2, 4, 4, 1]);
    let (address, size) = (attributes.as_ptr() as usize, size_of_val(&attributes));
    // SAFETY: `attributes` is `size` bytes that outlive the call.
    owned_descriptor(unsafe { raw_call(libc::SYS_bpf, [MAP_CREATE, address, size, 0, 0, 0]) }?).map(drop)
}

/// Asks to handle page faults of this process by itself.
pub fn open_userfaultfd() -> io::Result<()> {
    const USER_MODE_ONLY: i32 = 1;
    let flags = (libc::O_CLOEXEC | USER_MODE_ONLY).cast_unsigned() as usize;
    // SAFETY: the call takes an integer.
    owned_descriptor(unsafe { raw_call(libc::SYS_userfaultfd, [flags, 0, 0, 0, 0, 0]) }?).map(drop)
}

/// Opens a counter of this process's own processor time.
pub fn open_perf_event() -> io::Result<()> {
    const SOFTWARE: u32 = 1;
    const EXCLUDE_KERNEL_AND_HYPERVISOR: u32 = 1 << 5 | 1 << 6;
    // Type, size, config (cpu clock: 0) and, after period, sample and read formats, the flags.
    let mut attributes = [0u32; 28];
    attributes[0] = SOFTWARE;
    attributes[1] = 112;
    attributes[10] = EXCLUDE_KERNEL_AND_HYPERVISOR;
    let any_processor = usize::MAX;
    let address = attributes.as_ptr() as usize;
    // SAFETY: `attributes` is the 112 bytes that it says it is and outlives the call.
    owned_descriptor(unsafe {
        raw_call(
            libc::SYS_perf_event_open,
            [address, 0, any_processor, any_processor, 0, 0],
        )
    }?)
    .map(drop)
}

const PROCESS_KEYRING: usize = (-2isize).cast_unsigned();

/// Asks for the number of this process's own keyring, and so makes it.
pub fn own_keyring() -> io::Result<()> {
    const GET_KEYRING_ID: usize = 0;
    // SAFETY: this operation takes integers.
    unsafe { raw_call(libc::SYS_keyctl, [GET_KEYRING_ID, PROCESS_KEYRING, 1, 0, 0, 0]) }.map(drop)
}

/// Adds a key to this process's own keyring, which is gone with the process.
pub fn add_key() -> io::Result<()> {
    let (kind, name, content) = (
        c"user".as_ptr() as usize,
        c"ringfence-probe".as_ptr() as usize,
        b"x".as_ptr() as usize,
    );
    // SAFETY: both strings are static and NUL-terminated, the content is one static byte, as the length says.
    unsafe { raw_call(libc::SYS_add_key, [kind, name, content, 1, PROCESS_KEYRING, 0]) }.map(drop)
}

/// Requests the key that was added.
pub fn request_key() -> io::Result<()> {
    // Without that key the search would ask the machine's own helper program.
    let added = add_key();
    let (kind, name) = (c"user".as_ptr() as usize, c"ringfence-probe".as_ptr() as usize);
    // SAFETY: both strings are static and NUL-terminated; a null hint is allowed and starts no helper.
    unsafe { raw_call(libc::SYS_request_key, [kind, name, 0, 0, 0, 0]) }?;
    added
}

/// Makes new namespaces for this process; `flags` as in `unshare`.
pub fn unshare(flags: i32) -> io::Result<()> {
    // SAFETY: the call takes an integer.
    unsafe { raw_call(libc::SYS_unshare, [flags.cast_unsigned() as usize, 0, 0, 0, 0, 0]) }.map(drop)
}

/// Makes a child in new namespaces by the old call; it ends immediately.
pub fn clone_into(flags: i32) -> io::Result<()> {
    let flags = (flags | libc::SIGCHLD).cast_unsigned() as usize;
    // SAFETY: without CLONE_VM and without a stack this is a fork: the child, which only leaves, has its own copy.
    match unsafe { raw_call(libc::SYS_clone, [flags, 0, 0, 0, 0, 0]) }? {
        0 => process::exit_now(0),
        pid => wait_for(pid),
    }
}

/// Makes such a child by the new call.
pub fn clone3_into(flags: i32) -> io::Result<()> {
    let mut arguments = [0u64; 8];
    arguments[0] = u64::from(flags.cast_unsigned());
    arguments[4] = u64::from(libc::SIGCHLD.cast_unsigned());
    let (address, size) = (arguments.as_ptr() as usize, size_of_val(&arguments));
    // SAFETY: `arguments` is the first version of clone_args, of `size` bytes; without a stack this is a fork.
    match unsafe { raw_call(libc::SYS_clone3, [address, size, 0, 0, 0, 0]) }? {
        0 => process::exit_now(0),
        pid => wait_for(pid),
    }
}

fn wait_for(pid: libc::c_long) -> io::Result<()> {
    let pid = i32::try_from(pid).map_err(|_| io::ErrorKind::InvalidData)?;
    process::wait_for_child(pid, process::WaitMode::Forever).map(drop)
}

/// Joins the namespace that `namespace` is open on.
pub fn join_namespace(namespace: &OwnedFd) -> io::Result<()> {
    let number = namespace.as_raw_fd().cast_unsigned() as usize;
    // SAFETY: the call takes integers; the descriptor is borrowed for it.
    unsafe { raw_call(libc::SYS_setns, [number, 0, 0, 0, 0, 0]) }.map(drop)
}

/// Changes to the kernel itself, with arguments that change nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelChange {
    /// Loads a module of no bytes.
    Module,
    /// Loads a module from an invalid descriptor.
    ModuleFile,
    /// Removes a module that does not exist.
    NoModule,
    /// Loads another kernel, with flags that no kernel knows.
    Kernel,
}

/// Tries to change the kernel.
pub fn change_kernel(change: KernelChange) -> io::Result<()> {
    let empty = c"".as_ptr() as usize;
    let (number, arguments) = match change {
        KernelChange::Module => (libc::SYS_init_module, [empty, 0, empty, 0, 0, 0]),
        KernelChange::ModuleFile => (libc::SYS_finit_module, [usize::MAX, empty, 0, 0, 0, 0]),
        KernelChange::NoModule => (
            libc::SYS_delete_module,
            [c"ringfence_no_module".as_ptr() as usize, 0, 0, 0, 0, 0],
        ),
        KernelChange::Kernel => (libc::SYS_kexec_load, [0, 0, 0, usize::MAX, 0, 0]),
    };
    // SAFETY: the strings are static and NUL-terminated; a module image of length 0 and 0 segments are not read.
    unsafe { raw_call(number, arguments) }.map(drop)
}

/// Sets the machine's clock to its current time.
pub fn set_clock() -> io::Result<()> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let address = (&raw mut now) as usize;
    let clock = libc::CLOCK_REALTIME.cast_unsigned() as usize;
    // SAFETY: the call fills `now`.
    unsafe { raw_call(libc::SYS_clock_gettime, [clock, address, 0, 0, 0, 0]) }?;
    // SAFETY: the call reads `now`.
    unsafe { raw_call(libc::SYS_clock_settime, [clock, address, 0, 0, 0, 0]) }.map(drop)
}

/// Reads how the machine's clock is being adjusted, by a call that could also adjust it.
pub fn read_clock_adjustment() -> io::Result<()> {
    let mut room = [0u64; 64];
    // SAFETY: the call fills a timex (208 bytes); its first field, 0, asks for no change.
    unsafe { raw_call(libc::SYS_adjtimex, [room.as_mut_ptr() as usize, 0, 0, 0, 0, 0]) }.map(drop)
}

/// Sets the personality of this process.
pub fn set_personality(value: u32) -> io::Result<()> {
    // SAFETY: the call takes an integer.
    unsafe { raw_call(libc::SYS_personality, [value as usize, 0, 0, 0, 0, 0]) }.map(drop)
}

/// Calls `getpid` through the 32-bit entry of a 64-bit kernel.
#[cfg(target_arch = "x86_64")]
pub fn getpid_by_int80() -> io::Result<()> {
    let mut answer: i64 = 20; // getpid there
    // SAFETY: getpid takes nothing and touches no memory; the kernel's 32-bit entry may lose r8 to r11, which are named.
    unsafe {
        std::arch::asm!("int 0x80", inout("rax") answer, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    if answer > 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::ENOSYS))
    }
}

/// Calls `getpid` by its x32 number.
#[cfg(target_arch = "x86_64")]
pub fn getpid_by_x32() -> io::Result<()> {
    const X32: libc::c_long = 0x4000_0000;
    // SAFETY: getpid takes nothing and touches no memory.
    unsafe { raw_call(X32 | libc::SYS_getpid, [0; 6]) }.map(drop)
}

/// Changes the name of this machine.
pub fn set_host_name() -> io::Result<()> {
    let name = b"elsewhere";
    // SAFETY: the pointer and length describe `name`.
    unsafe { raw_call(libc::SYS_sethostname, [name.as_ptr() as usize, name.len(), 0, 0, 0, 0]) }.map(drop)
}

/// Makes an anonymous file in memory.
pub fn make_memory_file() -> io::Result<OwnedFd> {
    // SAFETY: the name is a static NUL-terminated string.
    owned_descriptor(unsafe { raw_call(libc::SYS_memfd_create, [c"probe".as_ptr() as usize, 1, 0, 0, 0, 0]) }?)
}

/// Lets this thread run on every processor there is; returns how many it may use now.
pub fn use_every_processor() -> io::Result<usize> {
    let mut mask = [u64::MAX; 16];
    let (address, size) = (mask.as_mut_ptr() as usize, size_of_val(&mask));
    // SAFETY: the address and size describe `mask`, which is read.
    let widened = unsafe { raw_call(libc::SYS_sched_setaffinity, [0, size, address, 0, 0, 0]) };
    // A refusal leaves the affinity as it is, which is read next.
    drop(widened);
    mask = [0; 16];
    // SAFETY: the address and size describe `mask`, which is filled.
    unsafe { raw_call(libc::SYS_sched_getaffinity, [0, size, address, 0, 0, 0]) }?;
    Ok(mask.iter().map(|word| word.count_ones() as usize).sum())
}

/// Ends this process immediately, without running exit handlers.
pub fn exit_now(code: i32) -> ! {
    process::exit_now(code)
}

/// Forks and returns the caller's side; only a process with one thread forks.
fn fork_alone() -> io::Result<ForkSide> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "a process with several threads does not fork",
        ));
    }
    process::fork()
}
