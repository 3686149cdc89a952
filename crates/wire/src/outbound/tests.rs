use super::*;
use crate::frame::{FrameHeader, FrameKind};
use crate::job::ToChild;
use crate::outcome::FromChild;
use crate::stream::STREAM_WINDOW;

/// A short form of a frame.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Control(usize),
    Data(PipeStream, usize),
    End(PipeStream),
    Credit(PipeStream, u32),
    Close(u16),
}

/// Splits bytes that hold whole frames only.
fn frames(mut bytes: &[u8]) -> Vec<Seen> {
    let mut seen = Vec::new();
    while let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() {
        let header = FrameHeader::parse(*header).unwrap();
        let (payload, rest) = rest.split_at(header.length());
        let stream = PipeStream::from_id(header.stream());
        seen.push(match header.kind() {
            FrameKind::Control => Seen::Control(payload.len()),
            FrameKind::Data => Seen::Data(stream.unwrap(), payload.len()),
            FrameKind::End => Seen::End(stream.unwrap()),
            FrameKind::Close => Seen::Close(header.stream()),
            FrameKind::Credit => {
                let grant = u32::from_le_bytes(payload.try_into().unwrap());
                Seen::Credit(stream.unwrap(), grant)
            }
        });
        bytes = rest;
    }
    assert_eq!(bytes, b"", "whole frames only");
    seen
}

/// Everything that may be sent now.
fn drain(outbound: &mut Outbound) -> Vec<u8> {
    let mut written = Vec::new();
    while outbound.has_pending() {
        let chunk = outbound.chunk();
        assert!(!chunk.is_empty(), "pending means something to write");
        written.extend_from_slice(chunk);
        let count = chunk.len();
        outbound.advance(count);
    }
    assert_eq!(outbound.chunk(), b"");
    written
}

fn child() -> Outbound {
    Outbound::execution(PipeSide::Child)
}

#[test]
fn a_small_result_leaves_in_one_write() {
    let mut outbound = child();
    outbound.queue_message(&FromChild::Started).unwrap();
    outbound.queue_data(PipeStream::Stdout, b"hel").unwrap();
    outbound.queue_data(PipeStream::Stdout, b"lo\n").unwrap();
    outbound.queue_data(PipeStream::Value, b"42").unwrap();
    for stream in [PipeStream::Stdout, PipeStream::Stderr, PipeStream::Value] {
        outbound.end_stream(stream).unwrap();
    }
    let chunk = outbound.chunk().to_vec();
    outbound.advance(chunk.len());
    assert!(!outbound.has_pending() && outbound.is_flushed());
    assert_eq!(
        frames(&chunk),
        [
            Seen::Control(1),
            Seen::Data(PipeStream::Stdout, 6),
            Seen::End(PipeStream::Stderr),
            Seen::Data(PipeStream::Value, 2),
            Seen::End(PipeStream::Stdout),
            Seen::End(PipeStream::Value),
        ]
    );
}

#[test]
fn control_waits_for_one_frame_at_most() {
    for written in [0, 1, 8, 4_096, 65_543] {
        let mut outbound = child();
        let value = vec![b'v'; STREAM_WINDOW as usize];
        assert_eq!(outbound.queue_data(PipeStream::Value, &value), Ok(value.len()));
        assert_eq!(outbound.chunk().len(), HEADER_BYTES + MAX_PAYLOAD);
        outbound.advance(written);
        outbound.queue_message(&FromChild::Started).unwrap();
        outbound.queue_grant(StreamCredit {
            stream: PipeStream::Stdin,
            grant: 5,
        });
        let rest = drain(&mut outbound);
        let ahead = HEADER_BYTES + MAX_PAYLOAD - written;
        assert_eq!(
            frames(&rest[ahead..])[..3],
            [
                Seen::Control(1),
                Seen::Credit(PipeStream::Stdin, 5),
                Seen::Data(PipeStream::Value, MAX_PAYLOAD),
            ],
            "after {written} bytes"
        );
    }
}

#[test]
fn control_goes_before_a_frame_that_has_not_begun() {
    let mut outbound = child();
    outbound.queue_data(PipeStream::Stdout, &vec![b'x'; 70_000]).unwrap();
    outbound.queue_message(&FromChild::Ready).unwrap();
    assert_eq!(frames(outbound.chunk()), [Seen::Control(1)]);
}

#[test]
fn streams_take_turns() {
    let mut outbound = child();
    for stream in [PipeStream::Value, PipeStream::Stdout, PipeStream::Stderr] {
        outbound.queue_data(stream, &vec![b'x'; 3 * MAX_PAYLOAD]).unwrap();
    }
    let turns = [PipeStream::Stdout, PipeStream::Stderr, PipeStream::Value].repeat(3);
    assert_eq!(
        frames(&drain(&mut outbound)),
        turns
            .into_iter()
            .map(|stream| Seen::Data(stream, MAX_PAYLOAD))
            .collect::<Vec<_>>()
    );
}

#[test]
fn a_small_stream_is_not_starved_by_a_large_one() {
    let mut outbound = child();
    outbound
        .queue_data(PipeStream::Value, &vec![b'v'; 4 * MAX_PAYLOAD])
        .unwrap();
    let first = outbound.chunk().len();
    outbound.advance(first);
    outbound.queue_data(PipeStream::Stderr, b"warning").unwrap();
    assert_eq!(
        frames(outbound.chunk()),
        [Seen::Data(PipeStream::Stderr, 7)],
        "next in turn"
    );
}

