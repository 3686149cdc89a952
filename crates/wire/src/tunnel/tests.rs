use super::*;
use crate::codec::{MessageError, decode, encode_frame};
use crate::error::ProtocolError;
use crate::frame::{HEADER, Header, Kind, MAX_PAYLOAD};
use crate::inbound::{Inbound, Item};
use crate::outbound::Outbound;
use crate::outcome::FromChild;
use crate::stream::{Side, Stream, WINDOW};

fn tunnel(id: u16) -> TunnelId {
    TunnelId::from_id(id).unwrap()
}

fn frame(kind: Kind, id: u16, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap();
    let mut bytes = Header::new(kind, id, length).unwrap().write().to_vec();
    bytes.extend_from_slice(payload);
    bytes
}

/// Feeds these frames to a host with tunnel 64 open, and returns the error of the last.
#[track_caller]
fn check(frames: &[Vec<u8>], wrong: TunnelError) {
    let mut host = Inbound::execution(Side::Host);
    host.open(tunnel(64)).unwrap();
    let (last, before) = frames.split_last().unwrap();
    for frame in before {
        assert_eq!(host.push(frame), frame.len());
        assert!(host.next().unwrap().is_some());
    }
    // The header alone is enough to refuse the frame.
    host.push(&last[..HEADER]);
    let early = host.next().map(|item| item.is_some());
    host.push(&last[HEADER..]);
    let error = ProtocolError::Tunnel(wrong);
    assert_eq!(host.next(), Err(error), "{early:?}");
    assert_eq!(host.next(), Err(error), "an error stays");
    assert_eq!(host.finish(), Err(error));
}

#[test]
fn a_hostile_peer_is_found_out() {
    let (open, other) = (tunnel(64), tunnel(65));
    let data = |id, length| frame(Kind::Data, id, &vec![0; length]);
    let plain = |kind, id| frame(kind, id, b"");
    check(&[data(65, 1)], TunnelError::NotOpen { tunnel: other });
    check(&[plain(Kind::End, 65)], TunnelError::NotOpen { tunnel: other });
    check(&[plain(Kind::Close, 65)], TunnelError::NotOpen { tunnel: other });
    check(
        &[frame(Kind::Credit, 65, &[1, 0, 0, 0])],
        TunnelError::NotOpen { tunnel: other },
    );
    let after = TunnelError::AfterEnd { tunnel: open };
    check(&[plain(Kind::End, 64), data(64, 1)], after);
    check(&[plain(Kind::End, 64), plain(Kind::End, 64)], after);
    let closed = TunnelError::NotOpen { tunnel: open };
    check(&[plain(Kind::Close, 64), data(64, 1)], closed);
    check(&[plain(Kind::Close, 64), plain(Kind::Close, 64)], closed);
    check(
        &[plain(Kind::End, 64), plain(Kind::Close, 64), plain(Kind::End, 64)],
        closed,
    );
    check(
        &[plain(Kind::Close, 64), frame(Kind::Credit, 64, &[1, 0, 0, 0])],
        closed,
    );
    check(
        &[frame(Kind::Credit, 64, &[0; 4])],
        TunnelError::BadGrant { tunnel: open, grant: 0 },
    );
    let window = vec![data(64, MAX_PAYLOAD); WINDOW as usize / MAX_PAYLOAD];
    let too_much: Vec<_> = window.into_iter().chain([data(64, 7)]).collect();
    check(
        &too_much,
        TunnelError::BeyondCredit {
            tunnel: open,
            excess: 7,
        },
    );
}

#[test]
fn other_numbers_are_no_tunnels() {
    for id in [0, 1, 7, 8, 63, 320, u16::MAX] {
        assert_eq!(TunnelId::from_id(id), None);
    }
    assert_eq!(TunnelId::all().count(), TUNNELS_MAX);
    assert_eq!(TunnelId::all().last().map(TunnelId::index), Some(TUNNELS_MAX - 1));
    for id in [63, 320] {
        let mut host = Inbound::execution(Side::Host);
        host.push(&frame(Kind::Data, id, b"x"));
        assert_eq!(host.next(), Err(ProtocolError::UnknownStream { stream: id }));
        let message = FromChild::Open { tunnel: TunnelId(id) };
        let unfit = MessageError::Unfit(Unfit::Tunnel { number: id });
        assert_eq!(encode_frame(&message, &mut Vec::new()), Err(unfit));
    }
    // The encoding of 63.
    assert_eq!(
        decode::<FromChild>(&[4, 63]),
        Err(MessageError::Unfit(Unfit::Tunnel { number: 63 }))
    );
    let mut host = Inbound::execution(Side::Host);
    host.push(&frame(Kind::Close, Stream::Stdout.id(), b""));
    let stream = Stream::Stdout;
    assert_eq!(host.next(), Err(ProtocolError::WrongWay { stream }));
}

