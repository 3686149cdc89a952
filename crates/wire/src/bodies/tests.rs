use super::{Bodies, Letters};
use crate::bounded::Bytes;
use crate::call::{Ask, BODY_CAP, Body, Call, INLINE_MAX};
use crate::codec::{Unfit, decode};
use crate::inbound::{Inbound, Item};
use crate::outbound::Outbound;
use crate::outcome::FromChild;
use crate::stream::{Side, Stream};
use crate::turn::OutOfTurn;

/// The bodies that result from these pieces, each with its name.
fn collect(announced: &[(char, u32)], pieces: &[&[u8]]) -> Result<Vec<(char, String)>, OutOfTurn> {
    let mut bodies = Bodies::new();
    for (what, bytes) in announced {
        bodies.announce(*what, *bytes);
    }
    let mut done = Vec::new();
    for piece in pieces {
        bodies.take(piece, |what, body| done.push((what, String::from_utf8(body).unwrap())))?;
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
    assert_eq!(collect(&[], &[b"x"]), Err(OutOfTurn::Body { bytes: 1 }));
    assert_eq!(collect(&[('a', 1)], &[b"xyz"]), Err(OutOfTurn::Body { bytes: 2 }));
}

fn call(number: u32, text: String) -> (FromChild, Vec<u8>) {
    let (body, rest) = Body::of(text).unwrap();
    let ask = Ask::Search;
    let trace = Bytes::default();
    let call = Call {
        number,
        ask,
        body,
        trace,
    };
    (FromChild::Call(call), rest)
}

#[test]
fn a_body_is_in_its_message_as_long_as_it_fits() {
    let long = "x".repeat(INLINE_MAX + 1);
    assert!(matches!(Body::of("x".repeat(INLINE_MAX)), Ok((Body::Inline(_), rest)) if rest.is_empty()));
    assert_eq!(
        Body::of(long.clone()),
        Ok((Body::Streamed { bytes: 32 * 1024 + 1 }, long.into_bytes()))
    );
    let bytes = BODY_CAP + 1;
    assert_eq!(Body::of("x".repeat(bytes)), Err(Unfit::Body { bytes }));
    for bytes in [0, 1, 32 * 1024, 16 * 1024 * 1024 + 1, u32::MAX] {
        assert_eq!(
            Body::Streamed { bytes }.check(),
            Err(Unfit::Body { bytes: bytes as usize })
        );
    }
}

/// Everything that is queued arrives, whatever the sizes, through both halves of a pipe and with credit as it is granted.
#[test]
fn letters_of_every_size_arrive() {
    let sizes = [2, INLINE_MAX, INLINE_MAX + 1, 1 << 20, 5, 300_000, 3 << 20, 1];
    let mut letters = Letters::new(Stream::Asked);
    for (number, size) in (1..).zip(sizes) {
        let (message, rest) = call(number, "y".repeat(size));
        letters.push(message, rest);
    }
    let (mut child, mut host) = (Outbound::execution(Side::Child), Inbound::execution(Side::Host));
    let mut bodies = Bodies::new();
    let mut arrived = Vec::new();
    while arrived.len() < sizes.len() {
        letters.pump(&mut child).unwrap();
        let chunk = child.chunk().to_vec();
        child.advance(chunk.len());
        let mut rest = chunk.as_slice();
        assert!(!rest.is_empty(), "stuck after {arrived:?}");
        while !rest.is_empty() {
            rest = &rest[host.push(rest)..];
            loop {
                let gone = match host.next().unwrap() {
                    None => break,
                    Some(Item::Control(payload)) => {
                        let FromChild::Call(call) = decode(payload).unwrap() else {
                            panic!("not a call")
                        };
                        match call.body {
                            Body::Inline(text) => arrived.push((call.number, text.len())),
                            Body::Streamed { bytes } => bodies.announce(call.number, bytes),
                        }
                        continue;
                    }
                    Some(Item::Data { bytes, .. }) => {
                        bodies
                            .take(bytes, |number, body| arrived.push((number, body.len())))
                            .unwrap();
                        bytes.len()
                    }
                    Some(Item::End { .. } | Item::Credit(_) | Item::Tunnel { .. }) => panic!("nobody said this"),
                };
                if let Some(credit) = host.consumed(Stream::Asked, gone) {
                    child.credit(credit).unwrap();
                }
            }
        }
    }
    arrived.sort_unstable();
    assert_eq!(arrived, (1..).zip(sizes).collect::<Vec<_>>());
    assert!(letters.is_empty() && letters.bytes() == 0 && bodies.held() == 0);
}
