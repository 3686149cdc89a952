use super::*;
use crate::call::MAX_BODY_BYTES;
use crate::stream::{SOURCE_CAP, VALUE_CAP};
use crate::trace::TRACE_CAP;

/// A frame with any header and a payload of `length` bytes.
fn frame(kind: u8, stream: u16, length: usize) -> Vec<u8> {
    let mut bytes = u32::try_from(length).unwrap().to_le_bytes().to_vec();
    bytes.extend_from_slice(&stream.to_le_bytes());
    bytes.extend_from_slice(&[kind, 0]);
    bytes.resize(HEADER_BYTES + length, b'x');
    bytes
}

fn credit(stream: u16, grant: u32) -> Vec<u8> {
    let mut bytes = frame(3, stream, 0);
    bytes[0] = 4;
    bytes.extend_from_slice(&grant.to_le_bytes());
    bytes
}

/// Feeds everything and returns the first error; data is consumed as it comes.
fn feed(inbound: &mut Inbound, mut bytes: &[u8]) -> Result<(), ProtocolError> {
    loop {
        let taken = inbound.push(bytes);
        bytes = &bytes[taken..];
        while let Some(item) = inbound.next()? {
            if let InboundItem::Data { stream, bytes } = item {
                let count = bytes.len();
                inbound.mark_consumed(stream, count);
            }
        }
        if bytes.is_empty() {
            return inbound.finish();
        }
    }
}

#[test]
fn every_kind_of_item_comes_out() {
    let mut inbound = Inbound::execution(PipeSide::Host);
    let input = [frame(0, 0, 2), frame(1, 3, 3), frame(2, 3, 0), credit(1, 9)].concat();
    assert_eq!(inbound.push(&input), input.len());
    assert_eq!(inbound.next(), Ok(Some(InboundItem::Control(b"xx"))));
    assert_eq!(
        inbound.next(),
        Ok(Some(InboundItem::Data {
            stream: PipeStream::Stdout,
            bytes: b"xxx"
        }))
    );
    assert!(!inbound.has_ended(PipeStream::Stdout));
    assert_eq!(
        inbound.next(),
        Ok(Some(InboundItem::End {
            stream: PipeStream::Stdout
        }))
    );
    assert!(inbound.has_ended(PipeStream::Stdout));
    assert_eq!(
        inbound.next(),
        Ok(Some(InboundItem::Credit(StreamCredit {
            stream: PipeStream::Source,
            grant: 9
        })))
    );
    assert_eq!(inbound.next(), Ok(None));
    assert_eq!(inbound.finish(), Ok(()));
}