#[test]
fn a_number_is_free_when_both_sides_have_closed_it() {
    let one = tunnel(64);
    let in_use = Err(ProtocolError::Tunnel(TunnelError::InUse { tunnel: one }));
    let mut inbound = Inbound::execution(Side::Host);
    let mut outbound = Outbound::execution(Side::Host);
    inbound.open(one).unwrap();
    outbound.open(one).unwrap();
    assert_eq!(outbound.open(one), in_use);
    inbound.push(&frame(Kind::Close, 64, b""));
    assert!(inbound.next().unwrap().is_some());
    inbound.open(one).unwrap();
    outbound.tunnels_mut().reset(one);
    assert_eq!(outbound.open(one), in_use, "its close has not left yet");
    assert_eq!(drain(&mut outbound), frame(Kind::Close, 64, b""));
    assert_eq!(outbound.open(one), Ok(()));
    assert_eq!(inbound.open(one), in_use);
    assert!(inbound.next().is_err(), "an error stays");
}

fn drain(outbound: &mut Outbound) -> Vec<u8> {
    let mut bytes = Vec::new();
    while outbound.pending() {
        let chunk = outbound.chunk();
        assert!(!chunk.is_empty(), "pending means something to write");
        bytes.extend_from_slice(chunk);
        let count = chunk.len();
        outbound.advance(count);
    }
    assert_eq!(outbound.chunk(), b"");
    bytes
}

/// The bytes of an ended direction are still sent; those of an open one are dropped.
#[test]
fn a_close_waits_for_what_was_ended_only() {
    for ended in [true, false] {
        let one = tunnel(70);
        let mut outbound = Outbound::execution(Side::Host);
        outbound.open(one).unwrap();
        outbound.tunnels_mut().data(one, b"last words");
        if ended {
            outbound.tunnels_mut().end(one);
        }
        outbound.tunnels_mut().close(one);
        assert_eq!(outbound.tunnels_mut().data(one, b"more"), 0);
        outbound.tunnels_mut().grant(one, 5);
        let mut wanted = Vec::new();
        if ended {
            wanted.extend(frame(Kind::Data, 70, b"last words"));
            wanted.extend(frame(Kind::End, 70, b""));
        }
        wanted.extend(frame(Kind::Close, 70, b""));
        assert_eq!(drain(&mut outbound), wanted);
        assert!(outbound.flushed());
        // A grant that crossed the close has no effect, and cannot exceed what was sent.
        let sent = if ended { 10 } else { 0 };
        let too_much = |grant| Err(TunnelError::BadGrant { tunnel: one, grant });
        assert_eq!(outbound.tunnels_mut().credit(one, sent + 1), too_much(sent + 1));
        for _ in 0..sent {
            assert_eq!(outbound.tunnels_mut().credit(one, 1), Ok(()));
        }
        assert_eq!(outbound.tunnels_mut().credit(one, 1), too_much(1));
    }
}

#[test]
fn grants_for_a_tunnel_that_was_closed_come_to_an_end() {
    let one = tunnel(64);
    let mut outbound = Outbound::execution(Side::Host);
    outbound.open(one).unwrap();
    outbound.tunnels_mut().data(one, b"never read");
    drain(&mut outbound);
    outbound.tunnels_mut().reset(one);
    assert_eq!(
        outbound.tunnels_mut().credit(one, 4),
        Ok(()),
        "under way when it was closed"
    );
    outbound.tunnels_mut().reset(one);
    drain(&mut outbound);
    assert_eq!(outbound.tunnels_mut().credit(one, 6), Ok(()));
    let endless = TunnelError::BadGrant { tunnel: one, grant: 1 };
    assert_eq!(outbound.tunnels_mut().credit(one, 1), Err(endless));
    // The next tunnel with that number starts fresh.
    outbound.open(one).unwrap();
    assert_eq!(outbound.tunnels_mut().credit(one, 1), Err(endless));
    outbound.tunnels_mut().data(one, b"x");
    drain(&mut outbound);
    assert_eq!(outbound.tunnels_mut().credit(one, 1), Ok(()));
}