#[test]
fn nothing_is_sent_beyond_credit() {
    let mut outbound = child();
    let stream = PipeStream::Value;
    let window = STREAM_WINDOW as usize;
    outbound.queue_data(stream, &vec![1; window]).unwrap();
    assert_eq!(drain(&mut outbound).len(), window + 4 * HEADER_BYTES);
    outbound.queue_data(stream, &vec![2; 100_000]).unwrap();
    outbound.end_stream(stream).unwrap();
    assert!(!outbound.has_pending() && !outbound.is_flushed());
    assert_eq!(outbound.chunk(), b"");
    // Control frames still go.
    outbound.queue_message(&FromChild::Ready).unwrap();
    assert_eq!(frames(&drain(&mut outbound)), [Seen::Control(1)]);
    // Credit that splits blocks at odd offsets.
    let mut got = Vec::new();
    for grant in [1, 10, 5_000, 60_000, 1, 34_988] {
        outbound.add_credit(StreamCredit { stream, grant }).unwrap();
        got.extend(frames(&drain(&mut outbound)));
    }
    assert_eq!(
        got,
        [
            Seen::Data(stream, 1),
            Seen::Data(stream, 10),
            Seen::Data(stream, 5_000),
            Seen::Data(stream, 60_000),
            Seen::Data(stream, 1),
            Seen::Data(stream, 524),
            Seen::Data(stream, 34_464),
            Seen::End(stream),
        ]
    );
    assert!(outbound.is_flushed());
}

#[test]
fn grants_that_no_receiver_makes_are_refused() {
    let mut outbound = child();
    let stream = PipeStream::Stdout;
    for grant in [0, 1, STREAM_WINDOW, u32::MAX] {
        let error = ProtocolError::BadGrant { stream, grant };
        assert_eq!(outbound.add_credit(StreamCredit { stream, grant }), Err(error));
    }
    outbound.queue_data(stream, &[0; 10]).unwrap();
    drain(&mut outbound);
    let grant = 11;
    let error = ProtocolError::BadGrant { stream, grant };
    assert_eq!(outbound.add_credit(StreamCredit { stream, grant }), Err(error));
    assert_eq!(outbound.add_credit(StreamCredit { stream, grant: 10 }), Ok(()));
    let stream = PipeStream::Stdin;
    let error = ProtocolError::WrongWay { stream };
    assert_eq!(outbound.add_credit(StreamCredit { stream, grant: 1 }), Err(error));
}

#[test]
fn a_slow_peer_costs_bounded_memory() {
    let mut outbound = child();
    let mut queued = 0;
    for stream in [PipeStream::Stdout, PipeStream::Stderr, PipeStream::Value] {
        for _ in 0..1_000 {
            queued += outbound.queue_data(stream, &[0; 1_000]).unwrap();
        }
        assert_eq!(outbound.available_capacity(stream), 0);
        assert_eq!(outbound.queue_data(stream, b"x"), Ok(0));
    }
    assert_eq!(queued, 3 * STREAM_WINDOW as usize);
    let held: usize = outbound.sending.iter().map(StreamSender::held_memory).sum();
    assert!(held <= 1024 * 1024 + 1024, "{held}");
    let mut messages = 0;
    while outbound.queue_message(&FromChild::Started) == Ok(()) {
        messages += 1;
    }
    assert_eq!(messages, CONTROL_QUEUE_CAPACITY / (HEADER_BYTES + 1));
    assert_eq!(
        outbound.queue_message(&FromChild::Started),
        Err(OutboundError::ControlFull)
    );
    // Grants are added up and go out as one.
    for _ in 0..100_000 {
        outbound.queue_grant(StreamCredit {
            stream: PipeStream::Stdin,
            grant: 131_072,
        });
    }
    let written = drain(&mut outbound);
    let credits = frames(&written)
        .into_iter()
        .filter(|frame| matches!(frame, Seen::Credit(..)))
        .collect::<Vec<_>>();
    assert_eq!(credits, [Seen::Credit(PipeStream::Stdin, u32::MAX)]);
}

#[test]
fn small_writes_are_collected_into_whole_frames() {
    let mut outbound = child();
    for _ in 0..20_000 {
        assert_eq!(outbound.queue_data(PipeStream::Stdout, b"0123456789"), Ok(10));
    }
    let sizes = [65_536, 65_536, 65_536, 200_000 - 3 * 65_536];
    assert_eq!(
        frames(&drain(&mut outbound)),
        sizes.map(|size| Seen::Data(PipeStream::Stdout, size))
    );
}

#[test]
fn a_stream_has_an_owner_and_one_end() {
    let mut outbound = Outbound::execution(PipeSide::Host);
    let stream = PipeStream::Stdout;
    assert_eq!(outbound.available_capacity(stream), 0);
    let error = OutboundError::NotOurs { stream };
    assert_eq!(outbound.queue_data(stream, b"x"), Err(error.clone()));
    assert_eq!(outbound.end_stream(stream), Err(error));
    let stream = PipeStream::Source;
    outbound.end_stream(stream).unwrap();
    let error = OutboundError::Ended { stream };
    assert_eq!(outbound.queue_data(stream, b"x"), Err(error.clone()));
    assert_eq!(outbound.end_stream(stream), Err(error));
    let stream = PipeStream::Stdin;
    let error = OutboundError::NotOurs { stream };
    assert_eq!(Outbound::control_only().queue_data(stream, b"x"), Err(error));
}

#[test]
fn a_message_that_cannot_be_sent_leaves_nothing_behind() {
    let mut outbound = Outbound::control_only();
    let error = outbound.queue_message(&crate::worker_command::WorkerReport::Ready { version: 9 });
    assert!(matches!(error, Err(OutboundError::Message(_))));
    assert!(outbound.is_flushed());
    outbound.queue_message(&ToChild::Cancel).unwrap();
    assert_eq!(frames(&drain(&mut outbound)), [Seen::Control(1)]);
}
