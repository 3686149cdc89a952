use super::*;
use crate::codec::{MessageError, decode, encode_frame};
use crate::error::ProtocolError;
use crate::frame::{FrameHeader, FrameKind, HEADER_BYTES, MAX_PAYLOAD};
use crate::inbound::{Inbound, InboundItem};
use crate::outbound::Outbound;
use crate::outcome::FromChild;
use crate::stream::{PipeSide, PipeStream, STREAM_WINDOW};

fn tunnel(id: u16) -> TunnelId {
    TunnelId::from_id(id).unwrap()
}

fn frame(kind: FrameKind, id: u16, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap();
    let mut bytes = FrameHeader::new(kind, id, length).unwrap().to_bytes().to_vec();
    bytes.extend_from_slice(payload);
    bytes
}

/// Feeds these frames to a host with tunnel 64 open, and returns the error of the last.
#[track_caller]
fn check(frames: &[Vec<u8>], wrong: TunnelError) {
    let mut host = Inbound::execution(PipeSide::Host);
    host.open_tunnel(tunnel(64)).unwrap();
    let (last, before) = frames.split_last().unwrap();
    for frame in before {
        assert_eq!(host.push(frame), frame.len());
        assert!(host.next().unwrap().is_some());
    }
    // The header alone is enough to refuse the frame.
    host.push(&last[..HEADER_BYTES]);
    let early = host.next().map(|item| item.is_some());
    host.push(&last[HEADER_BYTES..]);
    let error = ProtocolError::Tunnel(wrong);
    assert_eq!(host.next(), Err(error), "{early:?}");
    assert_eq!(host.next(), Err(error), "an error stays");
    assert_eq!(host.finish(), Err(error));
}

#[test]
fn a_hostile_peer_is_found_out() {
    let (open, other) = (tunnel(64), tunnel(65));
    let data = |id, length| frame(FrameKind::Data, id, &vec![0; length]);
    let plain = |kind, id| frame(kind, id, b"");
    check(&[data(65, 1)], TunnelError::NotOpen { tunnel: other });
    check(&[plain(FrameKind::End, 65)], TunnelError::NotOpen { tunnel: other });
    check(&[plain(FrameKind::Close, 65)], TunnelError::NotOpen { tunnel: other });
    check(
        &[frame(FrameKind::Credit, 65, &[1, 0, 0, 0])],
        TunnelError::NotOpen { tunnel: other },
    );
    let after = TunnelError::AfterEnd { tunnel: open };
    check(&[plain(FrameKind::End, 64), data(64, 1)], after);
    check(&[plain(FrameKind::End, 64), plain(FrameKind::End, 64)], after);
    let closed = TunnelError::NotOpen { tunnel: open };
    check(&[plain(FrameKind::Close, 64), data(64, 1)], closed);
    check(&[plain(FrameKind::Close, 64), plain(FrameKind::Close, 64)], closed);
    check(
        &[
            plain(FrameKind::End, 64),
            plain(FrameKind::Close, 64),
            plain(FrameKind::End, 64),
        ],
        closed,
    );
    check(
        &[plain(FrameKind::Close, 64), frame(FrameKind::Credit, 64, &[1, 0, 0, 0])],
        closed,
    );
    check(
        &[frame(FrameKind::Credit, 64, &[0; 4])],
        TunnelError::BadGrant { tunnel: open, grant: 0 },
    );
    let window = vec![data(64, MAX_PAYLOAD); STREAM_WINDOW as usize / MAX_PAYLOAD];
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
    assert_eq!(TunnelId::all().count(), MAX_TUNNELS);
    assert_eq!(TunnelId::all().last().map(TunnelId::index), Some(MAX_TUNNELS - 1));
    for id in [63, 320] {
        let mut host = Inbound::execution(PipeSide::Host);
        host.push(&frame(FrameKind::Data, id, b"x"));
        assert_eq!(host.next(), Err(ProtocolError::UnknownStream { stream: id }));
        let message = FromChild::Open { tunnel: TunnelId(id) };
        let unfit = MessageError::Unfit(InvalidMessage::Tunnel { number: id });
        assert_eq!(encode_frame(&message, &mut Vec::new()), Err(unfit));
    }
    // The encoding of 63.
    assert_eq!(
        decode::<FromChild>(&[4, 63]),
        Err(MessageError::Unfit(InvalidMessage::Tunnel { number: 63 }))
    );
    let mut host = Inbound::execution(PipeSide::Host);
    host.push(&frame(FrameKind::Close, PipeStream::Stdout.id(), b""));
    let stream = PipeStream::Stdout;
    assert_eq!(host.next(), Err(ProtocolError::WrongWay { stream }));
}

