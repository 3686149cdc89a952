//! System-call filters as data, compiled to a decision tree.
//!
//! The kernel runs a filter once for every call number when it is installed, so every start pays for its length: a tree over
//! sorted ranges is a few times cheaper than a chain of comparisons.

mod lists;
mod options;

pub use crate::sys::fence::Instruction;
use lists::{BANNED, ENGINE, PROGRAM, PYTHON_MORE, TOLD};

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Allow,
    /// The call is refused with this error number.
    Refuse(i32),
    /// The host is notified, refuses the call and records it.
    Tell,
    /// The call is allowed where an argument passes the check.
    Check(Check),
}

/// A check of arguments: the kernel reads all of these as 32-bit integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
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
    Answer(u32, &'static [u32], i32),
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
const TELL: u32 = 0x7fc0_0000;
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
const FOREIGN: u32 = 0x4000_0000;

/// The socket families of the internet.
const INTERNET: &[u32] = &[libc::AF_INET.cast_unsigned(), libc::AF_INET6.cast_unsigned()];

const NAMESPACES: u32 = 0x7e02_0080; // CLONE_NEW{USER,PID,NET,IPC,UTS,CGROUP,NS,TIME}
const CLONE_THREAD: u32 = 0x0001_0000;
const CLONE_FILES: u32 = 0x0000_0400;

impl Filter {
    /// The filter of `profile` for this machine's architecture.
    pub fn of(profile: Profile) -> Filter {
        let mut rules: Vec<(u32, Action)> = Vec::with_capacity(400);
        let refused = Action::Refuse(libc::EPERM);
        match profile {
            Profile::Program => {
                rules.extend(numbers(PROGRAM, Action::Allow));
                rules.extend(told(Action::Tell));
                rules.extend(numbers(BANNED, refused));
                rules.extend(program_checks());
                compile(rules, Action::Refuse(libc::ENOSYS))
            }
            Profile::Started => {
                // The rules are kernel memory that has no limit.
                let absent = Action::Refuse(libc::ENOSYS);
                compile(numbers(LANDLOCK, absent).collect(), Action::Allow)
            }
            Profile::Engine => {
                rules.extend(numbers(ENGINE, Action::Allow));
                // These calls are left to the outer filter, which refuses them and notifies the host.
                rules.extend(told(Action::Allow));
                compile(rules, refused)
            }
            Profile::Python | Profile::PythonNetwork => {
                rules.extend(numbers(ENGINE, Action::Allow));
                rules.extend(numbers(PYTHON_MORE, Action::Allow));
                rules.extend(told(Action::Allow));
                rules.push((number(libc::SYS_clone), Action::Check(Check::ThreadOnly)));
                rules.push((number(libc::SYS_clone3), Action::Refuse(libc::ENOSYS)));
                // An event loop wakes itself with such a pair.
                rules.push(pairs());
                if profile == Profile::PythonNetwork {
                    rules.push((number(libc::SYS_socket), Action::Check(Check::OneOf(0, INTERNET))));
                    rules.push((number(libc::SYS_connect), Action::Allow));
                }
                compile(rules, refused)
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

fn number(call: libc::c_long) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

fn numbers(calls: &[libc::c_long], action: Action) -> impl Iterator<Item = (u32, Action)> {
    calls.iter().map(move |call| (number(*call), action))
}

fn told(action: Action) -> impl Iterator<Item = (u32, Action)> {
    TOLD.iter().map(move |(call, _)| (number(*call), action))
}

/// The name of a notified call; `None` for a call that is not notified.
#[cfg(feature = "host")]
pub(crate) fn name_of(number: i32) -> Option<&'static str> {
    let number = libc::c_long::from(number);
    // A `clone` is notified only when it asks for a new namespace.
    let told = TOLD.iter().find(|(call, _)| *call == number).map(|(_, name)| *name);
    told.or_else(|| (number == libc::SYS_clone).then_some("clone with a new namespace"))
}

/// Allows pairs of unix sockets only.
fn pairs() -> (u32, Action) {
    const UNIX: &[u32] = &[libc::AF_UNIX.cast_unsigned()];
    (number(libc::SYS_socketpair), Action::Check(Check::OneOf(0, UNIX)))
}

fn program_checks() -> Vec<(u32, Action)> {
    // Input injected into a terminal: TIOCSTI, TIOCLINUX. The older requests for what `fallocate` does.
    const REQUESTS: &[u32] = &[
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
    const FILE_COMMANDS: &[u32] = &[
        libc::F_OFD_GETLK.cast_unsigned(),
        libc::F_OFD_SETLK.cast_unsigned(),
        libc::F_OFD_SETLKW.cast_unsigned(),
        // A process outside that opens the file would wait for the sandbox.
        libc::F_SETLEASE.cast_unsigned(),
        libc::F_NOTIFY.cast_unsigned(),
    ];
    // A kernel table for locks, as large as the program asks for.
    const PR_FUTEX_HASH: u32 = 78;
    const HIDING: &[u32] = &[
        libc::PR_SET_DUMPABLE.cast_unsigned(),
        libc::PR_SET_VMA.cast_unsigned(),
        PR_FUTEX_HASH,
    ];
    // Character and block devices; pipes, sockets and plain files do not have this bit.
    const DEVICE: u32 = libc::S_IFCHR;
    vec![
        (number(libc::SYS_mknodat), Action::Check(Check::NoBits(2, DEVICE))),
        #[cfg(target_arch = "x86_64")]
        (number(libc::SYS_mknod), Action::Check(Check::NoBits(1, DEVICE))),
        (number(libc::SYS_clone), Action::Check(Check::PlainClone)),
        // Its flags are behind a pointer that a filter cannot read; libraries fall back to `clone`.
        (number(libc::SYS_clone3), Action::Refuse(libc::ENOSYS)),
        // A page that is passed by reference stays in memory when its file is gone, and nothing counts it. Libraries copy
        // instead.
        (number(libc::SYS_splice), Action::Refuse(libc::EINVAL)),
        (number(libc::SYS_tee), Action::Refuse(libc::EINVAL)),
        (number(libc::SYS_sendfile), Action::Refuse(libc::EINVAL)),
        // It reserves gigabytes in milliseconds, before the watch has checked a place on disk. Libraries write instead.
        (number(libc::SYS_fallocate), Action::Refuse(libc::EOPNOTSUPP)),
        (
            number(libc::SYS_fcntl),
            Action::Check(Check::Answer(1, FILE_COMMANDS, libc::EINVAL)),
        ),
        // Threads share their descriptors, so that each of them shows what their process holds.
        (
            number(libc::SYS_close_range),
            Action::Check(Check::NoBits(2, libc::CLOSE_RANGE_UNSHARE)),
        ),
        // An ordinary user's watch cannot list the descriptors of a process that is not dumpable, and recognizes shared
        // memory by the name that the kernel gives it. The call succeeds without effect.
        (number(libc::SYS_prctl), Action::Check(Check::Answer(0, HIDING, 0))),
        (number(libc::SYS_socket), Action::Check(Check::SocketFamily)),
        (number(libc::SYS_setsockopt), Action::Check(Check::SocketOption)),
        pairs(),
        (number(libc::SYS_ioctl), Action::Check(Check::NoneOf(1, REQUESTS))),
        // A program sets its own limits, not those of the processes that serve it.
        (number(libc::SYS_prlimit64), Action::Check(Check::OneOf(0, &[0]))),
        (
            number(libc::SYS_personality),
            Action::Check(Check::OneOf(0, SEEN_PERSONALITIES)),
        ),
    ]
}

fn load(offset: u32) -> Instruction {
    Instruction {
        code: 0x20,
        if_true: 0,
        if_false: 0,
        value: offset,
    }
}

fn answer(value: u32) -> Instruction {
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

fn argument(index: u32) -> Instruction {
    load(16 + 8 * index)
}

fn compile(mut rules: Vec<(u32, Action)>, default: Action) -> Filter {
    rules.sort_by_key(|(number, _)| *number);
    // A later list overrides an earlier one for the same call: the sort is stable, so the last of equal entries stays.
    rules.reverse();
    rules.dedup_by_key(|(number, _)| *number);
    rules.reverse();
    let mut ranges: Vec<(u32, Action)> = vec![(0, default)];
    for (number, action) in rules {
        begin(&mut ranges, number, action);
        begin(&mut ranges, number + 1, default);
    }
    let mut program = vec![
        load(4),
        jump_equal(ARCHITECTURE, 1, 0),
        answer(KILL),
        load(0),
        Instruction {
            code: 0x35,
            if_true: 0,
            if_false: 1,
            value: FOREIGN,
        },
        answer(KILL),
    ];
    program.extend(tree(&ranges));
    Filter(program)
}

/// Starts a range at `number`, and joins neighbours with the same action.
fn begin(ranges: &mut Vec<(u32, Action)>, number: u32, action: Action) {
    if ranges.last().is_some_and(|(start, _)| *start == number) {
        ranges.pop();
    }
    if ranges.last().is_none_or(|(_, last)| *last != action) {
        ranges.push((number, action));
    }
}

fn tree(ranges: &[(u32, Action)]) -> Vec<Instruction> {
    if let [(_, action)] = ranges {
        return leaf(*action);
    }
    let (below, above) = ranges.split_at(ranges.len() / 2);
    let pivot = above.first().map_or(0, |(start, _)| *start);
    let (below, above) = (tree(below), tree(above));
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

fn leaf(action: Action) -> Vec<Instruction> {
    let refused = answer(REFUSE | libc::EPERM.cast_unsigned());
    match action {
        Action::Allow => vec![answer(ALLOW)],
        Action::Refuse(error) => vec![answer(REFUSE | error.cast_unsigned())],
        Action::Tell => vec![answer(TELL)],
        Action::Check(Check::PlainClone) => vec![
            argument(0),
            jump_any_bit(NAMESPACES, 4, 0),
            jump_any_bit(CLONE_THREAD, 0, 2),
            jump_any_bit(CLONE_FILES, 1, 0),
            refused,
            answer(ALLOW),
            answer(TELL),
        ],
        Action::Check(Check::ThreadOnly) => {
            vec![argument(0), jump_any_bit(CLONE_THREAD, 0, 1), answer(ALLOW), refused]
        }
        Action::Check(Check::SocketFamily) => socket_family(refused),
        Action::Check(Check::SocketOption) => options::check(),
        Action::Check(Check::NoBits(index, bits)) => {
            vec![argument(index), jump_any_bit(bits, 1, 0), answer(ALLOW), refused]
        }
        Action::Check(Check::NoneOf(index, values)) => one_of(index, values, refused, answer(ALLOW)),
        Action::Check(Check::OneOf(index, values)) => one_of(index, values, answer(ALLOW), refused),
        Action::Check(Check::Answer(index, values, error)) => {
            one_of(index, values, answer(REFUSE | error.cast_unsigned()), answer(ALLOW))
        }
    }
}

/// Internet protocols that a program may ask for: any, ICMP for both versions, TCP, UDP. Others keep buffers of their own.
const PROTOCOLS: &[u32] = &[0, 1, 6, 17, 58];
fn socket_family(refused: Instruction) -> Vec<Instruction> {
    let absent = answer(REFUSE | libc::EPROTONOSUPPORT.cast_unsigned());
    // The kind of a socket may imply a protocol too.
    let mut of_internet = one_of_kinds(absent);
    of_internet.extend(one_of(2, PROTOCOLS, answer(ALLOW), absent));
    let skip = u8::try_from(of_internet.len()).unwrap_or(u8::MAX);
    let mut code = vec![
        argument(0),
        jump_equal(libc::AF_INET.cast_unsigned(), 1, 0),
        jump_equal(libc::AF_INET6.cast_unsigned(), 0, skip),
    ];
    code.extend(of_internet);
    code.extend([
        jump_equal(libc::AF_UNIX.cast_unsigned(), 3, 0),
        jump_equal(libc::AF_NETLINK.cast_unsigned(), 0, 3),
        argument(2),
        jump_equal(libc::NETLINK_ROUTE.cast_unsigned(), 0, 1),
        answer(ALLOW),
        refused,
    ]);
    code
}

/// Continues where the kind of a socket is stream, datagram or raw.
fn one_of_kinds(refused: Instruction) -> Vec<Instruction> {
    const KIND: u32 = 0xf;
    vec![
        argument(1),
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

fn one_of(index: u32, values: &[u32], found: Instruction, other: Instruction) -> Vec<Instruction> {
    let mut code = vec![argument(index)];
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
