use std::io::Write as _;
use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

use super::bytes;
use crate::sys::socket::open_diagnosis;

#[test]
fn what_waits_in_sockets_is_counted_while_it_waits() {
    let list = open_diagnosis().unwrap().unwrap();
    let held = || bytes(list.as_fd()).unwrap();
    let before = held();
    let (mut one, other) = UnixStream::pair().unwrap();
    one.write_all(&vec![1; 100_000]).unwrap();
    // More than those that any program may have.
    let left: Vec<UnixStream> = (0..20).map(|_| UnixStream::pair().unwrap().0).collect();
    let (receiver, sender) = (UdpSocket::bind("127.0.0.1:0"), UdpSocket::bind("127.0.0.1:0"));
    let (receiver, sender) = (receiver.unwrap(), sender.unwrap());
    for _ in 0..3 {
        sender
            .send_to(&vec![1; 30_000], receiver.local_addr().unwrap())
            .unwrap();
    }
    let with = held();
    assert!(with >= before + 150_000, "{before} {with}");
    // Also when who sent it is gone.
    drop(one);
    let without = held();
    assert!(without >= before + 150_000, "{before} {without}");
    drop((left, other, receiver, sender));
}