#[test]
fn a_reset_drops_what_waits_and_not_what_flies() {
    let one = tunnel(64);
    let mut outbound = Outbound::execution(Side::Child);
    outbound.open(one).unwrap();
    let bytes = vec![b'x'; WINDOW as usize];
    assert_eq!(outbound.tunnels_mut().data(one, &bytes), bytes.len());
    let first = outbound.chunk().to_vec();
    assert_eq!(first.len(), HEADER + MAX_PAYLOAD);
    outbound.advance(100);
    outbound.tunnels_mut().reset(one);
    let mut rest = first[100..].to_vec();
    rest.extend(frame(Kind::Close, 64, b""));
    assert_eq!(drain(&mut outbound), rest);
    assert!(outbound.flushed());
}

#[test]
fn tunnels_take_turns_with_each_other_and_with_streams() {
    let mut outbound = Outbound::execution(Side::Child);
    let bytes = vec![b'x'; 2 * MAX_PAYLOAD];
    for id in 64..67 {
        outbound.open(tunnel(id)).unwrap();
        outbound.tunnels_mut().data(tunnel(id), &bytes);
    }
    outbound.data(Stream::Stdout, &bytes).unwrap();
    let mut order = Vec::new();
    while outbound.pending() {
        let chunk = outbound.chunk();
        order.push(u16::from_le_bytes([chunk[4], chunk[5]]));
        let count = chunk.len();
        outbound.advance(count);
        if order.len() == 2 {
            outbound.control(&FromChild::Started).unwrap();
        }
    }
    assert_eq!(order, [3, 64, 0, 3, 65, 66, 64, 65, 66]);
}

/// A tunnel whose peer grants nothing holds one window here, and does not hold up the others.
#[test]
fn a_stuck_tunnel_stops_no_other() {
    let mut outbound = Outbound::execution(Side::Child);
    let bytes = vec![b'x'; 4 * WINDOW as usize];
    for id in [64, 65] {
        outbound.open(tunnel(id)).unwrap();
    }
    assert_eq!(outbound.tunnels_mut().data(tunnel(64), &bytes), WINDOW as usize);
    drain(&mut outbound);
    assert_eq!(outbound.tunnels_mut().data(tunnel(64), &bytes), WINDOW as usize);
    assert_eq!(outbound.tunnels_mut().data(tunnel(64), &bytes), 0);
    assert_eq!(drain(&mut outbound), b"", "no credit is left");
    assert!(!outbound.flushed());
    outbound.tunnels_mut().data(tunnel(65), b"through");
    assert_eq!(drain(&mut outbound), frame(Kind::Data, 65, b"through"));
    let twice = TunnelError::BadGrant {
        tunnel: tunnel(64),
        grant: WINDOW + 1,
    };
    assert_eq!(outbound.tunnels_mut().credit(tunnel(64), WINDOW + 1), Err(twice));
    outbound.tunnels_mut().credit(tunnel(64), 5).unwrap();
    assert_eq!(drain(&mut outbound), frame(Kind::Data, 64, b"xxxxx"));
}

#[test]
fn grants_come_back_by_half_windows() {
    let one = tunnel(64);
    let half = WINDOW / 2;
    let mut inbound = Inbound::execution(Side::Host);
    inbound.open(one).unwrap();
    for _ in 0..WINDOW as usize / MAX_PAYLOAD {
        inbound.push(&frame(Kind::Data, 64, &vec![0; MAX_PAYLOAD]));
        assert!(matches!(inbound.next(), Ok(Some(Item::Tunnel { .. }))));
    }
    let arriving = inbound.tunnels_mut();
    assert_eq!(arriving.consumed(one, half as usize - 1), None);
    assert_eq!(arriving.consumed(one, 1), Some(half));
    assert_eq!(arriving.consumed(tunnel(65), 1), None, "nobody knows it");
}
