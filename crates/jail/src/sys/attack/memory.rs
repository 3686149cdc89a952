//! Memory that is not plain: segments that outlive a mapping, files changed through `/proc/self/mem`, kernel pools.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::raw_call;
use crate::sys::{check, check_int};

/// Makes a segment of `bytes`, fills it, and detaches it without removing it: it lives as long as its namespace.
pub fn leak_shared_segment(bytes: usize) -> io::Result<()> {
    const PAGE: usize = 4096;
    let mode = libc::IPC_CREAT | 0o600;
    // SAFETY: shmget takes integers.
    let id = check_int(unsafe { libc::shmget(libc::IPC_PRIVATE, bytes, mode) })?;
    // SAFETY: a null address lets the kernel choose a free place.
    let place = unsafe { libc::shmat(id, std::ptr::null(), 0) };
    if place.addr() == usize::MAX {
        return Err(io::Error::last_os_error());
    }
    for offset in (0..bytes).step_by(PAGE) {
        // SAFETY: the segment is `bytes` long and mapped writable; `offset` is below that.
        let page = unsafe { place.cast::<u8>().add(offset) };
        // SAFETY: `page` is inside the mapping, which nobody else knows.
        unsafe { page.write_volatile(1) };
    }
    // SAFETY: `place` is what shmat answered, and nothing refers to it any more.
    check_int(unsafe { libc::shmdt(place) }).map(|_| ())
}

/// Reads one byte of every two mebibytes of a mapping that has no memory of its own, up to `count` of them: each costs the
/// kernel a page table and the process nothing. The mapping stays. Returns how many were read.
pub fn scatter_page_tables(count: usize) -> io::Result<usize> {
    const TABLE_REACH: usize = 2 << 20;
    const MAPPING: usize = 64 * TABLE_REACH;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let mut read = 0;
    while read < count {
        // SAFETY: a null address lets the kernel choose a free place.
        let place = unsafe { libc::mmap(std::ptr::null_mut(), MAPPING, libc::PROT_READ, flags, -1, 0) };
        if place == libc::MAP_FAILED {
            return if read == 0 {
                Err(io::Error::last_os_error())
            } else {
                Ok(read)
            };
        }
        for offset in (0..MAPPING).step_by(TABLE_REACH) {
            // SAFETY: the mapping is `MAPPING` long; `offset` is below that.
            let byte = unsafe { place.cast::<u8>().add(offset) };
            // SAFETY: `byte` is inside the mapping, which is readable.
            std::hint::black_box(unsafe { byte.read_volatile() });
            read += 1;
        }
    }
    Ok(read)
}

/// Tries to change the first byte of `path` through a read-only mapping and `/proc/self/mem`; an error if it did not change.
pub fn write_through_memory_file(path: &Path) -> io::Result<()> {
    const PAGE: usize = 4096;
    // Where the file may be opened for writing the mapping could be made writable: that is the case a fence must prevent.
    let file = File::options()
        .read(true)
        .write(true)
        .open(path)
        .or_else(|_| File::open(path))?;
    let mut before = [0u8; 1];
    file.read_exact_at(&mut before, 0)?;
    // SAFETY: a new shared read-only mapping of a file; the kernel chooses a free place.
    let place = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            PAGE,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if place == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let memory = File::options().write(true).open("/proc/self/mem")?;
    memory.write_all_at(&[before[0] ^ 1], place.addr() as u64)?;
    let mut after = [0u8; 1];
    file.read_exact_at(&mut after, 0)?;
    if after == before {
        Err(io::Error::from_raw_os_error(libc::EFAULT))
    } else {
        Ok(())
    }
}

/// Tries to change the first byte of `path` through a shared mapping that becomes writable later; an error if it did not
/// change.
pub fn write_through_mapping(path: &Path) -> io::Result<()> {
    const PAGE: usize = 4096;
    let file = File::options()
        .read(true)
        .write(true)
        .open(path)
        .or_else(|_| File::open(path))?;
    let (none, shared) = (std::ptr::null_mut(), libc::MAP_SHARED);
    // SAFETY: a new shared read-only mapping of a file; the kernel chooses a free place.
    let place = unsafe { libc::mmap(none, PAGE, libc::PROT_READ, shared, file.as_raw_fd(), 0) };
    if place == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the page at `place` was mapped above and belongs to nobody else.
    check_int(unsafe { libc::mprotect(place, PAGE, libc::PROT_READ | libc::PROT_WRITE) })?;
    let byte = place.cast::<u8>();
    // SAFETY: the page is mapped and readable.
    let now = unsafe { byte.read_volatile() };
    // SAFETY: the page is mapped and writable; what is written is what was there.
    unsafe { byte.write_volatile(now) };
    Ok(())
}

/// Takes `count` places from the machine's one pool of asynchronous requests, until this process ends.
pub fn reserve_async_io(count: u32) -> io::Result<()> {
    let mut context = 0usize;
    // SAFETY: the call fills `context` with a number.
    unsafe {
        raw_call(
            libc::SYS_io_setup,
            [count as usize, (&raw mut context) as usize, 0, 0, 0, 0],
        )
    }
    .map(drop)
}

/// Makes timers until one is refused or there are `most`; returns their number.
pub fn make_timers(most: usize) -> usize {
    (0..most)
        .take_while(|_| {
            let mut timer = 0i32;
            let clock = libc::CLOCK_MONOTONIC;
            let nothing = std::ptr::null::<libc::sigevent>();
            // SAFETY: a null event asks for the default signal; the call fills the integer `timer`.
            check(unsafe { libc::syscall(libc::SYS_timer_create, clock, nothing, &raw mut timer) }).is_ok()
        })
        .count()
}

/// Locks every second byte of `file` until one is refused or `most` are locked; returns their number.
pub fn lock_bytes(file: BorrowedFd<'_>, most: u32) -> u32 {
    const WRITE_LOCK: libc::c_short = 1;
    const FROM_START: libc::c_short = 0;
    let lock = |index: u32| {
        let mut lock = libc::flock {
            l_type: WRITE_LOCK,
            l_whence: FROM_START,
            l_start: libc::off_t::from(index) * 2,
            l_len: 1,
            l_pid: 0,
        };
        // SAFETY: the descriptor is borrowed for the call, which reads the record that outlives it.
        check_int(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw mut lock) })
    };
    (0..most).find(|index| lock(*index).is_err()).unwrap_or(most)
}