#[test]
fn hostile_input_is_refused() {
    use ProtocolError::{AfterEnd, BadGrant, CutShort, UnknownStream, WrongWay};
    let wrong_way = |stream| WrongWay { stream };
    let after_end = |stream| AfterEnd { stream };
    let host = || Inbound::execution(PipeSide::Host);
    let child = || Inbound::execution(PipeSide::Child);
    let control = Inbound::control_only;
    let oversized = FrameHeaderError::Oversized { length: 65_537 }.into();
    for (mut inbound, input, error) in [
        (host(), frame(0, 0, 65_537), oversized),
        (host(), frame(9, 0, 1), FrameHeaderError::UnknownKind { kind: 9 }.into()),
        (host(), frame(1, 8, 1), UnknownStream { stream: 8 }),
        (host(), frame(1, 63, 1), UnknownStream { stream: 63 }),
        (host(), frame(2, u16::MAX, 0), UnknownStream { stream: u16::MAX }),
        (host(), credit(20, 1), UnknownStream { stream: 20 }),
        (control(), frame(1, 3, 1), UnknownStream { stream: 3 }),
        (control(), frame(2, 1, 0), UnknownStream { stream: 1 }),
        (control(), credit(1, 1), UnknownStream { stream: 1 }),
        (host(), frame(1, 1, 1), wrong_way(PipeStream::Source)),
        (host(), frame(2, 2, 0), wrong_way(PipeStream::Stdin)),
        (child(), frame(1, 3, 1), wrong_way(PipeStream::Stdout)),
        (host(), frame(1, 7, 1), wrong_way(PipeStream::ReplyBodies)),
        (child(), frame(1, 6, 1), wrong_way(PipeStream::CallBodies)),
        (host(), credit(5, 1), wrong_way(PipeStream::Value)),
        (child(), credit(2, 1), wrong_way(PipeStream::Stdin)),
        (
            host(),
            [frame(2, 3, 0), frame(1, 3, 1)].concat(),
            after_end(PipeStream::Stdout),
        ),
        (
            host(),
            [frame(2, 4, 0), frame(2, 4, 0)].concat(),
            after_end(PipeStream::Stderr),
        ),
        (
            host(),
            credit(1, 0),
            BadGrant {
                stream: PipeStream::Source,
                grant: 0,
            },
        ),
        (host(), vec![1], CutShort { held: 1 }),
        (host(), frame(0, 0, 5)[..HEADER_BYTES].to_vec(), CutShort { held: 8 }),
        (
            host(),
            [frame(0, 0, 1), frame(1, 3, 9)[..16].to_vec()].concat(),
            CutShort { held: 16 },
        ),
    ] {
        assert_eq!(feed(&mut inbound, &input), Err(error), "{input:?}");
    }
}

#[test]
fn a_bad_header_is_refused_before_its_payload_comes() {
    let mut inbound = Inbound::execution(PipeSide::Host);
    inbound.push(&frame(1, 1, 60_000)[..HEADER_BYTES]);
    let error = Err(ProtocolError::WrongWay {
        stream: PipeStream::Source,
    });
    assert_eq!(inbound.next(), error);
}

#[test]
fn an_error_stays() {
    let mut inbound = Inbound::execution(PipeSide::Host);
    inbound.push(&frame(9, 0, 1));
    let error = ProtocolError::Frame(FrameHeaderError::UnknownKind { kind: 9 });
    assert_eq!(inbound.next(), Err(error));
    inbound.push(&frame(0, 0, 1));
    assert_eq!(inbound.next(), Err(error));
    assert_eq!(inbound.finish(), Err(error));
}

#[test]
fn a_peer_may_send_its_window_and_not_a_byte_more() {
    let mut inbound = Inbound::execution(PipeSide::Host);
    for _ in 0..4 {
        inbound.push(&frame(1, 3, 65_536));
        assert!(matches!(inbound.next(), Ok(Some(InboundItem::Data { .. }))));
    }
    // Another stream has its own window.
    inbound.push(&frame(1, 4, 1));
    assert!(matches!(inbound.next(), Ok(Some(InboundItem::Data { .. }))));
    inbound.push(&frame(1, 3, 7));
    assert_eq!(
        inbound.next(),
        Err(ProtocolError::BeyondCredit {
            stream: PipeStream::Stdout,
            excess: 7
        })
    );
}

#[test]
fn credit_is_given_back_at_half_a_window() {
    let mut inbound = Inbound::execution(PipeSide::Host);
    let stream = PipeStream::Stdout;
    let half = (STREAM_WINDOW / 2) as usize;
    for _ in 0..4 {
        inbound.push(&frame(1, 3, 65_536));
        assert!(matches!(inbound.next(), Ok(Some(InboundItem::Data { .. }))));
    }
    assert_eq!(inbound.mark_consumed(stream, half - 1), None);
    let grant = STREAM_WINDOW / 2;
    assert_eq!(inbound.mark_consumed(stream, 1), Some(StreamCredit { stream, grant }));
    for _ in 0..2 {
        inbound.push(&frame(1, 3, 65_536));
        assert!(matches!(inbound.next(), Ok(Some(InboundItem::Data { .. }))));
    }
    inbound.push(&frame(1, 3, 1));
    assert!(matches!(
        inbound.next(),
        Err(ProtocolError::BeyondCredit { excess: 1, .. })
    ));
}

