//! The attempts that the escape probes make. A jail refuses every one of them.
//!
//! Each attempt is harmless where it succeeds; what it takes is released when its process ends.

pub use crate::sys::attack::{
    ForkedResult, KernelChange, MountedFilesystem, SpaceReservation, VictimProcess, add_key, attach_filter,
    become_traced, change_kernel, change_root, clear_mount_attributes, clone_into, clone3_into, compare_processes,
    copy_descriptor, exit_now, file_handle, fork_until_refused, grow_lock_table, io_uring_operations, join_namespace,
    keep_errors, keep_mapped, keep_rule, leak_shared_segment, lease, leave_daemon, lock_bytes, make_bpf_map,
    make_device, make_memory_file, make_orphan, make_timers, mount_bind, mount_new, move_tree, notices, open_by_handle,
    open_filesystem, open_io_uring, open_perf_event, open_tree, open_userfaultfd, own_keyring, pivot_root,
    push_into_terminal, read_clock_adjustment, read_memory_of, remount, request_key, reserve, reserve_async_io,
    resize_loopback, run_in_child, scatter_page_tables, seize, set_clock, set_host_name, set_option, set_personality,
    set_user, signal, socket, socket_pair, spawn_victim, terminal_paste, unmount, unshare, use_every_processor,
    write_own_memory, write_through_mapping, write_through_memory_file,
};
#[cfg(target_arch = "x86_64")]
pub use crate::sys::attack::{getpid_by_int80, getpid_by_x32};
pub use crate::sys::process::ProcessEnd;
