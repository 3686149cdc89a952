//! Other processes: making, reading and tracing them.

use std::io;
use std::time::{Duration, Instant};

use super::{fork_alone, owned_descriptor, raw_call};
use crate::sys::process::{self, ForkSide, ProcessEnd, WaitMode};

/// A child that an attempt made for itself; dropping this kills it.
#[derive(Debug)]
pub struct VictimProcess(i32);

impl VictimProcess {
    /// The child's process number.
    pub fn pid(&self) -> i32 {
        self.0
    }
}

impl Drop for VictimProcess {
    fn drop(&mut self) {
        // A process that has ended already needs no signal.
        let _ = process::signal(self.0, libc::SIGKILL);
        let _ = process::wait_for_child(self.0, WaitMode::Forever);
    }
}

/// How work in a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForkedResult {
    /// It ended by itself or by a signal.
    Ended(ProcessEnd),
    /// It was killed because it took too long.
    TooLong,
}

/// Runs `work` in a child and waits for it no longer than `patience`. A process with several threads is refused.
pub fn run_in_child(patience: Duration, work: impl FnOnce() -> i32) -> io::Result<ForkedResult> {
    let pid = match fork_alone()? {
        ForkSide::Child => process::exit_now(work()),
        ForkSide::Parent(pid) => pid,
    };
    let started = Instant::now();
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some((_, ending)) = process::wait_for_child(pid, WaitMode::Now)? {
            return Ok(ForkedResult::Ended(ending));
        }
        if started.elapsed() > patience {
            process::signal(pid, libc::SIGKILL)?;
            process::wait_for_child(pid, WaitMode::Forever)?;
            return Ok(ForkedResult::TooLong);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

/// Makes a child that only waits, as a harmless victim.
pub fn spawn_victim() -> io::Result<VictimProcess> {
    match fork_alone()? {
        ForkSide::Child => {
            std::thread::sleep(Duration::from_secs(10));
            process::exit_now(0)
        }
        ForkSide::Parent(pid) => Ok(VictimProcess(pid)),
    }
}

/// Makes children that do `work` and then wait `hold`, until one is refused or there are `most`; returns their number.
pub fn fork_until_refused(most: usize, hold: Duration, work: fn()) -> io::Result<usize> {
    for made in 0..most {
        match fork_alone() {
            Ok(ForkSide::Child) => {
                work();
                std::thread::sleep(hold);
                process::exit_now(0)
            }
            Ok(ForkSide::Parent(_)) => {}
            Err(_) => return Ok(made),
        }
    }
    Ok(most)
}

/// Sends a signal; 0 only tests whether it could be sent.
pub fn signal(pid: i32, number: i32) -> io::Result<()> {
    process::signal(pid, number)
}

/// Lets the parent trace this process.
pub fn become_traced() -> io::Result<()> {
    let request = libc::PTRACE_TRACEME as usize;
    // SAFETY: this request ignores its other arguments.
    unsafe { raw_call(libc::SYS_ptrace, [request, 0, 0, 0, 0, 0]) }.map(drop)
}

/// Traces `pid` without stopping it, until this process ends.
pub fn seize(pid: i32) -> io::Result<()> {
    let request = libc::PTRACE_SEIZE as usize;
    // SAFETY: this request takes integers.
    unsafe { raw_call(libc::SYS_ptrace, [request, pid.cast_unsigned() as usize, 0, 0, 0, 0]) }.map(drop)
}

/// Eight bytes at the same address in every fork of this program.
static SHARED_BYTES: [u8; 8] = [0; 8];

fn transfer_memory(number: libc::c_long, pid: i32, there: *const u8) -> io::Result<()> {
    let mut ours = [0u8; 8];
    let here = libc::iovec {
        iov_base: ours.as_mut_ptr().cast(),
        iov_len: ours.len(),
    };
    let there = libc::iovec {
        iov_base: there.cast_mut().cast(),
        iov_len: ours.len(),
    };
    let (here, there) = ((&raw const here) as usize, (&raw const there) as usize);
    // SAFETY: the first vector describes eight writable bytes of ours. What the second means in a process that is read is
    // for the kernel to check; the one caller that writes passes eight writable bytes of this process.
    unsafe { raw_call(number, [pid.cast_unsigned() as usize, here, 1, there, 1, 0]) }.map(drop)
}

/// Reads memory of the process `pid`.
pub fn read_memory_of(pid: i32) -> io::Result<()> {
    transfer_memory(libc::SYS_process_vm_readv, pid, SHARED_BYTES.as_ptr())
}

/// Writes memory of this process by the call that writes memory of others.
pub fn write_own_memory() -> io::Result<()> {
    let mut theirs = [0u8; 8];
    transfer_memory(
        libc::SYS_process_vm_writev,
        std::process::id().cast_signed(),
        theirs.as_mut_ptr(),
    )
}

/// Leaves a process behind that belongs to no session of its maker and waits `hold`.
pub fn leave_daemon(hold: Duration) -> io::Result<()> {
    if let ForkSide::Parent(pid) = fork_alone()? {
        return process::wait_for_child(pid, WaitMode::Forever).map(drop);
    }
    let detached = process::new_session().and_then(|()| fork_alone());
    if let Ok(ForkSide::Child) = detached {
        std::thread::sleep(hold);
    }
    process::exit_now(i32::from(detached.is_err()))
}

/// Makes a child that makes one more and ends: the second one ends as an orphan. Returns once the first is reaped.
pub fn make_orphan() -> io::Result<()> {
    match fork_alone()? {
        ForkSide::Parent(pid) => match process::wait_for_child(pid, WaitMode::Forever)? {
            Some((_, ProcessEnd::Exited(0))) => Ok(()),
            _ => Err(io::Error::from_raw_os_error(libc::EAGAIN)),
        },
        ForkSide::Child => process::exit_now(i32::from(fork_alone().is_err())),
    }
}

/// Takes a copy of descriptor 0 of the process `pid`.
pub fn copy_descriptor(pid: i32) -> io::Result<()> {
    // SAFETY: pidfd_open takes integers.
    let handle = unsafe { raw_call(libc::SYS_pidfd_open, [pid.cast_unsigned() as usize, 0, 0, 0, 0, 0]) }
        .and_then(owned_descriptor)?;
    let number = std::os::fd::AsRawFd::as_raw_fd(&handle).cast_unsigned() as usize;
    // SAFETY: the call takes integers; the handle is borrowed for it.
    owned_descriptor(unsafe { raw_call(libc::SYS_pidfd_getfd, [number, 0, 0, 0, 0, 0]) }?).map(drop)
}

/// Tests whether two processes share their memory, which can reveal addresses of the kernel.
pub fn compare_processes(one: i32, other: i32) -> io::Result<()> {
    const MEMORY: usize = 1;
    let (one, other) = (one.cast_unsigned() as usize, other.cast_unsigned() as usize);
    // SAFETY: the call takes integers.
    unsafe { raw_call(libc::SYS_kcmp, [one, other, MEMORY, 0, 0, 0]) }.map(drop)
}

/// Becomes the user `id` permanently.
pub fn set_user(id: u32) -> io::Result<()> {
    let id = id as usize;
    // SAFETY: the call takes integers.
    unsafe { raw_call(libc::SYS_setresuid, [id, id, id, 0, 0, 0]) }.map(drop)
}
