//! Which socket options a program may set.
//!
//! Some options make the kernel keep memory for a socket that no control group and no list of sockets counts, or keep sent
//! data for a long time: those options are refused. Programs without a network have no use for them.

use super::{ALLOW, Instruction, REFUSE, check_one_of, jump_equal, load_argument, return_value};

/// Options for the size of a socket's buffers.
const BUFFER_SIZES: &[u32] = &[
    libc::SO_SNDBUF.cast_unsigned(),
    libc::SO_RCVBUF.cast_unsigned(),
    libc::SO_SNDBUFFORCE.cast_unsigned(),
    libc::SO_RCVBUFFORCE.cast_unsigned(),
];
/// Filters and programs, copies of sent data, pages that are sent by reference.
const KERNEL_MEMORY_OPTIONS: &[u32] = &[
    26, // SO_ATTACH_FILTER
    37, // SO_TIMESTAMPING
    50, // SO_ATTACH_BPF
    51, // SO_ATTACH_REUSEPORT_CBPF
    52, // SO_ATTACH_REUSEPORT_EBPF
    60, // SO_ZEROCOPY
    61, // SO_TXTIME
    65, // SO_TIMESTAMPING, with 64 bits
];
/// Keys, and layers on top of a connection.
const REFUSED_TCP_OPTIONS: &[u32] = &[
    14, // TCP_MD5SIG
    31, // TCP_ULP
    32, // TCP_MD5SIG_EXT
    38, // TCP_AO_ADD_KEY
    39, // TCP_AO_DEL_KEY
    40, // TCP_AO_INFO
    42, // TCP_AO_REPAIR
];
/// Datagrams that are assembled and not sent.
const REFUSED_UDP_OPTIONS: &[u32] = &[1]; // UDP_CORK
/// Groups, and lists of senders: the kernel keeps a quarter of a kibibyte for each and charges it to no group.
const REFUSED_IP_OPTIONS: &[u32] = &[35, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48];
/// The allowed options of IPv6: most others are parts of packets and lists, which are kept with the socket.
const ALLOWED_IPV6_OPTIONS: &[u32] = &[
    16, 17, 18, 19, // hops, and how groups are sent to
    21, // leave a group
    23, 24, 25, 26, // sizes, errors, version 6 only
    33, 49, 51, 61, 62, 66, 67, 70, 72, 74, 76, 78,
];

pub(super) fn check_socket_option() -> Vec<Instruction> {
    let absent = return_value(REFUSE | libc::ENOPROTOOPT.cast_unsigned());
    let allowed = return_value(ALLOW);
    let mut code = vec![load_argument(1)];
    let mut of_sockets = buffer_sizes();
    of_sockets.extend(check_one_of(2, KERNEL_MEMORY_OPTIONS, absent, allowed));
    let levels = [
        (libc::SOL_SOCKET, of_sockets),
        (libc::IPPROTO_TCP, check_one_of(2, REFUSED_TCP_OPTIONS, absent, allowed)),
        (libc::IPPROTO_UDP, check_one_of(2, REFUSED_UDP_OPTIONS, absent, allowed)),
        (libc::IPPROTO_IP, check_one_of(2, REFUSED_IP_OPTIONS, absent, allowed)),
        (
            libc::IPPROTO_IPV6,
            check_one_of(2, ALLOWED_IPV6_OPTIONS, allowed, absent),
        ),
    ];
    for (level, looks) in levels {
        let skip = u8::try_from(looks.len()).unwrap_or(u8::MAX);
        code.push(jump_equal(level.cast_unsigned(), 0, skip));
        code.extend(looks);
    }
    code.push(allowed);
    code
}

/// Returns success without effect for the size of buffers; continues for any other option.
fn buffer_sizes() -> Vec<Instruction> {
    let mut code = vec![load_argument(2)];
    for (place, value) in BUFFER_SIZES.iter().enumerate() {
        let (to_answer, on) = (
            BUFFER_SIZES.len() - 1 - place,
            u8::from(place + 1 == BUFFER_SIZES.len()),
        );
        code.push(jump_equal(*value, u8::try_from(to_answer).unwrap_or(u8::MAX), on));
    }
    code.push(return_value(REFUSE));
    code
}
