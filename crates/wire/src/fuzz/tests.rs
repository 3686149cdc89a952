use super::*;
use crate::bounded::{BoundedBytes, BoundedList, BoundedText};
use crate::call::{CallBody, CallFailure, CallReply, CallRequest, CallResponse, CallTarget};
use crate::emitted_file::EmittedFile;
use crate::job::{Job, JobKind, JobLanguage, PROTOCOL_VERSION, StdinMode};
use crate::outcome::{JobFailure, JobOutcome, JobOutcomeKind, SourceDiagnostic};
use crate::stream::StreamCredit;
use crate::worker_command::{ChildLimits, PrepareCommand};

/// A small generator with a fixed seed: every run tries the same inputs.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[3]
    }

    /// Flips, cuts, repeats or inserts bytes a few times.
    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            if bytes.is_empty() {
                return;
            }
            let at = self.below(bytes.len());
            match self.below(6) {
                0 => bytes[at] ^= 1 << self.below(8),
                1 => bytes[at] = self.byte(),
                2 => bytes.truncate(at),
                3 => bytes.insert(at, self.byte()),
                4 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][self.below(5)],
                _ => {
                    let until = at + self.below(bytes.len() - at);
                    let part = bytes[at..until].to_vec();
                    bytes.splice(at..at, part);
                }
            }
        }
    }
}

fn outcome() -> JobOutcome {
    JobOutcome {
        kind: JobOutcomeKind::Failed,
        exit_code: -1,
        signal: Some(9),
        has_value: true,
        error: Some(JobFailure {
            code: BoundedText::truncated("program.failed"),
            message: BoundedText::truncated("it broke: é"),
            file: BoundedText::truncated("main.ts"),
            line: 300,
            column: 7,
            call: Some(3),
        }),
        diagnostics: BoundedList::truncated(vec![SourceDiagnostic {
            file: BoundedText::truncated("main.ts"),
            line: 1,
            column: 2,
            code: BoundedText::truncated("TS1005"),
            message: BoundedText::truncated("`;` expected"),
        }]),
    }
}

fn call(number: u32, body: CallBody) -> FromChild {
    let ask = CallTarget::Tool {
        server: BoundedText::truncated("github"),
        tool: BoundedText::truncated("list_issues"),
    };
    let trace = BoundedBytes::new(vec![0, 1, 255, 7]).unwrap();
    FromChild::Call(CallRequest {
        number,
        ask,
        body,
        trace,
    })
}

/// The messages with which a child keeps an execution repeatable.
fn traced() -> [FromChild; 3] {
    [
        FromChild::Trace(BoundedBytes::new(vec![3; 500]).unwrap()),
        FromChild::Waits {
            open: 3,
            due: Some(u64::MAX),
        },
        FromChild::Unrepeatable {
            why: BoundedText::truncated("it is too long: é"),
        },
    ]
}

fn emit() -> FromChild {
    FromChild::Emit(EmittedFile {
        path: BoundedText::truncated("out/größe.csv"),
        media_type: BoundedText::truncated("text/csv"),
    })
}

fn returned(answer: CallReply) -> ToChild {
    ToChild::Return(CallResponse { number: 1, answer })
}

fn refusal() -> CallFailure {
    CallFailure {
        code: BoundedText::truncated("tools.denied"),
        message: BoundedText::truncated("not this one: é"),
        rule: Some(BoundedText::truncated("tools.default")),
        hint: None,
        retry_after_ms: Some(1500),
    }
}

fn job() -> Job {
    Job {
        version: PROTOCOL_VERSION,
        kind: JobKind::Code {
            language: JobLanguage::Python,
            file_name: BoundedText::truncated("main.py"),
            args: BoundedList::truncated(vec![BoundedText::truncated("a"), BoundedText::truncated("b")]),
            source_bytes: 1 << 20,
            input_bytes: Some(4096),
            seed: u64::MAX,
            clock: 17_000_000_000_000,
            trace_bytes: 300,
        },
        cwd: BoundedText::truncated("/workspace"),
        env: BoundedList::truncated(vec![(
            BoundedText::truncated("LANG"),
            BoundedText::truncated("C.UTF-8"),
        )]),
        stdin: StdinMode::Stream,
        network: None,
    }
}

