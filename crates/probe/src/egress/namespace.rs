//! Throw-away namespaces: for root, and for a user without privileges.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use ringfence_jail::attack;

const NEW_MOUNTS: i32 = 0x0002_0000;
const NEW_USER: i32 = 0x1000_0000;
const NEW_NET: i32 = 0x4000_0000;
/// The user number of an ordinary user inside.
const ORDINARY_USER: u32 = 1000;

/// Moves this process, which has one thread, into a network and mounts of its own.
pub(super) fn enter_namespaces() -> io::Result<()> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    if user.is_root() {
        return attack::unshare(NEW_NET | NEW_MOUNTS);
    }
    attack::unshare(NEW_USER | NEW_NET | NEW_MOUNTS)?;
    write_id_maps(0, user.as_raw(), group.as_raw())
}

fn write_id_maps(inside: u32, user: u32, group: u32) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{inside} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{inside} {group} 1"))
}

/// Executes `program` as a user without any privilege here: a process that is root only in its namespaces must not look like
/// root.
#[expect(clippy::disallowed_methods, reason = "it becomes that program")]
pub(crate) fn exec_unprivileged(program: &str, arguments: &[&str]) -> io::Result<()> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    attack::unshare(NEW_USER)?;
    write_id_maps(ORDINARY_USER, user.as_raw(), group.as_raw())?;
    Err(Command::new(program).args(arguments).exec())
}
