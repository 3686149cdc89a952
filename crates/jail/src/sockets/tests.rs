use std::io::Write as _;
use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

use super::{SocketMemory, check_dump_end, socket_memory};
use crate::sys::socket::open_socket_listing;

#[test]
fn an_error_at_the_end_of_a_list_is_no_empty_list() {
    for (last, expected) in [(0, None), (-libc::ENOENT, Some(libc::ENOENT))] {
        let error = check_dump_end(&i32::to_ne_bytes(last)).err();
        assert_eq!(error.and_then(|error| error.raw_os_error()), expected);
    }
    check_dump_end(&[]).unwrap();
}

#[test]
fn queues_that_nobody_tells_of_hold_no_more_than_closed_senders_can_have_sent() {
    const MIB: u64 = 1 << 20;
    let held = SocketMemory {
        unix: MIB,
        unix_unknown: 600 * MIB,
        internet: 0,
        open: 250,
    };
    // All senders of waiting data are open; four are closed; more are closed than there is capacity for.
    for (sockets, expected) in [(200, 1), (250, 1), (254, 3), (2000, 601)] {
        assert_eq!(held.unix_of(sockets), expected * MIB, "{sockets}");
    }
}

/// The test counts every socket on the machine, and others come and go: one of several tries must show the difference.
#[test]
fn what_waits_in_sockets_is_counted_while_it_waits() {
    let tries: Vec<(u64, u64, u64)> = (0..20).map(|_| count_with_and_without_the_sender()).collect();
    let shows = |(before, with, without): &(u64, u64, u64)| *with.min(without) >= before + 150_000;
    assert!(tries.iter().any(shows), "{tries:?}");
}

/// Bytes before anything was sent, with it, and after its sender was closed.
fn count_with_and_without_the_sender() -> (u64, u64, u64) {
    let list = open_socket_listing().unwrap().unwrap();
    let held = || {
        let held = socket_memory(list.as_fd()).unwrap();
        held.unix + held.unix_unknown + held.internet
    };
    let before = held();
    let (mut one, other) = UnixStream::pair().unwrap();
    one.write_all(&vec![1; 100_000]).unwrap();
    // More of them than any program may have.
    let left: Vec<UnixStream> = (0..20).map(|_| UnixStream::pair().unwrap().0).collect();
    let (receiver, sender) = (UdpSocket::bind("127.0.0.1:0"), UdpSocket::bind("127.0.0.1:0"));
    let (receiver, sender) = (receiver.unwrap(), sender.unwrap());
    for _ in 0..3 {
        sender
            .send_to(&vec![1; 30_000], receiver.local_addr().unwrap())
            .unwrap();
    }
    let with = held();
    drop(one);
    let without = held();
    drop((left, other, receiver, sender));
    (before, with, without)
}
