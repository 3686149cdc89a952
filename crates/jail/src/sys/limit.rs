//! Resource limits and processor affinity.

use std::io;

use super::{check, check_int};

/// Sets a limit, soft and hard alike. A lower limit stays: it is never raised. Signal-safe.
pub(crate) fn set_limit(resource: libc::__rlimit_resource_t, value: u64) -> io::Result<()> {
    let mut now = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `now` is room for what getrlimit fills.
    check_int(unsafe { libc::getrlimit(resource, &raw mut now) })?;
    let value = value.min(now.rlim_max);
    let wanted = libc::rlimit {
        rlim_cur: value,
        rlim_max: value,
    };
    // SAFETY: `wanted` is read by the call and outlives it.
    check_int(unsafe { libc::setrlimit(resource, &raw const wanted) }).map(|_| ())
}

/// Confines this thread to the first `count` of the processors it may use. Signal-safe.
pub(crate) fn confine_to_processors(count: usize) -> io::Result<()> {
    let mut mask = [0u64; 16];
    // SAFETY: the pointer and size describe `mask`.
    check(unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, size_of_val(&mask), mask.as_mut_ptr()) })?;
    let mut left = count.max(1);
    for word in &mut mask {
        for bit in 0..64 {
            if *word & (1 << bit) != 0 {
                if left == 0 {
                    *word &= !(1 << bit);
                } else {
                    left -= 1;
                }
            }
        }
    }
    // SAFETY: the pointer and size describe `mask`.
    check(unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(&mask), mask.as_ptr()) }).map(|_| ())
}
