use super::*;

/// Runs a filter as the kernel would: on the call's number, the architecture and its arguments.
fn judge(filter: &Filter, architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
    let word = |offset: u32| match offset {
        0 => number,
        4 => architecture,
        _ => {
            let index = usize::try_from((offset - 16) / 8).unwrap();
            u32::try_from(arguments[index] & 0xffff_ffff).unwrap()
        }
    };
    let (mut at, mut value) = (0, 0);
    loop {
        let one = filter.0[at];
        at += 1;
        let jump = |taken: bool| usize::from(if taken { one.if_true } else { one.if_false });
        match one.code {
            0x20 => value = word(one.value),
            0x06 => return one.value,
            0x15 => at += jump(value == one.value),
            0x35 => at += jump(value >= one.value),
            0x45 => at += jump(value & one.value != 0),
            0x05 => at += usize::try_from(one.value).unwrap(),
            0x54 => value &= one.value,
            other => panic!("unknown instruction {other:#x}"),
        }
    }
}

const PERMISSION: u32 = REFUSE | libc::EPERM as u32;
const NO_PROTOCOL: u32 = REFUSE | libc::EPROTONOSUPPORT as u32;
const ABSENT: u32 = REFUSE | libc::ENOSYS as u32;

#[track_caller]
fn check(profile: Profile, call: libc::c_long, arguments: [u64; 6], expected: u32) {
    let answer = judge(
        &Filter::for_profile(profile),
        ARCHITECTURE,
        call_number(call),
        arguments,
    );
    assert_eq!(answer, expected, "call {call} for {profile:?}: {answer:#x}");
}

#[test]
fn every_call_gets_the_answer_of_its_list() {
    let program = Filter::for_profile(Profile::Program);
    let checked: Vec<u32> = program_checks().into_iter().map(|(call, _)| call).collect();
    for call in PROGRAM
        .iter()
        .map(|call| call_number(*call))
        .filter(|call| !checked.contains(call))
    {
        assert_eq!(judge(&program, ARCHITECTURE, call, [0; 6]), ALLOW, "{call}");
    }
    for (call, name) in NOTIFIED {
        assert_eq!(
            judge(&program, ARCHITECTURE, call_number(*call), [0; 6]),
            NOTIFY,
            "{name}"
        );
    }
    for call in SILENTLY_REFUSED {
        assert_eq!(
            judge(&program, ARCHITECTURE, call_number(*call), [0; 6]),
            PERMISSION,
            "{call}"
        );
    }
    for unknown in [999, 4096, FIRST_X32_CALL - 1] {
        assert_eq!(judge(&program, ARCHITECTURE, unknown, [0; 6]), ABSENT, "{unknown}");
    }
}

#[test]
fn pages_are_not_passed_on_and_disk_is_not_reserved() {
    const INVALID: u32 = REFUSE | libc::EINVAL as u32;
    for call in [libc::SYS_splice, libc::SYS_tee, libc::SYS_sendfile] {
        check(Profile::Program, call, [0; 6], INVALID);
    }
    let unsupported = REFUSE | libc::EOPNOTSUPP as u32;
    check(Profile::Program, libc::SYS_fallocate, [0; 6], unsupported);
}

#[test]
fn what_a_watch_could_not_count_is_not_made() {
    const INVALID: u32 = REFUSE | libc::EINVAL as u32;
    let thread = u64::from(CLONE_THREAD);
    let shared = thread | u64::from(CLONE_FILES);
    let dumpable = libc::PR_SET_DUMPABLE as u64;
    for (call, arguments, expected) in [
        (libc::SYS_fcntl, [3, libc::F_OFD_SETLK as u64, 0, 0, 0, 0], INVALID),
        (libc::SYS_fcntl, [3, libc::F_OFD_SETLKW as u64, 0, 0, 0, 0], INVALID),
        (libc::SYS_fcntl, [3, libc::F_OFD_GETLK as u64, 0, 0, 0, 0], INVALID),
        (libc::SYS_fcntl, [3, libc::F_SETLK as u64, 0, 0, 0, 0], ALLOW),
        (libc::SYS_fcntl, [3, libc::F_SETFD as u64, 1, 0, 0, 0], ALLOW),
        (libc::SYS_clone, [thread, 0, 0, 0, 0, 0], PERMISSION),
        (libc::SYS_clone, [shared, 0, 0, 0, 0, 0], ALLOW),
        (
            libc::SYS_clone,
            [shared | libc::CLONE_NEWNS as u64, 0, 0, 0, 0, 0],
            NOTIFY,
        ),
        (libc::SYS_close_range, [3, 9, 2, 0, 0, 0], PERMISSION),
        (libc::SYS_close_range, [3, 9, 4, 0, 0, 0], ALLOW),
        // The call succeeds without effect.
        (libc::SYS_prctl, [dumpable, 0, 0, 0, 0, 0], REFUSE),
        (libc::SYS_prctl, [libc::PR_SET_VMA as u64, 0, 0, 0, 0, 0], REFUSE),
        (libc::SYS_prctl, [libc::PR_GET_DUMPABLE as u64, 0, 0, 0, 0, 0], ALLOW),
    ] {
        check(Profile::Program, call, arguments, expected);
    }
}

