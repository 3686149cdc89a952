use super::{BodyReceiver, BodySender};
use crate::bounded::BoundedBytes;
use crate::call::{CallBody, CallRequest, CallTarget, MAX_BODY_BYTES, MAX_INLINE_BODY};
use crate::codec::{InvalidMessage, decode};
use crate::inbound::{Inbound, InboundItem};
use crate::outbound::Outbound;
use crate::outcome::FromChild;
use crate::state::ProtocolViolation;
use crate::stream::{PipeSide, PipeStream};

/// The bodies that result from these pieces, each with its name.
fn collect(announced: &[(char, u32)], pieces: &[&[u8]]) -> Result<Vec<(char, String)>, ProtocolViolation> {
    let mut bodies = BodyReceiver::new();
    for (what, bytes) in announced {
        bodies.announce(*what, *bytes);
    }
    let mut done = Vec::new();
    for piece in pieces {
        bodies.receive(piece, |what, body| done.push((what, String::from_utf8(body).unwrap())))?;
    }
    Ok(done)
}

#[test]
fn bodies_come_in_the_order_they_were_announced_however_they_are_cut() {
    let whole = vec![('a', "xy".to_owned()), ('b', "z".to_owned())];
    for pieces in [
        &[b"xyz".as_slice()] as &[&[u8]],
        &[b"x", b"y", b"z"],
        &[b"x", b"yz"],
        &[b"", b"xy", b"z"],
    ] {
        assert_eq!(collect(&[('a', 2), ('b', 1)], pieces), Ok(whole.clone()));
    }
    assert_eq!(collect(&[('a', 2)], &[b"x"]), Ok(Vec::new()));
}

#[test]
fn bytes_that_nobody_announced_are_an_error() {
    assert_eq!(collect(&[], &[b"x"]), Err(ProtocolViolation::Body { bytes: 1 }));
    assert_eq!(
        collect(&[('a', 1)], &[b"xyz"]),
        Err(ProtocolViolation::Body { bytes: 2 })
    );
}

fn call(number: u32, text: String) -> (FromChild, Vec<u8>) {
    let (body, rest) = CallBody::from_text(text).unwrap();
    let ask = CallTarget::Search;
    let trace = BoundedBytes::default();
    let call = CallRequest {
        number,
        ask,
        body,
        trace,
    };
    (FromChild::Call(call), rest)
}

#[test]
fn a_body_is_in_its_message_as_long_as_it_fits() {
    let long = "x".repeat(MAX_INLINE_BODY + 1);
    assert!(
        matches!(CallBody::from_text("x".repeat(MAX_INLINE_BODY)), Ok((CallBody::Inline(_), rest)) if rest.is_empty())
    );
    assert_eq!(
        CallBody::from_text(long.clone()),
        Ok((CallBody::Streamed { bytes: 32 * 1024 + 1 }, long.into_bytes()))
    );
    let bytes = MAX_BODY_BYTES + 1;
    assert_eq!(
        CallBody::from_text("x".repeat(bytes)),
        Err(InvalidMessage::Body { bytes })
    );
    for bytes in [0, 1, 32 * 1024, 16 * 1024 * 1024 + 1, u32::MAX] {
        assert_eq!(
            CallBody::Streamed { bytes }.check(),
            Err(InvalidMessage::Body { bytes: bytes as usize })
        );
    }
}

/// Everything that is queued arrives, whatever the sizes, through both halves of a pipe and with credit as it is granted.
#[test]
fn letters_of_every_size_arrive() {
    let sizes = [2, MAX_INLINE_BODY, MAX_INLINE_BODY + 1, 1 << 20, 5, 300_000, 3 << 20, 1];
    let mut letters = BodySender::new(PipeStream::CallBodies);
    for (number, size) in (1..).zip(sizes) {
        let (message, rest) = call(number, "y".repeat(size));
        letters.push(message, rest);
    }
    let (mut child, mut host) = (Outbound::execution(PipeSide::Child), Inbound::execution(PipeSide::Host));
    let mut bodies = BodyReceiver::new();
    let mut arrived = Vec::new();
    while arrived.len() < sizes.len() {
        letters.send_some(&mut child).unwrap();
        let chunk = child.chunk().to_vec();
        child.advance(chunk.len());
        let mut rest = chunk.as_slice();
        assert!(!rest.is_empty(), "stuck after {arrived:?}");
        while !rest.is_empty() {
            rest = &rest[host.push(rest)..];
            loop {
                let gone = match host.next().unwrap() {
                    None => break,
                    Some(InboundItem::Control(payload)) => {
                        let FromChild::Call(call) = decode(payload).unwrap() else {
                            panic!("not a call")
                        };
                        match call.body {
                            CallBody::Inline(text) => arrived.push((call.number, text.len())),
                            CallBody::Streamed { bytes } => bodies.announce(call.number, bytes),
                        }
                        continue;
                    }
                    Some(InboundItem::Data { bytes, .. }) => {
                        bodies
                            .receive(bytes, |number, body| arrived.push((number, body.len())))
                            .unwrap();
                        bytes.len()
                    }
                    Some(InboundItem::End { .. } | InboundItem::Credit(_) | InboundItem::Tunnel { .. }) => {
                        panic!("nobody said this")
                    }
                };
                if let Some(credit) = host.mark_consumed(PipeStream::CallBodies, gone) {
                    child.add_credit(credit).unwrap();
                }
            }
        }
    }
    arrived.sort_unstable();
    assert_eq!(arrived, (1..).zip(sizes).collect::<Vec<_>>());
    assert!(letters.is_empty() && letters.queued_bytes() == 0 && bodies.buffered_bytes() == 0);
}
