//! A relayed link from the host's side: orders and reports, and a pipe beside them.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use ringfence_wire::Relay;

use super::{HostLink, RelayedLink};

/// The host's end of the stream.
struct Host {
    stream: UnixStream,
    relay: Relay,
    packets: Vec<Vec<u8>>,
}

impl Host {
    fn flush(&mut self) {
        while self.relay.has_pending() {
            self.stream.write_all(self.relay.chunk()).unwrap();
            let count = self.relay.chunk().len();
            self.relay.advance(count);
        }
    }

    /// Reads until `enough` of the relay, and returns what came on the pipe.
    fn read_until(&mut self, enough: impl Fn(&Host, &[u8]) -> bool) -> Vec<u8> {
        let (mut piped, mut buffer) = (Vec::new(), [0; 4096]);
        while !enough(self, &piped) {
            let count = self.stream.read(&mut buffer).unwrap();
            assert!(count > 0, "the link is gone");
            self.relay.push(&buffer[..count]);
            while let Some(packet) = self.relay.next_packet().unwrap() {
                self.packets.push(packet);
            }
            while !self.relay.pipe_bytes().is_empty() {
                let part = self.relay.pipe_bytes().to_vec();
                self.relay.mark_written(part.len());
                piped.extend(part);
            }
            self.flush();
        }
        piped
    }
}

fn linked() -> (Host, HostLink) {
    let (host, inside) = UnixStream::pair().unwrap();
    let output = inside.try_clone().unwrap();
    let link = RelayedLink::new(OwnedFd::from(inside), OwnedFd::from(output)).unwrap();
    let host = Host {
        stream: host,
        relay: Relay::new(),
        packets: Vec::new(),
    };
    (host, HostLink::Stream(Box::new(link)))
}

#[test]
fn orders_come_and_reports_go() {
    let (mut host, mut link) = linked();
    assert!(!link.has_order(Duration::ZERO).unwrap());
    for order in [&b"first"[..], b"second"] {
        host.relay.queue_packet(order).unwrap();
    }
    host.flush();
    let mut packet = [0; 64];
    for order in [&b"first"[..], b"second"] {
        assert!(link.has_order(Duration::from_secs(5)).unwrap());
        let (length, descriptors) = link.receive(&mut packet).unwrap();
        assert_eq!((&packet[..length], descriptors.len()), (order, 0));
    }
    link.send(b"report").unwrap();
    host.read_until(|host, _| !host.packets.is_empty());
    assert_eq!(host.packets, [b"report"]);
    drop(host);
    assert_eq!(link.receive(&mut packet).unwrap().0, 0, "the host is gone");
}

#[test]
fn a_pipe_goes_both_ways_while_an_order_is_waited_for() {
    const MUCH: usize = 3 << 20;
    let (mut host, mut link) = linked();
    host.relay.open_pipe(1).unwrap();
    let child = UnixStream::from(link.open_pipe(1).unwrap());
    let child = thread::spawn(move || {
        let (mut child, mut question) = (child, [0; 8]);
        child.read_exact(&mut question).unwrap();
        let much: Vec<u8> = (0..=250).cycle().take(MUCH).collect();
        child.write_all(&much).unwrap();
        question
    });
    let link = thread::spawn(move || {
        let mut packet = [0; 64];
        let (length, _) = link.receive(&mut packet).unwrap();
        (packet[..length].to_vec(), link)
    });
    host.relay.queue_pipe(b"question");
    host.flush();
    let piped = host.read_until(|_, piped| piped.len() == MUCH);
    assert!(piped.iter().copied().eq((0..=250).cycle().take(MUCH)));
    assert_eq!(&child.join().unwrap(), b"question");
    // The child has closed its end, which the host is told.
    host.read_until(|host, _| host.relay.is_pipe_over());
    host.relay.queue_packet(b"order").unwrap();
    host.flush();
    assert_eq!(link.join().unwrap().0, b"order");
}

#[test]
fn a_host_that_breaks_the_rules_ends_the_link() {
    let (mut host, mut link) = linked();
    host.stream.write_all(&[9; 64]).unwrap();
    assert!(link.receive(&mut [0; 64]).is_err());
}

#[test]
fn a_link_without_a_stream_makes_no_pipes() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    assert!(HostLink::Socket(OwnedFd::from(ours)).open_pipe(1).is_err());
}