/// Everything that one side of a pipe sends, from start to end.
fn transcript(side: PipeSide) -> Vec<u8> {
    let mut outbound = Outbound::execution(side);
    match side {
        PipeSide::Host => {
            outbound.queue_message(&ToChild::Job(job())).unwrap();
            let body = CallBody::Streamed { bytes: 40_000 };
            outbound.queue_message(&returned(CallReply::Result(body))).unwrap();
            outbound.queue_message(&ToChild::Look).unwrap();
        }
        PipeSide::Child => {
            outbound.queue_message(&FromChild::Ready).unwrap();
            outbound
                .queue_message(&call(1, CallBody::Inline(BoundedText::truncated("{\"a\":1}"))))
                .unwrap();
            for message in traced() {
                outbound.queue_message(&message).unwrap();
            }
            outbound.queue_message(&emit()).unwrap();
            outbound.queue_message(&FromChild::Done(outcome())).unwrap();
        }
    }
    for id in [64, 65, 319] {
        let tunnel = TunnelId::from_id(id).unwrap();
        outbound.open_tunnel(tunnel).unwrap();
        outbound.queue_message(&FromChild::Open { tunnel }).unwrap();
        outbound.tunnels_mut().queue_data(tunnel, &[b't'; 300]);
        outbound.tunnels_mut().queue_grant(tunnel, 100);
        if id != 65 {
            outbound.tunnels_mut().end_stream(tunnel);
        }
        outbound.tunnels_mut().close(tunnel);
    }
    for stream in PipeStream::ALL {
        if stream.sender() == side {
            outbound.queue_data(stream, &[b'x'; 300]).unwrap();
            outbound.end_stream(stream).unwrap();
        } else {
            outbound.queue_grant(StreamCredit { stream, grant: 100 });
        }
    }
    let mut bytes = Vec::new();
    while outbound.has_pending() {
        bytes.extend_from_slice(outbound.chunk());
        let count = outbound.chunk().len();
        outbound.advance(count);
    }
    bytes
}

#[test]
fn spoilt_transcripts_never_break_the_receiver() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for side in [PipeSide::Host, PipeSide::Child] {
        let good = transcript(side);
        for round in 0..20_000_usize {
            let mut bytes = good.clone();
            if round > 0 {
                random.mutate(&mut bytes);
            }
            let receiver = [u8::from(side == PipeSide::Host), 2][usize::from(round % 7 == 6)];
            bytes.splice(0..0, [receiver, random.byte()]);
            fuzz_inbound(&bytes);
        }
    }
}

#[test]
fn spoilt_messages_never_break_the_decoder() {
    fn payload(message: &impl ControlMessage) -> Vec<u8> {
        let mut frame = Vec::new();
        encode_frame(message, &mut frame).unwrap();
        frame.split_off(HEADER_BYTES)
    }
    let reason = BoundedText::truncated("no space");
    let seeds = [
        payload(&ToChild::Job(job())),
        payload(&FromChild::Done(outcome())),
        payload(&FromChild::Open {
            tunnel: TunnelId::from_id(200).unwrap(),
        }),
        payload(&traced()[0]),
        payload(&traced()[1]),
        payload(&traced()[2]),
        payload(&emit()),
        payload(&ToChild::Look),
        payload(&call(300, CallBody::Streamed { bytes: 1 << 20 })),
        payload(&returned(CallReply::Result(CallBody::Inline(BoundedText::truncated(
            "[]",
        ))))),
        payload(&returned(CallReply::Refused(refusal()))),
        payload(&WorkerReport::PrepareFailed { number: 300, reason }),
        payload(&WorkerCommand::Prepare(PrepareCommand {
            number: u32::MAX,
            language: JobLanguage::Program,
            limits: ChildLimits {
                address_space: Some(u64::MAX),
                private_memory: None,
                cpu_seconds: 62,
            },
            interpreter: BoundedText::truncated("/usr/bin/python3"),
            network: true,
        })),
    ];
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for seed in &seeds {
        fuzz_messages(seed);
        for _ in 0..20_000 {
            let mut bytes = seed.clone();
            random.mutate(&mut bytes);
            fuzz_messages(&bytes);
        }
    }
}

#[test]
fn noise_never_breaks_anything() {
    let mut random = Random(1);
    for _ in 0..5_000 {
        let length = random.below(200);
        let bytes: Vec<u8> = (0..length).map(|_| random.byte()).collect();
        fuzz_inbound(&bytes);
        fuzz_messages(&bytes);
        fuzz_relay(&bytes);
    }
    for bytes in [&[][..], &[0], &[0, 0]] {
        fuzz_inbound(bytes);
        fuzz_relay(bytes);
    }
}

#[test]
fn a_damaged_stream_of_everything_breaks_nothing() {
    let mut end = Relay::new();
    end.open_pipe(1).unwrap();
    let mut stream = Vec::new();
    for turn in 0..6_u8 {
        end.queue_packet(&[turn; 40]).unwrap();
        end.queue_pipe(&[turn; 900]);
        while end.has_pending() {
            stream.extend_from_slice(end.chunk());
            end.advance(end.chunk().len());
        }
    }
    end.close_pipe();
    assert!(end.has_pending());
    stream.extend_from_slice(end.chunk());
    let mut random = Random(7);
    for cut in [0, 1, 30, 255] {
        for _ in 0..3_000 {
            let mut bytes = [&[cut], stream.as_slice()].concat();
            random.mutate(&mut bytes);
            fuzz_relay(&bytes);
        }
    }
}
