//! Two ends of a pipe with a transport between them that cuts, delays and merges the bytes.

use std::collections::VecDeque;

use proptest::prelude::*;
use ringfence_wire::{
    BoundedList, BoundedText, FromChild, Inbound, InboundItem, JobOutcome, JobOutcomeKind, Outbound, PipeSide,
    PipeStream, StreamCredit, WorkerCommand, WorkerReport, decode,
};

/// One end: what it sends, what it has received, and what it has not consumed yet.
struct Peer {
    inbound: Inbound,
    outbound: Outbound,
    received: [Vec<u8>; 7],
    unconsumed: [usize; 7],
    ended: Vec<PipeStream>,
    messages: Vec<WorkerReport>,
}

impl Peer {
    fn new(side: PipeSide) -> Self {
        Self {
            inbound: Inbound::execution(side),
            outbound: Outbound::execution(side),
            received: Default::default(),
            unconsumed: [0; 7],
            ended: Vec::new(),
            messages: Vec::new(),
        }
    }

    /// Takes at most `limit` bytes from the transport and processes all items in them.
    fn receive(&mut self, transport: &mut VecDeque<u8>, limit: usize) {
        let space = self.inbound.read_buffer();
        let count = space.len().min(limit).min(transport.len());
        for (to, from) in space.iter_mut().zip(transport.drain(..count)) {
            *to = from;
        }
        self.inbound.advance(count);
        while let Some(item) = self.inbound.next().unwrap() {
            match item {
                InboundItem::Control(payload) => self.messages.push(decode(payload).unwrap()),
                InboundItem::Data { stream, bytes } => {
                    let index = usize::from(stream.id()) - 1;
                    self.received[index].extend_from_slice(bytes);
                    self.unconsumed[index] += bytes.len();
                    assert!(self.unconsumed[index] <= 256 * 1024, "more than a window");
                }
                InboundItem::End { stream } => self.ended.push(stream),
                InboundItem::Credit(credit) => self.outbound.add_credit(credit).unwrap(),
                InboundItem::Tunnel { .. } => panic!("nobody opened a tunnel: {item:?}"),
            }
        }
    }

    fn consume(&mut self, stream: PipeStream, limit: usize) {
        let held = &mut self.unconsumed[usize::from(stream.id()) - 1];
        let count = limit.min(*held);
        *held -= count;
        if let Some(credit) = self.inbound.mark_consumed(stream, count) {
            self.outbound.queue_grant(credit);
        }
    }