#[test]
fn a_number_is_free_when_both_sides_have_closed_it() {
    let one = tunnel(64);
    let in_use = Err(ProtocolError::Tunnel(TunnelError::InUse { tunnel: one }));
    let mut inbound = Inbound::execution(PipeSide::Host);
    let mut outbound = Outbound::execution(PipeSide::Host);
    inbound.open_tunnel(one).unwrap();
    outbound.open_tunnel(one).unwrap();
    assert_eq!(outbound.open_tunnel(one), in_use);
    inbound.push(&frame(FrameKind::Close, 64, b""));
    assert!(inbound.next().unwrap().is_some());
    inbound.open_tunnel(one).unwrap();
    outbound.tunnels_mut().reset(one);
    assert_eq!(outbound.open_tunnel(one), in_use, "its close has not left yet");
    assert_eq!(drain(&mut outbound), frame(FrameKind::Close, 64, b""));
    assert_eq!(outbound.open_tunnel(one), Ok(()));
    assert_eq!(inbound.open_tunnel(one), in_use);
    assert!(inbound.next().is_err(), "an error stays");
}

fn drain(outbound: &mut Outbound) -> Vec<u8> {
    let mut bytes = Vec::new();
    while outbound.has_pending() {
        let chunk = outbound.chunk();
        assert!(!chunk.is_empty(), "pending means something to write");
        bytes.extend_from_slice(chunk);
        let count = chunk.len();
        outbound.advance(count);
    }
    assert_eq!(outbound.chunk(), b"");
    bytes
}

/// The bytes of an ended direction are still sent, and grants with them; those of an open one are dropped.
#[test]
fn a_close_waits_for_what_was_ended_only() {
    for ended in [true, false] {
        let one = tunnel(70);
        let mut outbound = Outbound::execution(PipeSide::Host);
        outbound.open_tunnel(one).unwrap();
        outbound.tunnels_mut().queue_data(one, b"last words");
        if ended {
            outbound.tunnels_mut().end_stream(one);
        }
        outbound.tunnels_mut().close(one);
        assert_eq!(outbound.tunnels_mut().queue_data(one, b"more"), 0);
        outbound.tunnels_mut().queue_grant(one, 5);
        let mut wanted = Vec::new();
        if ended {
            // The peer may need the grant for what it has queued, before it closes too.
            wanted.extend(frame(FrameKind::Credit, 70, &5_u32.to_le_bytes()));
            wanted.extend(frame(FrameKind::Data, 70, b"last words"));
            wanted.extend(frame(FrameKind::End, 70, b""));
        }
        wanted.extend(frame(FrameKind::Close, 70, b""));
        assert_eq!(drain(&mut outbound), wanted);
        assert!(outbound.is_flushed());
        // A grant that crossed the close has no effect, and cannot exceed what was sent.
        let sent = if ended { 10 } else { 0 };
        let too_much = |grant| Err(TunnelError::BadGrant { tunnel: one, grant });
        assert_eq!(outbound.tunnels_mut().add_credit(one, sent + 1), too_much(sent + 1));
        for _ in 0..sent {
            assert_eq!(outbound.tunnels_mut().add_credit(one, 1), Ok(()));
        }
        assert_eq!(outbound.tunnels_mut().add_credit(one, 1), too_much(1));
    }
}

#[test]
fn grants_for_a_tunnel_that_was_closed_come_to_an_end() {
    let one = tunnel(64);
    let mut outbound = Outbound::execution(PipeSide::Host);
    outbound.open_tunnel(one).unwrap();
    outbound.tunnels_mut().queue_data(one, b"never read");
    drain(&mut outbound);
    outbound.tunnels_mut().reset(one);
    assert_eq!(
        outbound.tunnels_mut().add_credit(one, 4),
        Ok(()),
        "under way when it was closed"
    );
    outbound.tunnels_mut().reset(one);
    drain(&mut outbound);
    assert_eq!(outbound.tunnels_mut().add_credit(one, 6), Ok(()));
    let endless = TunnelError::BadGrant { tunnel: one, grant: 1 };
    assert_eq!(outbound.tunnels_mut().add_credit(one, 1), Err(endless));
    // The next tunnel with that number starts fresh.
    outbound.open_tunnel(one).unwrap();
    assert_eq!(outbound.tunnels_mut().add_credit(one, 1), Err(endless));
    outbound.tunnels_mut().queue_data(one, b"x");
    drain(&mut outbound);
    assert_eq!(outbound.tunnels_mut().add_credit(one, 1), Ok(()));
}

