//! System-call filters as data, compiled to a decision tree.
//!
//! The kernel runs a filter once for every call number when it is installed, so every start pays for its length: a tree over
//! sorted ranges is a few times cheaper than a chain of comparisons.

mod lists;
mod options;

pub use crate::sys::fence::Instruction;
use lists::{ENGINE, NOTIFIED, PROGRAM, PYTHON_ADDITIONS, SILENTLY_REFUSED};

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SyscallAction {
    Allow,
    /// The call is refused with this error number.
    Refuse(i32),
    /// The host is notified, refuses the call and records it.
    Notify,
    /// The call is allowed where an argument passes the check.
    Check(ArgumentCheck),
}

/// A check of arguments: the kernel reads all of these as 32-bit integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ArgumentCheck {
    /// A `clone` without a namespace flag that makes no thread with a descriptor table of its own.
    PlainClone,
    /// A `clone` that makes a thread of this process, not a new process.
    ThreadOnly,
    /// Only harmless socket families, and for internet families only protocols whose buffers are counted.
    SocketFamily,
    /// Any option but those that make the kernel keep more for a socket than its buffers. Setting their size succeeds
    /// without effect: programs ask for more than any kernel grants, and do not check.
    SocketOption,
    /// None of these bits in this argument.
    NoBits(u32, u32),
    /// Not one of these values in this argument.
    NoneOf(u32, &'static [u32]),
    /// One of these values in this argument.
    OneOf(u32, &'static [u32]),
    /// With one of these values in this argument the call does nothing and returns this error number; 0 is success.
    ReturnErrno(u32, &'static [u32], i32),
}

/// The processes that a filter is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Everything in a sandbox: the worker and the programs it starts.
    Program,
    /// In addition, a program that the worker starts: without what only the worker needs.
    Started,
    /// In addition, the JavaScript engine: no files but open ones, no processes, no sockets.
    Engine,
    /// In addition, a Python program: files and threads, but no processes, no sockets.
    Python,
    /// A Python program in a sandbox with a network: it may connect over internet protocols, of which the sandbox has a
    /// loopback alone.
    PythonNetwork,
}

/// A compiled filter that can be installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter(pub(crate) Vec<Instruction>);

const ALLOW: u32 = 0x7fff_0000;
const NOTIFY: u32 = 0x7fc0_0000;
const REFUSE: u32 = 0x0005_0000;
const KILL: u32 = 0x8000_0000;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

const LANDLOCK: &[libc::c_long] = &[
    libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_add_rule,
    libc::SYS_landlock_restrict_self,
];

/// Call numbers from here on belong to the x32 interface: unused, so never allowed.
const FIRST_X32_CALL: u32 = 0x4000_0000;

/// The socket families of the internet.
const INTERNET_FAMILIES: &[u32] = &[libc::AF_INET.cast_unsigned(), libc::AF_INET6.cast_unsigned()];

const NAMESPACES: u32 = 0x7e02_0080; // CLONE_NEW{USER,PID,NET,IPC,UTS,CGROUP,NS,TIME}
const CLONE_THREAD: u32 = 0x0001_0000;
const CLONE_FILES: u32 = 0x0000_0400;

impl Filter {
    /// The filter of `profile` for this machine's architecture.
    pub fn for_profile(profile: Profile) -> Filter {
        let mut rules: Vec<(u32, SyscallAction)> = Vec::with_capacity(400);
        let refused = SyscallAction::Refuse(libc::EPERM);
        match profile {
            Profile::Program => {
                rules.extend(rules_for_calls(PROGRAM, SyscallAction::Allow));
                rules.extend(rules_for_notified(SyscallAction::Notify));
                rules.extend(rules_for_calls(SILENTLY_REFUSED, refused));
                rules.extend(program_checks());
                compile_filter(rules, SyscallAction::Refuse(libc::ENOSYS))
            }
            Profile::Started => {
                // The rules are kernel memory that has no limit.
                let absent = SyscallAction::Refuse(libc::ENOSYS);
                compile_filter(rules_for_calls(LANDLOCK, absent).collect(), SyscallAction::Allow)
            }
            Profile::Engine => {
                rules.extend(rules_for_calls(ENGINE, SyscallAction::Allow));
                // These calls are left to the outer filter, which refuses them and notifies the host.
                rules.extend(rules_for_notified(SyscallAction::Allow));
                compile_filter(rules, refused)
            }
            Profile::Python | Profile::PythonNetwork => {
                rules.extend(rules_for_calls(ENGINE, SyscallAction::Allow));
                rules.extend(rules_for_calls(PYTHON_ADDITIONS, SyscallAction::Allow));
                rules.extend(rules_for_notified(SyscallAction::Allow));
                rules.push((
                    call_number(libc::SYS_clone),
                    SyscallAction::Check(ArgumentCheck::ThreadOnly),
                ));
                rules.push((call_number(libc::SYS_clone3), SyscallAction::Refuse(libc::ENOSYS)));
                // An event loop wakes itself with such a pair.
                rules.push(socketpair_rule());
                if profile == Profile::PythonNetwork {
                    rules.push((
                        call_number(libc::SYS_socket),
                        SyscallAction::Check(ArgumentCheck::OneOf(0, INTERNET_FAMILIES)),
                    ));
                    rules.push((call_number(libc::SYS_connect), SyscallAction::Allow));
                }
                compile_filter(rules, refused)
            }
        }
    }

    /// The filter's bytes, as the kernel of this machine reads them.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0
            .iter()
            .flat_map(|one| {
                let mut bytes = [0; 8];
                bytes[..2].copy_from_slice(&one.code.to_ne_bytes());
                bytes[2] = one.if_true;
                bytes[3] = one.if_false;
                bytes[4..].copy_from_slice(&one.value.to_ne_bytes());
                bytes
            })
            .collect()
    }
}