#[test]
fn a_stream_that_has_ended_is_granted_nothing() {
    let mut inbound = Inbound::execution(PipeSide::Host);
    for bytes in [
        frame(1, 3, 65_536),
        frame(1, 3, 65_536),
        frame(1, 3, 65_536),
        frame(2, 3, 0),
    ] {
        inbound.push(&bytes);
        assert!(matches!(inbound.next(), Ok(Some(_))));
    }
    assert_eq!(inbound.mark_consumed(PipeStream::Stdout, 3 * 65_536), None);
}

#[test]
fn a_stream_ends_at_its_cap() {
    let check = |mut inbound: Inbound, id: u16, cap: u64| {
        let stream = PipeStream::from_id(id).unwrap();
        let mut left = usize::try_from(cap).unwrap();
        while left > 0 {
            let count = left.min(65_536);
            assert_eq!(feed(&mut inbound, &frame(1, id, count)), Ok(()));
            left -= count;
        }
        assert_eq!(
            feed(&mut inbound, &frame(1, id, 1)),
            Err(ProtocolError::BeyondCap { stream, cap })
        );
    };
    check(
        Inbound::execution(PipeSide::Child),
        1,
        SOURCE_CAP + MAX_BODY_BYTES as u64 + TRACE_CAP,
    );
    check(Inbound::execution(PipeSide::Host), 5, VALUE_CAP);
    let capped = Inbound::execution(PipeSide::Host).with_cap(PipeStream::Stderr, StreamCap::Bytes(1_000));
    check(capped, 4, 1_000);
}

#[test]
fn output_has_no_cap_here() {
    let mut inbound = Inbound::execution(PipeSide::Host);
    let bytes = frame(1, 3, 65_536);
    for _ in 0..(2 * VALUE_CAP / 65_536) {
        assert_eq!(feed(&mut inbound, &bytes), Ok(()));
    }
}

#[test]
fn never_more_than_a_frame_is_held() {
    let mut inbound = Inbound::execution(PipeSide::Host);
    let flood = frame(0, 0, 65_536).repeat(4);
    let taken = inbound.push(&flood);
    assert!(taken <= HEADER_BYTES + MAX_PAYLOAD);
    assert_eq!(inbound.push(&flood[taken..]), 0, "items wait");
    assert_eq!(inbound.buffer.len(), HEADER_BYTES + MAX_PAYLOAD);
    // Small frames do not make the buffer grow.
    let mut inbound = Inbound::execution(PipeSide::Host);
    let taken = inbound.push(&frame(0, 0, 9).repeat(10_000));
    assert_eq!(taken, INITIAL_CAPACITY);
    assert_eq!(inbound.buffer.len(), INITIAL_CAPACITY);
}

#[test]
fn there_is_always_space_once_items_are_taken() {
    let input = [
        frame(0, 0, 4_000),
        frame(0, 0, 90),
        frame(1, 3, 65_536),
        frame(0, 0, 1),
        frame(1, 4, 4_088),
        frame(0, 0, 4_087),
    ]
    .concat();
    for step in [1, 7, 8, 9, 4_095, 4_096, 4_097, 65_544, input.len()] {
        let mut inbound = Inbound::execution(PipeSide::Host);
        let mut at = 0;
        let mut items = 0;
        while at < input.len() {
            let space = inbound.read_buffer();
            assert!(!space.is_empty(), "step {step} at {at}");
            let count = space.len().min(step).min(input.len() - at);
            space[..count].copy_from_slice(&input[at..at + count]);
            inbound.advance(count);
            at += count;
            while inbound.next().unwrap().is_some() {
                items += 1;
            }
        }
        assert_eq!((items, inbound.finish()), (6, Ok(())), "step {step}");
    }
}