#[test]
fn a_reset_drops_what_waits_and_not_what_flies() {
    let one = tunnel(64);
    let mut outbound = Outbound::execution(PipeSide::Child);
    outbound.open_tunnel(one).unwrap();
    let bytes = vec![b'x'; STREAM_WINDOW as usize];
    assert_eq!(outbound.tunnels_mut().queue_data(one, &bytes), bytes.len());
    let first = outbound.chunk().to_vec();
    assert_eq!(first.len(), HEADER_BYTES + MAX_PAYLOAD);
    outbound.advance(100);
    outbound.tunnels_mut().reset(one);
    let mut rest = first[100..].to_vec();
    rest.extend(frame(FrameKind::Close, 64, b""));
    assert_eq!(drain(&mut outbound), rest);
    assert!(outbound.is_flushed());
}

#[test]
fn tunnels_take_turns_with_each_other_and_with_streams() {
    let mut outbound = Outbound::execution(PipeSide::Child);
    let bytes = vec![b'x'; 2 * MAX_PAYLOAD];
    for id in 64..67 {
        outbound.open_tunnel(tunnel(id)).unwrap();
        outbound.tunnels_mut().queue_data(tunnel(id), &bytes);
    }
    outbound.queue_data(PipeStream::Stdout, &bytes).unwrap();
    let mut order = Vec::new();
    while outbound.has_pending() {
        let chunk = outbound.chunk();
        order.push(u16::from_le_bytes([chunk[4], chunk[5]]));
        let count = chunk.len();
        outbound.advance(count);
        if order.len() == 2 {
            outbound.queue_message(&FromChild::Started).unwrap();
        }
    }
    assert_eq!(order, [3, 64, 0, 3, 65, 66, 64, 65, 66]);
}

/// A tunnel whose peer grants nothing holds one window here, and does not hold up the others.
#[test]
fn a_stuck_tunnel_stops_no_other() {
    let mut outbound = Outbound::execution(PipeSide::Child);
    let bytes = vec![b'x'; 4 * STREAM_WINDOW as usize];
    for id in [64, 65] {
        outbound.open_tunnel(tunnel(id)).unwrap();
    }
    assert_eq!(
        outbound.tunnels_mut().queue_data(tunnel(64), &bytes),
        STREAM_WINDOW as usize
    );
    drain(&mut outbound);
    assert_eq!(
        outbound.tunnels_mut().queue_data(tunnel(64), &bytes),
        STREAM_WINDOW as usize
    );
    assert_eq!(outbound.tunnels_mut().queue_data(tunnel(64), &bytes), 0);
    assert_eq!(drain(&mut outbound), b"", "no credit is left");
    assert!(!outbound.is_flushed());
    outbound.tunnels_mut().queue_data(tunnel(65), b"through");
    assert_eq!(drain(&mut outbound), frame(FrameKind::Data, 65, b"through"));
    let twice = TunnelError::BadGrant {
        tunnel: tunnel(64),
        grant: STREAM_WINDOW + 1,
    };
    assert_eq!(
        outbound.tunnels_mut().add_credit(tunnel(64), STREAM_WINDOW + 1),
        Err(twice)
    );
    outbound.tunnels_mut().add_credit(tunnel(64), 5).unwrap();
    assert_eq!(drain(&mut outbound), frame(FrameKind::Data, 64, b"xxxxx"));
}

#[test]
fn grants_come_back_by_half_windows() {
    let one = tunnel(64);
    let half = STREAM_WINDOW / 2;
    let mut inbound = Inbound::execution(PipeSide::Host);
    inbound.open_tunnel(one).unwrap();
    for _ in 0..STREAM_WINDOW as usize / MAX_PAYLOAD {
        inbound.push(&frame(FrameKind::Data, 64, &vec![0; MAX_PAYLOAD]));
        assert!(matches!(inbound.next(), Ok(Some(InboundItem::Tunnel { .. }))));
    }
    let arriving = inbound.tunnels_mut();
    assert_eq!(arriving.mark_consumed(one, half as usize - 1), None);
    assert_eq!(arriving.mark_consumed(one, 1), Some(half));
    assert_eq!(arriving.mark_consumed(tunnel(65), 1), None, "nobody knows it");
}