fn call_number(call: libc::c_long) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

fn rules_for_calls(calls: &[libc::c_long], action: SyscallAction) -> impl Iterator<Item = (u32, SyscallAction)> {
    calls.iter().map(move |call| (call_number(*call), action))
}

fn rules_for_notified(action: SyscallAction) -> impl Iterator<Item = (u32, SyscallAction)> {
    NOTIFIED.iter().map(move |(call, _)| (call_number(*call), action))
}

/// The name of a notified call; `None` for a call that is not notified.
#[cfg(feature = "host")]
pub(crate) fn notified_call_name(number: i32) -> Option<&'static str> {
    let number = libc::c_long::from(number);
    // A `clone` is notified only when it asks for a new namespace.
    let told = NOTIFIED.iter().find(|(call, _)| *call == number).map(|(_, name)| *name);
    told.or_else(|| (number == libc::SYS_clone).then_some("clone with a new namespace"))
}

/// Allows pairs of unix sockets only.
fn socketpair_rule() -> (u32, SyscallAction) {
    const UNIX: &[u32] = &[libc::AF_UNIX.cast_unsigned()];
    (
        call_number(libc::SYS_socketpair),
        SyscallAction::Check(ArgumentCheck::OneOf(0, UNIX)),
    )
}

// Input injected into a terminal: TIOCSTI, TIOCLINUX. The older requests for what `fallocate` does.
const REFUSED_IOCTLS: &[u32] = &[
    0x5412,
    0x541c,
    0x4030_5828,
    0x4030_5829,
    0x4030_582a,
    0x4030_582b,
    0x4030_5839,
];
const SEEN_PERSONALITIES: &[u32] = &[0, 0xffff_ffff];
// Locks of open files outlive every descriptor that a watch could count them by. A kernel before 3.15 does not have them
// either, and libraries fall back to locks of a process.
const REFUSED_FILE_COMMANDS: &[u32] = &[
    libc::F_OFD_GETLK.cast_unsigned(),
    libc::F_OFD_SETLK.cast_unsigned(),
    libc::F_OFD_SETLKW.cast_unsigned(),
    // A process outside that opens the file would wait for the sandbox.
    libc::F_SETLEASE.cast_unsigned(),
    libc::F_NOTIFY.cast_unsigned(),
];
// A kernel table for locks, as large as the program asks for.
const PR_FUTEX_HASH: u32 = 78;
const IGNORED_PRCTLS: &[u32] = &[
    libc::PR_SET_DUMPABLE.cast_unsigned(),
    libc::PR_SET_VMA.cast_unsigned(),
    PR_FUTEX_HASH,
];
// Character and block devices; pipes, sockets and plain files do not have this bit.
const DEVICE_BIT: u32 = libc::S_IFCHR;

