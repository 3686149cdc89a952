//! Entry points for fuzzing: they accept any bytes, and a panic is a finding.

use crate::codec::{ControlMessage, decode, encode_frame};
use crate::frame::{HEADER_BYTES, MAX_PAYLOAD};
use crate::inbound::{Inbound, InboundItem};
use crate::job::ToChild;
use crate::outbound::Outbound;
use crate::outcome::FromChild;
use crate::relay::{self, RELAY_WINDOW, Relay};
use crate::stream::{PipeSide, PipeStream, STREAM_WINDOW};
use crate::tunnel::{TunnelEvent, TunnelId, TunnelSenders};
use crate::worker_command::{WorkerCommand, WorkerReport};

/// Feeds the receiving half of a pipe. The first byte selects the side, the second the size of the pieces.
///
/// # Panics
/// Panics when the half breaks one of its guarantees.
pub fn fuzz_inbound(bytes: &[u8]) {
    let [side, cut, input @ ..] = bytes else {
        return;
    };
    let (mut inbound, mut outbound) = match side % 3 {
        0 => (Inbound::execution(PipeSide::Host), Outbound::execution(PipeSide::Host)),
        1 => (
            Inbound::execution(PipeSide::Child),
            Outbound::execution(PipeSide::Child),
        ),
        _ => (Inbound::control_only(), Outbound::control_only()),
    };
    for piece in input.chunks(usize::from(*cut) + 1) {
        let mut rest = piece;
        while !rest.is_empty() {
            let taken = inbound.push(rest);
            rest = &rest[taken..];
            if !drain(&mut inbound, &mut outbound) {
                let again = inbound.next().is_err() && inbound.finish().is_err();
                assert!(again, "an error must stay");
                return;
            }
            assert!(inbound.buffered_bytes() < HEADER_BYTES + MAX_PAYLOAD, "held too much");
        }
    }
    let between_frames = inbound.buffered_bytes() == 0;
    assert_eq!(inbound.finish().is_ok(), between_frames, "a clean end");
}

/// Feeds one end of a relayed stream. The first byte is the size of the pieces, and whether its pipe is read.
///
/// # Panics
/// Panics when the end breaks one of its guarantees.
pub fn fuzz_relay(bytes: &[u8]) {
    let [cut, input @ ..] = bytes else {
        return;
    };
    let mut end = Relay::new();
    assert_eq!(end.open_pipe(1), Ok(()), "the first pipe");
    for piece in input.chunks(usize::from(*cut) + 1) {
        end.push(piece);
        loop {
            match end.next_packet() {
                Ok(Some(packet)) => fuzz_messages(&packet),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(end.next_packet(), Err(error), "an error must stay");
                    return;
                }
            }
        }
        let most = RELAY_WINDOW + relay::HEADER_BYTES + MAX_PAYLOAD;
        assert!(end.held_bytes() < most, "held too much");
        if cut % 2 == 0 {
            end.mark_written(end.pipe_bytes().len());
        }
        while end.has_pending() {
            end.advance(end.chunk().len());
        }
    }
}

/// Takes every item that is there; false once the peer has done wrong.
fn drain(inbound: &mut Inbound, outbound: &mut Outbound) -> bool {
    loop {
        let mut gone: Option<(PipeStream, usize)> = None;
        let mut opened: Option<TunnelId> = None;
        let mut through: Option<(TunnelId, usize)> = None;
        match inbound.next() {
            Err(_) => return false,
            Ok(None) => return true,
            Ok(Some(InboundItem::Control(payload))) => {
                fuzz_messages(payload);
                if let Ok(FromChild::Open { tunnel }) = decode(payload) {
                    opened = Some(tunnel);
                }
            }
            Ok(Some(InboundItem::Tunnel { tunnel, carried })) => {
                if let TunnelEvent::Data(bytes) = carried {
                    through = Some((tunnel, bytes.len()));
                }
                echo(outbound.tunnels_mut(), tunnel, carried);
            }
            Ok(Some(InboundItem::Data { stream, bytes })) => gone = Some((stream, bytes.len())),
            Ok(Some(InboundItem::End { stream })) => assert!(inbound.has_ended(stream), "an end is kept"),
            Ok(Some(InboundItem::Credit(credit))) => {
                let refused = outbound.add_credit(credit).is_err();
                assert!(refused || credit.grant <= STREAM_WINDOW, "too large a grant");
            }
        }
        if let Some((stream, bytes)) = gone
            && let Some(credit) = inbound.mark_consumed(stream, bytes)
        {
            outbound.queue_grant(credit);
        }
        if let Some(tunnel) = opened {
            if inbound.open_tunnel(tunnel).is_err() {
                return false;
            }
            assert!(
                outbound.open_tunnel(tunnel).is_ok(),
                "both halves are closed together here"
            );
        }
        if let Some((tunnel, bytes)) = through
            && let Some(grant) = inbound.tunnels_mut().mark_consumed(tunnel, bytes)
        {
            outbound.tunnels_mut().queue_grant(tunnel, grant);
        }
        while outbound.has_pending() {
            let written = outbound.chunk().len();
            assert!(written > 0, "pending means something to write");
            outbound.advance(written);
        }
    }
}

/// Sends the bytes of a tunnel back, and closes the tunnel when it ends.
fn echo(leaving: &mut TunnelSenders, tunnel: TunnelId, carried: TunnelEvent<'_>) {
    match carried {
        TunnelEvent::Data(bytes) => {
            leaving.queue_data(tunnel, bytes);
        }
        TunnelEvent::End => {
            leaving.end_stream(tunnel);
            leaving.close(tunnel);
        }
        TunnelEvent::Credit(grant) => {
            let refused = leaving.add_credit(tunnel, grant).is_err();
            assert!(
                refused || grant <= STREAM_WINDOW || !leaving.is_open(tunnel),
                "too large a grant"
            );
        }
        TunnelEvent::Close => leaving.reset(tunnel),
    }
}

/// Decodes the bytes as every type of message; a decoded message must encode to the same bytes.
///
/// # Panics
/// Panics when it does not.
pub fn fuzz_messages(bytes: &[u8]) {
    check::<WorkerCommand>(bytes);
    check::<WorkerReport>(bytes);
    check::<ToChild>(bytes);
    check::<FromChild>(bytes);
}

fn check<M: ControlMessage>(bytes: &[u8]) {
    let Ok(message) = decode::<M>(bytes) else {
        return;
    };
    let mut frame = Vec::new();
    let encoded = encode_frame(&message, &mut frame);
    assert_eq!(encoded, Ok(()), "what was decoded can be encoded");
    assert_eq!(frame.get(HEADER_BYTES..), Some(bytes), "there is one encoding");
}

#[cfg(test)]
mod tests;
