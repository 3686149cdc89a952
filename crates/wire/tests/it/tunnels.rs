//! Tunnels between two ends with a transport that cuts and delays the bytes. Whatever either side does, bytes arrive in
//! order, numbers are reused only when they are free, and neither side sees a protocol error.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use ringfence_wire::{FromChild, Inbound, InboundItem, Outbound, PipeSide, TunnelEvent, TunnelId, decode};

/// The state of a tunnel on one side.
#[derive(Default, Debug)]
struct Known {
    /// How many tunnels have used this number.
    life: usize,
    sent: u8,
    expected: u8,
    unconsumed: usize,
    ended: bool,
    closed: bool,
}

struct Peer {
    inbound: Inbound,
    outbound: Outbound,
    known: BTreeMap<TunnelId, Known>,
    bytes: usize,
}

impl Peer {
    fn new(side: PipeSide) -> Self {
        Self {
            inbound: Inbound::execution(side),
            outbound: Outbound::execution(side),
            known: BTreeMap::new(),
            bytes: 0,
        }
    }

    fn open(&mut self, tunnel: TunnelId) {
        self.inbound.open_tunnel(tunnel).unwrap();
        self.outbound.open_tunnel(tunnel).unwrap();
        let life = self.known.get(&tunnel).map_or(1, |known| known.life + 1);
        let known = Known {
            life,
            ..Known::default()
        };
        self.known.insert(tunnel, known);
    }

    fn receive(&mut self, transport: &mut VecDeque<u8>, limit: usize) {
        let space = self.inbound.read_buffer();
        let count = space.len().min(limit).min(transport.len());
        for (to, from) in space.iter_mut().zip(transport.drain(..count)) {
            *to = from;
        }
        self.inbound.advance(count);
        loop {
            let mut opened = None;
            match self.inbound.next().unwrap() {
                None => return,
                Some(InboundItem::Control(payload)) => {
                    let message = decode(payload).unwrap();
                    let FromChild::Open { tunnel } = message else {
                        panic!("only tunnels are opened here: {message:?}");
                    };
                    opened = Some(tunnel);
                }
                Some(InboundItem::Tunnel { tunnel, carried }) => {
                    let known = self.known.get_mut(&tunnel).unwrap();
                    match carried {
                        TunnelEvent::Data(bytes) => {
                            assert!(!known.ended);
                            for byte in bytes {
                                assert_eq!(*byte, known.expected, "in order, and of this life");
                                known.expected = known.expected.wrapping_add(1);
                            }
                            known.unconsumed += bytes.len();
                            self.bytes += bytes.len();
                        }
                        TunnelEvent::End => known.ended = true,
                        TunnelEvent::Credit(grant) => self.outbound.tunnels_mut().add_credit(tunnel, grant).unwrap(),
                        TunnelEvent::Close => {
                            known.closed = true;
                            self.outbound.tunnels_mut().reset(tunnel);
                        }
                    }
                }
                Some(other) => panic!("there are only tunnels here: {other:?}"),
            }
            if let Some(tunnel) = opened {
                self.open(tunnel);
            }
        }
    }

    fn consume(&mut self, tunnel: TunnelId, limit: usize) {
        let Some(known) = self.known.get_mut(&tunnel) else {
            return;
        };
        let count = limit.min(known.unconsumed);
        known.unconsumed -= count;
        if let Some(grant) = self.inbound.tunnels_mut().mark_consumed(tunnel, count) {
            self.outbound.tunnels_mut().queue_grant(tunnel, grant);
        }
    }

    fn write(&mut self, tunnel: TunnelId, size: usize) {
        let Some(known) = self.known.get_mut(&tunnel) else {
            return;
        };
        let bytes: Vec<u8> = (0..size)
            .map(|at| known.sent.wrapping_add(at.to_le_bytes()[0]))
            .collect();
        let room = self.outbound.tunnels().available_capacity(tunnel);
        let taken = self.outbound.tunnels_mut().queue_data(tunnel, &bytes);
        assert_eq!(taken, room.min(size));
        known.sent = known.sent.wrapping_add(taken.to_le_bytes()[0]);
    }

    fn transmit(&mut self, transport: &mut VecDeque<u8>, limit: usize) {
        assert_eq!(self.outbound.has_pending(), !self.outbound.chunk().is_empty());
        let chunk = self.outbound.chunk();
        let count = chunk.len().min(limit);
        transport.extend(&chunk[..count]);
        self.outbound.advance(count);
    }