fn program_checks() -> Vec<(u32, SyscallAction)> {
    vec![
        (
            call_number(libc::SYS_mknodat),
            SyscallAction::Check(ArgumentCheck::NoBits(2, DEVICE_BIT)),
        ),
        #[cfg(target_arch = "x86_64")]
        (
            call_number(libc::SYS_mknod),
            SyscallAction::Check(ArgumentCheck::NoBits(1, DEVICE_BIT)),
        ),
        (
            call_number(libc::SYS_clone),
            SyscallAction::Check(ArgumentCheck::PlainClone),
        ),
        // Its flags are behind a pointer that a filter cannot read; libraries fall back to `clone`.
        (call_number(libc::SYS_clone3), SyscallAction::Refuse(libc::ENOSYS)),
        // A page that is passed by reference stays in memory when its file is gone, and nothing counts it. Libraries copy
        // instead.
        (call_number(libc::SYS_splice), SyscallAction::Refuse(libc::EINVAL)),
        (call_number(libc::SYS_tee), SyscallAction::Refuse(libc::EINVAL)),
        (call_number(libc::SYS_sendfile), SyscallAction::Refuse(libc::EINVAL)),
        // It reserves gigabytes in milliseconds, before the watch has checked a place on disk. Libraries write instead.
        (
            call_number(libc::SYS_fallocate),
            SyscallAction::Refuse(libc::EOPNOTSUPP),
        ),
        (
            call_number(libc::SYS_fcntl),
            SyscallAction::Check(ArgumentCheck::ReturnErrno(1, REFUSED_FILE_COMMANDS, libc::EINVAL)),
        ),
        // Threads share their descriptors, so that each of them shows what their process holds.
        (
            call_number(libc::SYS_close_range),
            SyscallAction::Check(ArgumentCheck::NoBits(2, libc::CLOSE_RANGE_UNSHARE)),
        ),
        // An ordinary user's watch cannot list the descriptors of a process that is not dumpable, and recognizes shared
        // memory by the name that the kernel gives it. The call succeeds without effect.
        (
            call_number(libc::SYS_prctl),
            SyscallAction::Check(ArgumentCheck::ReturnErrno(0, IGNORED_PRCTLS, 0)),
        ),
        (
            call_number(libc::SYS_socket),
            SyscallAction::Check(ArgumentCheck::SocketFamily),
        ),
        (
            call_number(libc::SYS_setsockopt),
            SyscallAction::Check(ArgumentCheck::SocketOption),
        ),
        socketpair_rule(),
        (
            call_number(libc::SYS_ioctl),
            SyscallAction::Check(ArgumentCheck::NoneOf(1, REFUSED_IOCTLS)),
        ),
        // A program sets its own limits, not those of the processes that serve it.
        (
            call_number(libc::SYS_prlimit64),
            SyscallAction::Check(ArgumentCheck::OneOf(0, &[0])),
        ),
        (
            call_number(libc::SYS_personality),
            SyscallAction::Check(ArgumentCheck::OneOf(0, SEEN_PERSONALITIES)),
        ),
    ]
}

fn load_word(offset: u32) -> Instruction {
    Instruction {
        code: 0x20,
        if_true: 0,
        if_false: 0,
        value: offset,
    }
}

fn return_value(value: u32) -> Instruction {
    Instruction {
        code: 0x06,
        if_true: 0,
        if_false: 0,
        value,
    }
}

fn jump_equal(value: u32, if_true: u8, if_false: u8) -> Instruction {
    Instruction {
        code: 0x15,
        if_true,
        if_false,
        value,
    }
}

fn jump_any_bit(value: u32, if_true: u8, if_false: u8) -> Instruction {
    Instruction {
        code: 0x45,
        if_true,
        if_false,
        value,
    }
}

fn load_argument(index: u32) -> Instruction {
    load_word(16 + 8 * index)
}

fn compile_filter(mut rules: Vec<(u32, SyscallAction)>, default: SyscallAction) -> Filter {
    rules.sort_by_key(|(number, _)| *number);
    // A later list overrides an earlier one for the same call: the sort is stable, so the last of equal entries stays.
    rules.reverse();
    rules.dedup_by_key(|(number, _)| *number);
    rules.reverse();
    let mut ranges: Vec<(u32, SyscallAction)> = vec![(0, default)];
    for (number, action) in rules {
        start_range(&mut ranges, number, action);
        start_range(&mut ranges, number + 1, default);
    }
    let mut program = vec![
        load_word(4),
        jump_equal(ARCHITECTURE, 1, 0),
        return_value(KILL),
        load_word(0),
        Instruction {
            code: 0x35,
            if_true: 0,
            if_false: 1,
            value: FIRST_X32_CALL,
        },
        return_value(KILL),
    ];
    program.extend(decision_tree(&ranges));
    Filter(program)
}

/// Starts a range at `number`, and joins neighbours with the same action.
fn start_range(ranges: &mut Vec<(u32, SyscallAction)>, number: u32, action: SyscallAction) {
    if ranges.last().is_some_and(|(start, _)| *start == number) {
        ranges.pop();
    }
    if ranges.last().is_none_or(|(_, last)| *last != action) {
        ranges.push((number, action));
    }
}

fn decision_tree(ranges: &[(u32, SyscallAction)]) -> Vec<Instruction> {
    if let [(_, action)] = ranges {
        return action_instructions(*action);
    }
    let (below, above) = ranges.split_at(ranges.len() / 2);
    let pivot = above.first().map_or(0, |(start, _)| *start);
    let (below, above) = (decision_tree(below), decision_tree(above));
    let mut code = if let Ok(skip) = u8::try_from(below.len()) {
        vec![Instruction {
            code: 0x35,
            if_true: skip,
            if_false: 0,
            value: pivot,
        }]
    } else {
        let skip = u32::try_from(below.len()).unwrap_or(u32::MAX);
        vec![
            Instruction {
                code: 0x35,
                if_true: 0,
                if_false: 1,
                value: pivot,
            },
            Instruction {
                code: 0x05,
                if_true: 0,
                if_false: 0,
                value: skip,
            },
        ]
    };
    code.extend(below);
    code.extend(above);
    code
}