#[test]
fn options_that_make_the_kernel_keep_more_are_not_there() {
    const NO_OPTION: u32 = REFUSE | libc::ENOPROTOOPT as u32;
    let (socket, tcp, udp, v4, v6) = (1, 6, 17, 0, 41);
    for (level, option, expected) in [
        (socket, 26, NO_OPTION), // a filter
        (socket, 37, NO_OPTION), // copies of what was sent
        (socket, 65, NO_OPTION),
        (socket, 60, NO_OPTION), // pages by reference
        (socket, 7, REFUSE),     // the size of buffers, without effect
        (socket, 33, REFUSE),
        (socket, 2, ALLOW), // an address again
        (socket, 9, ALLOW), // keep alive
        (socket, 15, ALLOW),
        (tcp, 14, NO_OPTION), // keys
        (tcp, 32, NO_OPTION),
        (tcp, 38, NO_OPTION),
        (tcp, 31, NO_OPTION),
        (tcp, 1, ALLOW), // no delay
        (tcp, 18, ALLOW),
        (udp, 1, NO_OPTION), // not sent yet
        (udp, 103, ALLOW),
        (v4, 42, NO_OPTION), // groups and their senders
        (v4, 1, ALLOW),
        (v4, 35, NO_OPTION),
        (v6, 6, NO_OPTION),  // parts of packets
        (v6, 20, NO_OPTION), // groups
        (v6, 42, NO_OPTION),
        (v6, 57, NO_OPTION),
        (v6, 26, ALLOW), // this version only
        (v6, 67, ALLOW),
        (270, 1, ALLOW), // of netlink
    ] {
        check(
            Profile::Program,
            libc::SYS_setsockopt,
            [3, level, option, 0, 0, 0],
            expected,
        );
    }
}

#[test]
fn what_is_reserved_or_held_by_other_names_is_refused_too() {
    const INVALID: u32 = REFUSE | libc::EINVAL as u32;
    for request in [0x4030_5828, 0x4030_582a, 0x4030_5839] {
        check(Profile::Program, libc::SYS_ioctl, [3, request, 0, 0, 0, 0], PERMISSION);
    }
    check(
        Profile::Program,
        libc::SYS_fcntl,
        [3, libc::F_SETLEASE as u64, 0, 0, 0, 0],
        INVALID,
    );
    check(
        Profile::Program,
        libc::SYS_fcntl,
        [3, libc::F_NOTIFY as u64, 0, 0, 0, 0],
        INVALID,
    );
    // The kernel's table for locks: the call succeeds without effect.
    check(Profile::Program, libc::SYS_prctl, [78, 1, 1 << 24, 0, 0, 0], REFUSE);
    // A process may set its own limits, not those of others.
    check(Profile::Program, libc::SYS_prlimit64, [0, 7, 1, 0, 0, 0], ALLOW);
    check(Profile::Program, libc::SYS_prlimit64, [2, 7, 1, 0, 0, 0], PERMISSION);
    for call in [
        libc::SYS_landlock_create_ruleset,
        libc::SYS_landlock_add_rule,
        libc::SYS_landlock_restrict_self,
    ] {
        check(Profile::Program, call, [0; 6], ALLOW);
        check(Profile::Started, call, [0; 6], ABSENT);
    }
    check(Profile::Started, libc::SYS_execve, [0; 6], ALLOW);
}

#[test]
fn foreign_interfaces_are_killed() {
    const I386: u32 = 0x4000_0003;
    for profile in [
        Profile::Program,
        Profile::Engine,
        Profile::Python,
        Profile::PythonNetwork,
    ] {
        let filter = Filter::for_profile(profile);
        assert_eq!(judge(&filter, I386, 0, [0; 6]), KILL);
        assert_eq!(judge(&filter, ARCHITECTURE, FIRST_X32_CALL, [0; 6]), KILL);
        assert_eq!(judge(&filter, ARCHITECTURE, u32::MAX, [0; 6]), KILL);
    }
}

