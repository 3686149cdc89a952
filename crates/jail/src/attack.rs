//! The attempts that the escape probes make. A jail refuses every one of them.
//!
//! Each attempt is harmless where it succeeds; what it takes is released when its process ends.

pub use crate::sys::attack::{
    Child, Filesystem, Forked, KernelChange, Reservation, add_key, asynchronous_io, attach_filter, become_traced, bpf,
    change_kernel, change_root, clear_mount_attributes, clone_into, clone3_into, compare_processes, descriptor_of,
    fork_and, grow_lock_table, grow_processes, io_uring, io_uring_operations, join, keep_errors, keep_mapped,
    keep_rule, keyring, lease, leave, leave_daemon, lock_bytes, look_at_clock_adjustment, make_device, make_orphan,
    memory_file, mount_bind, mount_new, move_tree, notices, open_by_handle, open_filesystem, open_tree, perf_event,
    personality, pivot, push_into_terminal, read_memory_of, remount, request_key, reserve, resize_loopback,
    scatter_page_tables, seize, set_clock, set_host_name, set_option, set_user, shared_segment, signal, socket,
    socket_pair, spare_child, terminal_paste, timers, to_handle, unmount, unshare, use_every_processor, userfaultfd,
    write_own_memory, write_through_mapping, write_through_memory_file,
};
#[cfg(target_arch = "x86_64")]
pub use crate::sys::attack::{old_door, x32_door};
pub use crate::sys::process::Ending;