fn action_instructions(action: SyscallAction) -> Vec<Instruction> {
    let refused = return_value(REFUSE | libc::EPERM.cast_unsigned());
    match action {
        SyscallAction::Allow => vec![return_value(ALLOW)],
        SyscallAction::Refuse(error) => vec![return_value(REFUSE | error.cast_unsigned())],
        SyscallAction::Notify => vec![return_value(NOTIFY)],
        SyscallAction::Check(ArgumentCheck::PlainClone) => vec![
            load_argument(0),
            jump_any_bit(NAMESPACES, 4, 0),
            jump_any_bit(CLONE_THREAD, 0, 2),
            jump_any_bit(CLONE_FILES, 1, 0),
            refused,
            return_value(ALLOW),
            return_value(NOTIFY),
        ],
        SyscallAction::Check(ArgumentCheck::ThreadOnly) => {
            vec![
                load_argument(0),
                jump_any_bit(CLONE_THREAD, 0, 1),
                return_value(ALLOW),
                refused,
            ]
        }
        SyscallAction::Check(ArgumentCheck::SocketFamily) => check_socket_family(refused),
        SyscallAction::Check(ArgumentCheck::SocketOption) => options::check_socket_option(),
        SyscallAction::Check(ArgumentCheck::NoBits(index, bits)) => {
            vec![
                load_argument(index),
                jump_any_bit(bits, 1, 0),
                return_value(ALLOW),
                refused,
            ]
        }
        SyscallAction::Check(ArgumentCheck::NoneOf(index, values)) => {
            check_one_of(index, values, refused, return_value(ALLOW))
        }
        SyscallAction::Check(ArgumentCheck::OneOf(index, values)) => {
            check_one_of(index, values, return_value(ALLOW), refused)
        }
        SyscallAction::Check(ArgumentCheck::ReturnErrno(index, values, error)) => check_one_of(
            index,
            values,
            return_value(REFUSE | error.cast_unsigned()),
            return_value(ALLOW),
        ),
    }
}

/// Internet protocols that a program may ask for: any, ICMP for both versions, TCP, UDP. Others keep buffers of their own.
const ALLOWED_PROTOCOLS: &[u32] = &[0, 1, 6, 17, 58];
fn check_socket_family(refused: Instruction) -> Vec<Instruction> {
    let absent = return_value(REFUSE | libc::EPROTONOSUPPORT.cast_unsigned());
    // The kind of a socket may imply a protocol too.
    let mut of_internet = check_socket_kind(absent);
    of_internet.extend(check_one_of(2, ALLOWED_PROTOCOLS, return_value(ALLOW), absent));
    let skip = u8::try_from(of_internet.len()).unwrap_or(u8::MAX);
    let mut code = vec![
        load_argument(0),
        jump_equal(libc::AF_INET.cast_unsigned(), 1, 0),
        jump_equal(libc::AF_INET6.cast_unsigned(), 0, skip),
    ];
    code.extend(of_internet);
    code.extend([
        jump_equal(libc::AF_UNIX.cast_unsigned(), 3, 0),
        jump_equal(libc::AF_NETLINK.cast_unsigned(), 0, 3),
        load_argument(2),
        jump_equal(libc::NETLINK_ROUTE.cast_unsigned(), 0, 1),
        return_value(ALLOW),
        refused,
    ]);
    code
}

/// Continues where the kind of a socket is stream, datagram or raw.
fn check_socket_kind(refused: Instruction) -> Vec<Instruction> {
    const KIND: u32 = 0xf;
    vec![
        load_argument(1),
        Instruction {
            code: 0x54,
            if_true: 0,
            if_false: 0,
            value: KIND,
        },
        jump_equal(libc::SOCK_STREAM.cast_unsigned(), 3, 0),
        jump_equal(libc::SOCK_DGRAM.cast_unsigned(), 2, 0),
        jump_equal(libc::SOCK_RAW.cast_unsigned(), 1, 0),
        refused,
    ]
}

fn check_one_of(index: u32, values: &[u32], found: Instruction, other: Instruction) -> Vec<Instruction> {
    let mut code = vec![load_argument(index)];
    for (place, value) in values.iter().enumerate() {
        // Over the remaining comparisons and the return value for "other".
        let skip = u8::try_from(values.len() - place).unwrap_or(u8::MAX);
        code.push(jump_equal(*value, skip, 0));
    }
    code.push(other);
    code.push(found);
    code
}

#[cfg(test)]
mod tests;