#[test]
fn arguments_decide_where_they_matter() {
    let first = |value: u64| [value, 0, 0, 0, 0, 0];
    let second = |value: u64| [0, value, 0, 0, 0, 0];
    let third = |first: u64, third: u64| [first, 0, third, 0, 0, 0];
    let internet = |family: i32, kind: i32, protocol: i32| {
        [family, kind, protocol, 0, 0, 0].map(|word: i32| u64::from(word.cast_unsigned()))
    };
    for (call, arguments, expected) in [
        (libc::SYS_clone, first(libc::SIGCHLD as u64), ALLOW),
        (libc::SYS_clone, first(libc::CLONE_NEWUSER as u64), NOTIFY),
        (
            libc::SYS_clone,
            first(libc::CLONE_NEWNET as u64 | libc::SIGCHLD as u64),
            NOTIFY,
        ),
        (libc::SYS_clone3, first(0), ABSENT),
        (libc::SYS_socket, first(libc::AF_UNIX as u64), ALLOW),
        (libc::SYS_socket, internet(libc::AF_INET6, libc::SOCK_STREAM, 0), ALLOW),
        (
            libc::SYS_socket,
            internet(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 17),
            ALLOW,
        ),
        (
            libc::SYS_socket,
            internet(libc::AF_INET6, libc::SOCK_STREAM, 262),
            NO_PROTOCOL,
        ),
        (
            libc::SYS_socket,
            internet(libc::AF_INET, libc::SOCK_STREAM, 132),
            NO_PROTOCOL,
        ),
        // A kind that means SCTP or DCCP where no protocol is given.
        (
            libc::SYS_socket,
            internet(libc::AF_INET, libc::SOCK_SEQPACKET, 0),
            NO_PROTOCOL,
        ),
        (
            libc::SYS_socket,
            internet(libc::AF_INET, 6 | libc::SOCK_NONBLOCK, 0),
            NO_PROTOCOL,
        ),
        (libc::SYS_setsockopt, [3, 1, 8, 0, 0, 0], REFUSE),
        (libc::SYS_setsockopt, [3, 1, 32, 0, 0, 0], REFUSE),
        (libc::SYS_setsockopt, [3, 1, 2, 0, 0, 0], ALLOW),
        (libc::SYS_setsockopt, [3, 6, 8, 0, 0, 0], ALLOW),
        (libc::SYS_socket, third(libc::AF_NETLINK as u64, 0), ALLOW),
        (libc::SYS_socket, third(libc::AF_NETLINK as u64, 12), PERMISSION),
        (libc::SYS_socket, first(libc::AF_PACKET as u64), PERMISSION),
        (libc::SYS_socket, first(libc::AF_ALG as u64), PERMISSION),
        (libc::SYS_socket, first(libc::AF_VSOCK as u64), PERMISSION),
        (libc::SYS_socketpair, first(libc::AF_UNIX as u64), ALLOW),
        (libc::SYS_socketpair, first(libc::AF_VSOCK as u64), PERMISSION),
        (libc::SYS_io_setup, first(1), ABSENT),
        (libc::SYS_ioctl, second(0x5412), PERMISSION),
        (libc::SYS_ioctl, second(0xffff_ffff_0000_5412), PERMISSION),
        (libc::SYS_ioctl, second(0x541c), PERMISSION),
        (libc::SYS_ioctl, second(0x5401), ALLOW),
        (libc::SYS_personality, first(0xffff_ffff), ALLOW),
        (libc::SYS_personality, first(0x0040_0000), PERMISSION),
        (libc::SYS_mknodat, third(0, u64::from(libc::S_IFIFO)), ALLOW),
        (libc::SYS_mknodat, third(0, u64::from(libc::S_IFCHR)), PERMISSION),
        (libc::SYS_mknodat, third(0, u64::from(libc::S_IFBLK)), PERMISSION),
    ] {
        check(Profile::Program, call, arguments, expected);
    }
}

#[test]
fn engines_make_no_processes_and_no_sockets() {
    for profile in [Profile::Engine, Profile::Python] {
        for call in [
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_socket,
            libc::SYS_connect,
            libc::SYS_bind,
        ] {
            check(profile, call, [0; 6], PERMISSION);
        }
    }
    check(Profile::Engine, libc::SYS_clone, [0; 6], PERMISSION);
    check(
        Profile::Python,
        libc::SYS_clone,
        [libc::SIGCHLD as u64, 0, 0, 0, 0, 0],
        PERMISSION,
    );
    check(
        Profile::Python,
        libc::SYS_clone,
        [u64::from(CLONE_THREAD), 0, 0, 0, 0, 0],
        ALLOW,
    );
}

#[test]
fn python_with_a_network_connects_and_nothing_else() {
    let profile = Profile::PythonNetwork;
    for (family, expected) in [
        (libc::AF_INET, ALLOW),
        (libc::AF_INET6, ALLOW),
        (libc::AF_UNIX, PERMISSION),
        (libc::AF_NETLINK, PERMISSION),
        (libc::AF_PACKET, PERMISSION),
    ] {
        let family = u64::from(family.cast_unsigned());
        check(profile, libc::SYS_socket, [family, 0, 0, 0, 0, 0], expected);
    }
    check(profile, libc::SYS_connect, [0; 6], ALLOW);
    for call in [libc::SYS_execve, libc::SYS_bind, libc::SYS_listen, libc::SYS_accept4] {
        check(profile, call, [0; 6], PERMISSION);
    }
}

#[test]
fn an_inner_filter_leaves_telling_to_the_outer_one() {
    for (call, _) in NOTIFIED {
        check(Profile::Engine, *call, [0; 6], ALLOW);
        check(Profile::Python, *call, [0; 6], ALLOW);
    }
}
