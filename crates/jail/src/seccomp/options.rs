//! Which socket options a program may set.
//!
//! Some options make the kernel keep memory for a socket that no control group and no list of sockets counts, or keep sent
//! data for a long time: those options are refused. Programs without a network have no use for them.

use super::{ALLOW, Instruction, REFUSE, answer, argument, jump_equal, one_of};

/// Options for the size of a socket's buffers.
const BUFFER_SIZES: &[u32] = &[
    libc::SO_SNDBUF.cast_unsigned(),
    libc::SO_RCVBUF.cast_unsigned(),
    libc::SO_SNDBUFFORCE.cast_unsigned(),
    libc::SO_RCVBUFFORCE.cast_unsigned(),
];
/// Filters and programs, copies of sent data, pages that are sent by reference.
const KEEPING: &[u32] = &[
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
const OF_TCP: &[u32] = &[
    14, // TCP_MD5SIG
    31, // TCP_ULP
    32, // TCP_MD5SIG_EXT
    38, // TCP_AO_ADD_KEY
    39, // TCP_AO_DEL_KEY
    40, // TCP_AO_INFO
    42, // TCP_AO_REPAIR
];
/// Datagrams that are assembled and not sent.
const OF_UDP: &[u32] = &[1]; // UDP_CORK
/// Groups, and lists of senders: the kernel keeps a quarter of a kibibyte for each and charges it to no group.
const OF_IP: &[u32] = &[35, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48];
/// The allowed options of IPv6: most others are parts of packets and lists, which are kept with the socket.
const OF_IPV6: &[u32] = &[
    16, 17, 18, 19, // hops, and how groups are sent to
    21, // leave a group
    23, 24, 25, 26, // sizes, errors, version 6 only
    33, 49, 51, 61, 62, 66, 67, 70, 72, 74, 76, 78,
];

pub(super) fn check() -> Vec<Instruction> {
    let absent = answer(REFUSE | libc::ENOPROTOOPT.cast_unsigned());
    let allowed = answer(ALLOW);
    let mut code = vec![argument(1)];
    let mut of_sockets = buffer_sizes();
    of_sockets.extend(one_of(2, KEEPING, absent, allowed));
    let levels = [
        (libc::SOL_SOCKET, of_sockets),
        (libc::IPPROTO_TCP, one_of(2, OF_TCP, absent, allowed)),
        (libc::IPPROTO_UDP, one_of(2, OF_UDP, absent, allowed)),
        (libc::IPPROTO_IP, one_of(2, OF_IP, absent, allowed)),
        (libc::IPPROTO_IPV6, one_of(2, OF_IPV6, allowed, absent)),
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
    let mut code = vec![argument(2)];
    for (place, value) in BUFFER_SIZES.iter().enumerate() {
        let (to_answer, on) = (
            BUFFER_SIZES.len() - 1 - place,
            u8::from(place + 1 == BUFFER_SIZES.len()),
        );
        code.push(jump_equal(*value, u8::try_from(to_answer).unwrap_or(u8::MAX), on));
    }
    code.push(answer(REFUSE));
    code
}
