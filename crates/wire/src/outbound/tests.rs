use super::*;
use crate::frame::{Header, Kind};
use crate::job::ToChild;
use crate::outcome::FromChild;
use crate::stream::WINDOW;

/// A short form of a frame.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Control(usize),
    Data(Stream, usize),
    End(Stream),
    Credit(Stream, u32),
    Close(u16),
}

/// Splits bytes that hold whole frames only.
fn frames(mut bytes: &[u8]) -> Vec<Seen> {
    let mut seen = Vec::new();
    while let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() {
        let header = Header::read(*header).unwrap();
        let (payload, rest) = rest.split_at(header.length());
        let stream = Stream::from_id(header.stream());
        seen.push(match header.kind() {
            Kind::Control => Seen::Control(payload.len()),
            Kind::Data => Seen::Data(stream.unwrap(), payload.len()),
            Kind::End => Seen::End(stream.unwrap()),
            Kind::Close => Seen::Close(header.stream()),
            Kind::Credit => {
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
    while outbound.pending() {
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
    Outbound::execution(Side::Child)
}

#[test]
fn a_small_result_leaves_in_one_write() {
    let mut outbound = child();
    outbound.control(&FromChild::Started).unwrap();
    outbound.data(Stream::Stdout, b"hel").unwrap();
    outbound.data(Stream::Stdout, b"lo\n").unwrap();
    outbound.data(Stream::Value, b"42").unwrap();
    for stream in [Stream::Stdout, Stream::Stderr, Stream::Value] {
        outbound.end(stream).unwrap();
    }
    let chunk = outbound.chunk().to_vec();
    outbound.advance(chunk.len());
    assert!(!outbound.pending() && outbound.flushed());
    assert_eq!(
        frames(&chunk),
        [
            Seen::Control(1),
            Seen::Data(Stream::Stdout, 6),
            Seen::End(Stream::Stderr),
            Seen::Data(Stream::Value, 2),
            Seen::End(Stream::Stdout),
            Seen::End(Stream::Value),
        ]
    );
}

#[test]
fn control_waits_for_one_frame_at_most() {
    for written in [0, 1, 8, 4_096, 65_543] {
        let mut outbound = child();
        let value = vec![b'v'; WINDOW as usize];
        assert_eq!(outbound.data(Stream::Value, &value), Ok(value.len()));
        assert_eq!(outbound.chunk().len(), HEADER + MAX_PAYLOAD);
        outbound.advance(written);
        outbound.control(&FromChild::Started).unwrap();
        outbound.grant(Credit {
            stream: Stream::Stdin,
            grant: 5,
        });
        let rest = drain(&mut outbound);
        let ahead = HEADER + MAX_PAYLOAD - written;
        assert_eq!(
            frames(&rest[ahead..])[..3],
            [
                Seen::Control(1),
                Seen::Credit(Stream::Stdin, 5),
                Seen::Data(Stream::Value, MAX_PAYLOAD),
            ],
            "after {written} bytes"
        );
    }
}

#[test]
fn control_goes_before_a_frame_that_has_not_begun() {
    let mut outbound = child();
    outbound.data(Stream::Stdout, &vec![b'x'; 70_000]).unwrap();
    outbound.control(&FromChild::Ready).unwrap();
    assert_eq!(frames(outbound.chunk()), [Seen::Control(1)]);
}

#[test]
fn streams_take_turns() {
    let mut outbound = child();
    for stream in [Stream::Value, Stream::Stdout, Stream::Stderr] {
        outbound.data(stream, &vec![b'x'; 3 * MAX_PAYLOAD]).unwrap();
    }
    let turns = [Stream::Stdout, Stream::Stderr, Stream::Value].repeat(3);
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
    outbound.data(Stream::Value, &vec![b'v'; 4 * MAX_PAYLOAD]).unwrap();
    let first = outbound.chunk().len();
    outbound.advance(first);
    outbound.data(Stream::Stderr, b"warning").unwrap();
    assert_eq!(
        frames(outbound.chunk()),
        [Seen::Data(Stream::Stderr, 7)],
        "next in turn"
    );
}

#[test]
fn nothing_is_sent_beyond_credit() {
    let mut outbound = child();
    let stream = Stream::Value;
    let window = WINDOW as usize;
    outbound.data(stream, &vec![1; window]).unwrap();
    assert_eq!(drain(&mut outbound).len(), window + 4 * HEADER);
    outbound.data(stream, &vec![2; 100_000]).unwrap();
    outbound.end(stream).unwrap();
    assert!(!outbound.pending() && !outbound.flushed());
    assert_eq!(outbound.chunk(), b"");
    // Control frames still go.
    outbound.control(&FromChild::Ready).unwrap();
    assert_eq!(frames(&drain(&mut outbound)), [Seen::Control(1)]);
    // Credit that splits blocks at odd offsets.
    let mut got = Vec::new();
    for grant in [1, 10, 5_000, 60_000, 1, 34_988] {
        outbound.credit(Credit { stream, grant }).unwrap();
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
    assert!(outbound.flushed());
}

#[test]
fn grants_that_no_receiver_makes_are_refused() {
    let mut outbound = child();
    let stream = Stream::Stdout;
    for grant in [0, 1, WINDOW, u32::MAX] {
        let error = ProtocolError::BadGrant { stream, grant };
        assert_eq!(outbound.credit(Credit { stream, grant }), Err(error));
    }
    outbound.data(stream, &[0; 10]).unwrap();
    drain(&mut outbound);
    let grant = 11;
    let error = ProtocolError::BadGrant { stream, grant };
    assert_eq!(outbound.credit(Credit { stream, grant }), Err(error));
    assert_eq!(outbound.credit(Credit { stream, grant: 10 }), Ok(()));
    let stream = Stream::Stdin;
    let error = ProtocolError::WrongWay { stream };
    assert_eq!(outbound.credit(Credit { stream, grant: 1 }), Err(error));
}

#[test]
fn a_slow_peer_costs_bounded_memory() {
    let mut outbound = child();
    let mut queued = 0;
    for stream in [Stream::Stdout, Stream::Stderr, Stream::Value] {
        for _ in 0..1_000 {
            queued += outbound.data(stream, &[0; 1_000]).unwrap();
        }
        assert_eq!(outbound.room(stream), 0);
        assert_eq!(outbound.data(stream, b"x"), Ok(0));
    }
    assert_eq!(queued, 3 * WINDOW as usize);
    let held: usize = outbound.sending.iter().map(Sending::held).sum();
    assert!(held <= 1024 * 1024 + 1024, "{held}");
    let mut messages = 0;
    while outbound.control(&FromChild::Started) == Ok(()) {
        messages += 1;
    }
    assert_eq!(messages, CONTROL_QUEUE / (HEADER + 1));
    assert_eq!(outbound.control(&FromChild::Started), Err(SendError::ControlFull));
    // Grants are added up and go out as one.
    for _ in 0..100_000 {
        outbound.grant(Credit {
            stream: Stream::Stdin,
            grant: 131_072,
        });
    }
    let written = drain(&mut outbound);
    let credits = frames(&written)
        .into_iter()
        .filter(|frame| matches!(frame, Seen::Credit(..)))
        .collect::<Vec<_>>();
    assert_eq!(credits, [Seen::Credit(Stream::Stdin, u32::MAX)]);
}

#[test]
fn small_writes_are_collected_into_whole_frames() {
    let mut outbound = child();
    for _ in 0..20_000 {
        assert_eq!(outbound.data(Stream::Stdout, b"0123456789"), Ok(10));
    }
    let sizes = [65_536, 65_536, 65_536, 200_000 - 3 * 65_536];
    assert_eq!(
        frames(&drain(&mut outbound)),
        sizes.map(|size| Seen::Data(Stream::Stdout, size))
    );
}

#[test]
fn a_stream_has_an_owner_and_one_end() {
    let mut outbound = Outbound::execution(Side::Host);
    let stream = Stream::Stdout;
    assert_eq!(outbound.room(stream), 0);
    let error = SendError::NotOurs { stream };
    assert_eq!(outbound.data(stream, b"x"), Err(error.clone()));
    assert_eq!(outbound.end(stream), Err(error));
    let stream = Stream::Source;
    outbound.end(stream).unwrap();
    let error = SendError::Ended { stream };
    assert_eq!(outbound.data(stream, b"x"), Err(error.clone()));
    assert_eq!(outbound.end(stream), Err(error));
    let stream = Stream::Stdin;
    let error = SendError::NotOurs { stream };
    assert_eq!(Outbound::control_only().data(stream, b"x"), Err(error));
}

#[test]
fn a_message_that_cannot_be_sent_leaves_nothing_behind() {
    let mut outbound = Outbound::control_only();
    let error = outbound.control(&crate::order::Report::Ready { version: 9 });
    assert!(matches!(error, Err(SendError::Message(_))));
    assert!(outbound.flushed());
    outbound.control(&ToChild::Cancel).unwrap();
    assert_eq!(frames(&drain(&mut outbound)), [Seen::Control(1)]);
}
