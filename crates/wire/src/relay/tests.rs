//! Both ends of a relayed stream, and what a hostile end sends.

use super::{HEADER_BYTES, RELAY_WINDOW, Relay, RelayError};
use crate::frame::MAX_PAYLOAD;

/// Moves everything that `from` has to send, in pieces of `piece` bytes, and returns the packets that arrive.
fn carry(from: &mut Relay, to: &mut Relay, piece: usize) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    while from.has_pending() {
        let count = from.chunk().len().min(piece);
        to.push(&from.chunk()[..count]);
        from.advance(count);
        while let Some(packet) = to.next_packet().unwrap() {
            packets.push(packet);
        }
    }
    packets
}

fn ends() -> (Relay, Relay) {
    let (mut one, mut other) = (Relay::new(), Relay::new());
    one.open_pipe(1).unwrap();
    other.open_pipe(1).unwrap();
    (one, other)
}

fn drain(end: &mut Relay) -> Vec<u8> {
    let mut all = Vec::new();
    while !end.pipe_bytes().is_empty() {
        let part = end.pipe_bytes().to_vec();
        end.mark_written(part.len());
        all.extend(part);
    }
    all
}

#[test]
fn packets_and_pipes_share_a_stream_cut_anywhere() {
    for piece in [1, 7, 64 << 10] {
        let (mut one, mut other) = ends();
        one.queue_packet(b"order").unwrap();
        one.queue_pipe(b"bytes of the pipe");
        one.queue_packet(b"another").unwrap();
        assert_eq!(
            carry(&mut one, &mut other, piece),
            [b"order".to_vec(), b"another".to_vec()]
        );
        assert_eq!(drain(&mut other), b"bytes of the pipe");
    }
}

#[test]
fn a_pipe_that_nobody_reads_stops_at_its_window_and_packets_go_on() {
    let (mut one, mut other) = ends();
    let mut sent = 0;
    while one.pipe_room() > 0 {
        let bytes = vec![b'x'; one.pipe_room()];
        one.queue_pipe(&bytes);
        sent += bytes.len();
        carry(&mut one, &mut other, MAX_PAYLOAD);
    }
    assert_eq!(sent, RELAY_WINDOW);
    one.queue_packet(b"order").unwrap();
    assert_eq!(carry(&mut one, &mut other, MAX_PAYLOAD), [b"order".to_vec()]);
    assert_eq!(drain(&mut other).len(), RELAY_WINDOW);
    carry(&mut other, &mut one, MAX_PAYLOAD);
    assert_eq!(one.pipe_room(), MAX_PAYLOAD, "what was written is granted again");
}

#[test]
fn the_end_follows_the_last_bytes_and_late_frames_are_dropped() {
    let (mut one, mut other) = ends();
    one.queue_pipe(b"last");
    one.close_pipe();
    assert_eq!(one.pipe_room(), 0);
    carry(&mut one, &mut other, 3);
    assert!(!other.is_pipe_over(), "its bytes are not written yet");
    assert_eq!(drain(&mut other), b"last");
    assert!(other.is_pipe_over());
    // The other end answers after this one has gone on to the next pipe.
    other.queue_pipe(b"late");
    one.open_pipe(2).unwrap();
    carry(&mut other, &mut one, MAX_PAYLOAD);
    assert_eq!(one.pipe_bytes(), b"");
}

#[test]
fn what_comes_for_a_pipe_that_is_closed_here_is_dropped() {
    let (mut one, mut other) = ends();
    other.queue_pipe(b"unread");
    one.close_pipe();
    carry(&mut other, &mut one, MAX_PAYLOAD);
    assert_eq!(one.pipe_bytes(), b"");
}

fn frame(kind: u8, length: u32, execution: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![kind, 0, 0, 0];
    frame.extend(length.to_le_bytes());
    frame.extend(execution.to_le_bytes());
    assert_eq!(frame.len(), HEADER_BYTES);
    frame.extend(payload);
    frame
}

#[test]
fn a_hostile_end_is_refused() {
    let too_long = u32::try_from(MAX_PAYLOAD).unwrap() + 1;
    let data = vec![0; MAX_PAYLOAD];
    let length = u32::try_from(MAX_PAYLOAD).unwrap();
    let flood = frame(1, length, 1, &data).repeat(RELAY_WINDOW / MAX_PAYLOAD + 1);
    let cases = [
        (frame(9, 1, 0, b"x"), RelayError::Header),
        (vec![0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0], RelayError::Header),
        (frame(0, 0, 0, b""), RelayError::Length { length: 0 }),
        (frame(1, too_long, 1, b""), RelayError::Length { length: too_long }),
        (frame(3, 5, 1, b"12345"), RelayError::Length { length: 5 }),
        (frame(0, 1, 7, b"x"), RelayError::UnknownExecution { execution: 7 }),
        (frame(1, 1, 2, b"x"), RelayError::UnknownExecution { execution: 2 }),
        (flood, RelayError::BeyondCredit { execution: 1 }),
        (
            frame(3, 4, 1, &1u32.to_le_bytes()),
            RelayError::BeyondCredit { execution: 1 },
        ),
        (
            [frame(2, 0, 1, b""), frame(1, 1, 1, b"x")].concat(),
            RelayError::AfterEnd { execution: 1 },
        ),
    ];
    for (bytes, expected) in cases {
        let (mut end, _) = ends();
        end.push(&bytes);
        let mut result = end.next_packet();
        while let Ok(Some(_)) = result {
            result = end.next_packet();
        }
        assert_eq!(result, Err(expected));
    }
}

#[test]
fn a_number_is_used_once() {
    let mut end = Relay::new();
    end.open_pipe(3).unwrap();
    assert_eq!(end.open_pipe(3), Err(RelayError::UnknownExecution { execution: 3 }));
    assert_eq!(end.open_pipe(2), Err(RelayError::UnknownExecution { execution: 2 }));
}
