//! Entry points for fuzzing: they accept any bytes, and a panic is a finding.

use crate::codec::{Message, decode, encode_frame};
use crate::frame::{HEADER, MAX_PAYLOAD};
use crate::inbound::{Inbound, Item};
use crate::job::ToChild;
use crate::order::{Order, Report};
use crate::outbound::Outbound;
use crate::outcome::FromChild;
use crate::stream::{Side, Stream, WINDOW};
use crate::tunnel::{Carried, Leaving, TunnelId};

/// Feeds the receiving half of a pipe. The first byte selects the side, the second the size of the pieces.
///
/// # Panics
/// Panics when the half breaks one of its guarantees.
pub fn fuzz_inbound(bytes: &[u8]) {
    let [side, cut, input @ ..] = bytes else {
        return;
    };
    let (mut inbound, mut outbound) = match side % 3 {
        0 => (Inbound::execution(Side::Host), Outbound::execution(Side::Host)),
        1 => (Inbound::execution(Side::Child), Outbound::execution(Side::Child)),
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
            assert!(inbound.held() < HEADER + MAX_PAYLOAD, "held too much");
        }
    }
    let between_frames = inbound.held() == 0;
    assert_eq!(inbound.finish().is_ok(), between_frames, "a clean end");
}

/// Takes every item that is there; false once the peer has done wrong.
fn drain(inbound: &mut Inbound, outbound: &mut Outbound) -> bool {
    loop {
        let mut gone: Option<(Stream, usize)> = None;
        let mut opened: Option<TunnelId> = None;
        let mut through: Option<(TunnelId, usize)> = None;
        match inbound.next() {
            Err(_) => return false,
            Ok(None) => return true,
            Ok(Some(Item::Control(payload))) => {
                fuzz_messages(payload);
                if let Ok(FromChild::Open { tunnel }) = decode(payload) {
                    opened = Some(tunnel);
                }
            }
            Ok(Some(Item::Tunnel { tunnel, carried })) => {
                if let Carried::Data(bytes) = carried {
                    through = Some((tunnel, bytes.len()));
                }
                echo(outbound.tunnels_mut(), tunnel, carried);
            }
            Ok(Some(Item::Data { stream, bytes })) => gone = Some((stream, bytes.len())),
            Ok(Some(Item::End { stream })) => assert!(inbound.ended(stream), "an end is kept"),
            Ok(Some(Item::Credit(credit))) => {
                let refused = outbound.credit(credit).is_err();
                assert!(refused || credit.grant <= WINDOW, "too large a grant");
            }
        }
        if let Some((stream, bytes)) = gone
            && let Some(credit) = inbound.consumed(stream, bytes)
        {
            outbound.grant(credit);
        }
        if let Some(tunnel) = opened {
            if inbound.open(tunnel).is_err() {
                return false;
            }
            assert!(outbound.open(tunnel).is_ok(), "both halves are closed together here");
        }
        if let Some((tunnel, bytes)) = through
            && let Some(grant) = inbound.tunnels_mut().consumed(tunnel, bytes)
        {
            outbound.tunnels_mut().grant(tunnel, grant);
        }
        while outbound.pending() {
            let written = outbound.chunk().len();
            assert!(written > 0, "pending means something to write");
            outbound.advance(written);
        }
    }
}

/// Sends the bytes of a tunnel back, and closes the tunnel when it ends.
fn echo(leaving: &mut Leaving, tunnel: TunnelId, carried: Carried<'_>) {
    match carried {
        Carried::Data(bytes) => {
            leaving.data(tunnel, bytes);
        }
        Carried::End => {
            leaving.end(tunnel);
            leaving.close(tunnel);
        }
        Carried::Credit(grant) => {
            let refused = leaving.credit(tunnel, grant).is_err();
            assert!(
                refused || grant <= WINDOW || !leaving.is_open(tunnel),
                "too large a grant"
            );
        }
        Carried::Close => leaving.reset(tunnel),
    }
}

/// Decodes the bytes as every type of message; a decoded message must encode to the same bytes.
///
/// # Panics
/// Panics when it does not.
pub fn fuzz_messages(bytes: &[u8]) {
    check::<Order>(bytes);
    check::<Report>(bytes);
    check::<ToChild>(bytes);
    check::<FromChild>(bytes);
}

fn check<M: Message>(bytes: &[u8]) {
    let Ok(message) = decode::<M>(bytes) else {
        return;
    };
    let mut frame = Vec::new();
    let encoded = encode_frame(&message, &mut frame);
    assert_eq!(encoded, Ok(()), "what was decoded can be encoded");
    assert_eq!(frame.get(HEADER..), Some(bytes), "there is one encoding");
}

#[cfg(test)]
mod tests;