    fn transmit(&mut self, transport: &mut VecDeque<u8>, limit: usize) {
        let chunk = self.outbound.chunk();
        let count = chunk.len().min(limit);
        transport.extend(&chunk[..count]);
        self.outbound.advance(count);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write(usize, usize),
    Say(u32),
    Transmit(usize),
    Receive(usize),
    Consume(usize, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = prop_oneof![1..40_usize, 1..5_000_usize, 1..300_000_usize];
    let step = prop_oneof![
        (0..3_usize, size.clone()).prop_map(|(stream, size)| Step::Write(stream, size)),
        any::<u32>().prop_map(Step::Say),
        size.clone().prop_map(Step::Transmit),
        size.clone().prop_map(Step::Receive),
        (0..3_usize, size).prop_map(|(stream, size)| Step::Consume(stream, size)),
    ];
    prop::collection::vec(step, 0..60)
}

const OUTPUT: [PipeStream; 3] = [PipeStream::Stdout, PipeStream::Stderr, PipeStream::Value];

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the transport does, each stream arrives whole and in order, messages in order, and credit is kept.
    #[test]
    fn everything_sent_arrives_once_and_in_order(steps in steps()) {
        let mut child = Peer::new(PipeSide::Child);
        let mut host = Peer::new(PipeSide::Host);
        let mut up = VecDeque::new();
        let mut down = VecDeque::new();
        let mut written: [Vec<u8>; 3] = Default::default();
        let mut said = Vec::new();
        let mut next_byte = 0_u8;
        for step in steps {
            match step {
                Step::Write(stream, size) => {
                    let bytes: Vec<u8> = std::iter::repeat_with(|| {
                        next_byte = next_byte.wrapping_mul(5).wrapping_add(1);
                        next_byte
                    })
                    .take(size)
                    .collect();
                    let room = child.outbound.available_capacity(OUTPUT[stream]);
                    let taken = child.outbound.queue_data(OUTPUT[stream], &bytes).unwrap();
                    prop_assert_eq!(taken, room.min(size));
                    written[stream].extend_from_slice(&bytes[..taken]);
                }
                Step::Say(number) => {
                    let message = WorkerReport::Prepared { number };
                    child.outbound.queue_message(&message).unwrap();
                    said.push(message);
                }
                Step::Transmit(limit) => {
                    child.transmit(&mut up, limit);
                    host.transmit(&mut down, limit);
                }
                Step::Receive(limit) => {
                    host.receive(&mut up, limit);
                    child.receive(&mut down, limit);
                }
                Step::Consume(stream, limit) => host.consume(OUTPUT[stream], limit),
            }
        }
        for stream in OUTPUT {
            child.outbound.end_stream(stream).unwrap();
        }
        for _ in 0..10_000 {
            child.transmit(&mut up, usize::MAX);
            host.receive(&mut up, usize::MAX);
            for stream in OUTPUT {
                host.consume(stream, usize::MAX);
            }
            host.transmit(&mut down, usize::MAX);
            child.receive(&mut down, usize::MAX);
            if child.outbound.is_flushed() && up.is_empty() && down.is_empty() {
                break;
            }
        }
        prop_assert!(child.outbound.is_flushed());
        prop_assert_eq!(host.inbound.finish(), Ok(()));
        prop_assert_eq!(&host.messages, &said);
        for (stream, written) in OUTPUT.into_iter().zip(&written) {
            let received = &host.received[usize::from(stream.id()) - 1];
            prop_assert!(received == written, "{stream} differs");
            prop_assert!(host.inbound.has_ended(stream));
        }
        host.ended.sort();
        prop_assert_eq!(host.ended, OUTPUT);
    }

    /// However the bytes are cut, the same items come out.
    #[test]
    fn cuts_do_not_matter(
        numbers in prop::collection::vec(any::<u32>(), 1..40),
        cuts in prop::collection::vec(1..30_usize, 1..20),
    ) {
        let mut outbound = Outbound::control_only();
        for number in &numbers {
            outbound.queue_message(&WorkerCommand::Finish { number: *number }).unwrap();
        }
        let bytes = outbound.chunk().to_vec();
        let mut inbound = Inbound::control_only();
        let mut heard = Vec::new();
        let mut rest = &bytes[..];
        for cut in cuts.iter().cycle() {
            let (piece, later) = rest.split_at((*cut).min(rest.len()));
            prop_assert_eq!(inbound.push(piece), piece.len());
            while let Some(item) = inbound.next().unwrap() {
                let InboundItem::Control(payload) = item else {
                    panic!("only messages were sent: {item:?}");
                };
                heard.push(decode::<WorkerCommand>(payload).unwrap());
            }
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        let sent: Vec<_> = numbers.iter().map(|number| WorkerCommand::Finish { number: *number }).collect();
        prop_assert_eq!(heard, sent);
        prop_assert_eq!(inbound.finish(), Ok(()));
    }

    /// Any outcome that the types allow survives the encoding, truncated texts included.
    #[test]
    fn any_outcome_survives_the_wire(
        message in ".{0,4000}",
        exit_code in any::<i32>(),
        signal in any::<Option<i32>>(),
        line in any::<u32>(),
        count in 0..40_usize,
    ) {
        let diagnostic = ringfence_wire::SourceDiagnostic {
            file: BoundedText::truncated(&message),
            line,
            column: line,
            code: BoundedText::truncated(&message),
            message: BoundedText::truncated(&message),
        };
        let done = FromChild::Done(JobOutcome {
            kind: JobOutcomeKind::Failed,
            exit_code,
            signal,
            has_value: false,
            error: Some(ringfence_wire::JobFailure {
                code: BoundedText::truncated(&message),
                message: BoundedText::truncated(&message),
                file: BoundedText::truncated(&message),
                line,
                column: line,
                call: Some(3),
            }),
            diagnostics: BoundedList::truncated(vec![diagnostic; count]),
        });
        let mut outbound = Outbound::execution(PipeSide::Child);
        outbound.queue_message(&done).unwrap();
        prop_assert_eq!(decode::<FromChild>(&outbound.chunk()[8..]), Ok(done));
    }
}

/// A peer that floods its output and never reads still receives a cancel at once, and its other streams go on.
#[test]
fn a_full_stream_stops_no_other() {
    let mut child = Peer::new(PipeSide::Child);
    let mut host = Peer::new(PipeSide::Host);
    let mut up = VecDeque::new();
    let flood = vec![b'x'; 1 << 20];
    for _ in 0..100 {
        child.outbound.queue_data(PipeStream::Stdout, &flood).unwrap();
        child.transmit(&mut up, usize::MAX);
        host.receive(&mut up, usize::MAX);
    }
    assert_eq!(host.unconsumed[2], 256 * 1024, "stopped at its window");
    assert!(!child.outbound.has_pending());
    child.outbound.queue_data(PipeStream::Stderr, b"warning").unwrap();
    child.outbound.end_stream(PipeStream::Stderr).unwrap();
    child
        .outbound
        .queue_message(&WorkerReport::Finished { number: 1 })
        .unwrap();
    child.transmit(&mut up, usize::MAX);
    host.receive(&mut up, usize::MAX);
    assert_eq!(host.received[3], b"warning");
    assert_eq!(host.ended, [PipeStream::Stderr]);
    assert_eq!(host.messages, [WorkerReport::Finished { number: 1 }]);
    // Consuming half of the window lets exactly that much through again.
    let grant = 128 * 1024;
    assert_eq!(
        host.inbound.mark_consumed(PipeStream::Stdout, grant as usize),
        Some(StreamCredit {
            stream: PipeStream::Stdout,
            grant
        })
    );
}