    fn is_free(&self, tunnel: TunnelId) -> bool {
        !self.inbound.tunnels().is_open(tunnel) && !self.outbound.tunnels().is_open(tunnel)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Open,
    Write(bool, usize, usize),
    End(bool, usize),
    Close(bool, usize),
    Reset(bool, usize),
    Consume(bool, usize, usize),
    Transmit(usize),
    Receive(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = || prop_oneof![1..40_usize, 1..5_000_usize, 1..300_000_usize];
    let which = || 0..3_usize;
    let step = prop_oneof![
        2 => Just(Step::Open),
        4 => (any::<bool>(), which(), size()).prop_map(|(host, which, size)| Step::Write(host, which, size)),
        1 => (any::<bool>(), which()).prop_map(|(host, which)| Step::End(host, which)),
        1 => (any::<bool>(), which()).prop_map(|(host, which)| Step::Close(host, which)),
        1 => (any::<bool>(), which()).prop_map(|(host, which)| Step::Reset(host, which)),
        3 => (any::<bool>(), which(), size()).prop_map(|(host, which, size)| Step::Consume(host, which, size)),
        4 => size().prop_map(Step::Transmit),
        4 => size().prop_map(Step::Receive),
    ];
    prop::collection::vec(step, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_puts_an_honest_side_in_the_wrong(steps in steps()) {
        let tunnels: Vec<TunnelId> = TunnelId::all().take(3).collect();
        let mut child = Peer::new(PipeSide::Child);
        let mut host = Peer::new(PipeSide::Host);
        let (mut up, mut down) = (VecDeque::new(), VecDeque::new());
        for step in steps {
            match step {
                Step::Open => {
                    if let Some(tunnel) = tunnels.iter().copied().find(|tunnel| child.is_free(*tunnel)) {
                        child.open(tunnel);
                        child.outbound.queue_message(&FromChild::Open { tunnel }).unwrap();
                    }
                }
                Step::Write(on_host, which, size) => {
                    pick(&mut host, &mut child, on_host).write(tunnels[which], size);
                }
                Step::End(on_host, which) => {
                    pick(&mut host, &mut child, on_host).outbound.tunnels_mut().end_stream(tunnels[which]);
                }
                Step::Close(on_host, which) => {
                    pick(&mut host, &mut child, on_host).outbound.tunnels_mut().close(tunnels[which]);
                }
                Step::Reset(on_host, which) => {
                    pick(&mut host, &mut child, on_host).outbound.tunnels_mut().reset(tunnels[which]);
                }
                Step::Consume(on_host, which, size) => {
                    pick(&mut host, &mut child, on_host).consume(tunnels[which], size);
                }
                Step::Transmit(limit) => {
                    child.transmit(&mut up, limit);
                    host.transmit(&mut down, limit);
                }
                Step::Receive(limit) => {
                    host.receive(&mut up, limit);
                    child.receive(&mut down, limit);
                }
            }
        }
        for tunnel in &tunnels {
            child.outbound.tunnels_mut().close(*tunnel);
        }
        for _ in 0..10_000 {
            for peer in [&mut host, &mut child] {
                for tunnel in &tunnels {
                    peer.consume(*tunnel, usize::MAX);
                }
            }
            child.transmit(&mut up, usize::MAX);
            host.transmit(&mut down, usize::MAX);
            host.receive(&mut up, usize::MAX);
            child.receive(&mut down, usize::MAX);
            if !child.outbound.has_pending() && !host.outbound.has_pending() && up.is_empty() && down.is_empty() {
                break;
            }
        }
        for tunnel in &tunnels {
            prop_assert!(child.is_free(*tunnel) && host.is_free(*tunnel), "{tunnel} is free again");
        }
        let lives = |peer: &Peer| peer.known.values().map(|known| known.life).collect::<Vec<_>>();
        prop_assert_eq!(lives(&child), lives(&host));
        prop_assert!(child.outbound.is_flushed() && host.outbound.is_flushed());
    }
}

fn pick<'a>(host: &'a mut Peer, child: &'a mut Peer, on_host: bool) -> &'a mut Peer {
    if on_host { host } else { child }
}

#[test]
fn a_tunnel_that_both_sides_close_with_more_queued_than_was_granted_is_free_again() {
    let tunnel = TunnelId::all().next().unwrap();
    let mut child = Peer::new(PipeSide::Child);
    let mut host = Peer::new(PipeSide::Host);
    let (mut up, mut down) = (VecDeque::new(), VecDeque::new());
    child.open(tunnel);
    child.outbound.queue_message(&FromChild::Open { tunnel }).unwrap();
    child.transmit(&mut up, usize::MAX);
    host.receive(&mut up, usize::MAX);
    for peer in [&mut host, &mut child] {
        // The queue holds a window; what is sent of it makes room for more than the peer has granted.
        peer.write(tunnel, 300_000);
    }
    child.transmit(&mut up, 1000);
    host.transmit(&mut down, 1000);
    for peer in [&mut host, &mut child] {
        peer.write(tunnel, 300_000);
        peer.outbound.tunnels_mut().end_stream(tunnel);
        peer.outbound.tunnels_mut().close(tunnel);
    }
    for _ in 0..100 {
        for peer in [&mut host, &mut child] {
            peer.consume(tunnel, usize::MAX);
        }
        child.transmit(&mut up, usize::MAX);
        host.transmit(&mut down, usize::MAX);
        host.receive(&mut up, usize::MAX);
        child.receive(&mut down, usize::MAX);
    }
    assert!(child.is_free(tunnel) && host.is_free(tunnel));
}

#[test]
fn everything_ended_arrives_whole() {
    let tunnel = TunnelId::all().next().unwrap();
    let mut child = Peer::new(PipeSide::Child);
    let mut host = Peer::new(PipeSide::Host);
    let (mut up, mut down) = (VecDeque::new(), VecDeque::new());
    child.open(tunnel);
    child.outbound.queue_message(&FromChild::Open { tunnel }).unwrap();
    let mut left: usize = 3 << 20;
    for _ in 0..1_000 {
        let now = left.min(child.outbound.tunnels().available_capacity(tunnel));
        child.write(tunnel, now);
        left -= now;
        if left == 0 {
            child.outbound.tunnels_mut().end_stream(tunnel);
            child.outbound.tunnels_mut().close(tunnel);
        }
        child.transmit(&mut up, usize::MAX);
        host.receive(&mut up, usize::MAX);
        host.consume(tunnel, usize::MAX);
        host.transmit(&mut down, usize::MAX);
        child.receive(&mut down, usize::MAX);
    }
    let known = &host.known[&tunnel];
    assert_eq!((host.bytes, known.ended, known.closed), (3 << 20, true, true));
    assert!(child.is_free(tunnel) && host.is_free(tunnel));
}
