use super::*;
use crate::bounded::{Bytes, List, Text};
use crate::call::{Answer, Ask, Body, Call, Refusal, Return};
use crate::emit::Emit;
use crate::job::{Job, JobKind, Language, StdinMode, VERSION};
use crate::order::{ChildLimits, Preparation};
use crate::outcome::{Diagnostic, Fault, Outcome, OutcomeKind};
use crate::stream::Credit;

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

fn outcome() -> Outcome {
    Outcome {
        kind: OutcomeKind::Failed,
        exit_code: -1,
        signal: Some(9),
        has_value: true,
        error: Some(Fault {
            code: Text::cut("program.failed"),
            message: Text::cut("it broke: é"),
            file: Text::cut("main.ts"),
            line: 300,
            column: 7,
            call: Some(3),
        }),
        diagnostics: List::cut(vec![Diagnostic {
            file: Text::cut("main.ts"),
            line: 1,
            column: 2,
            code: Text::cut("TS1005"),
            message: Text::cut("`;` expected"),
        }]),
    }
}

fn call(number: u32, body: Body) -> FromChild {
    let ask = Ask::Tool {
        server: Text::cut("github"),
        tool: Text::cut("list_issues"),
    };
    let trace = Bytes::new(vec![0, 1, 255, 7]).unwrap();
    FromChild::Call(Call {
        number,
        ask,
        body,
        trace,
    })
}

/// The messages with which a child keeps an execution repeatable.
fn traced() -> [FromChild; 3] {
    [
        FromChild::Trace(Bytes::new(vec![3; 500]).unwrap()),
        FromChild::Waits {
            open: 3,
            due: Some(u64::MAX),
        },
        FromChild::Unrepeatable {
            why: Text::cut("it is too long: é"),
        },
    ]
}

fn emit() -> FromChild {
    FromChild::Emit(Emit {
        path: Text::cut("out/größe.csv"),
        media_type: Text::cut("text/csv"),
    })
}

fn returned(answer: Answer) -> ToChild {
    ToChild::Return(Return { number: 1, answer })
}

fn refusal() -> Refusal {
    Refusal {
        code: Text::cut("tools.denied"),
        message: Text::cut("not this one: é"),
        rule: Some(Text::cut("tools.default")),
        hint: None,
        retry_after_ms: Some(1500),
    }
}

fn job() -> Job {
    Job {
        version: VERSION,
        kind: JobKind::Code {
            language: Language::Python,
            file_name: Text::cut("main.py"),
            args: List::cut(vec![Text::cut("a"), Text::cut("b")]),
            source_bytes: 1 << 20,
            input_bytes: Some(4096),
            seed: u64::MAX,
            clock: 17_000_000_000_000,
            trace_bytes: 300,
        },
        cwd: Text::cut("/workspace"),
        env: List::cut(vec![(Text::cut("LANG"), Text::cut("C.UTF-8"))]),
        stdin: StdinMode::Stream,
        network: None,
    }
}

/// Everything that one side of a pipe sends, from start to end.
fn transcript(side: Side) -> Vec<u8> {
    let mut outbound = Outbound::execution(side);
    match side {
        Side::Host => {
            outbound.control(&ToChild::Job(job())).unwrap();
            let body = Body::Streamed { bytes: 40_000 };
            outbound.control(&returned(Answer::Result(body))).unwrap();
            outbound.control(&ToChild::Look).unwrap();
        }
        Side::Child => {
            outbound.control(&FromChild::Ready).unwrap();
            outbound
                .control(&call(1, Body::Inline(Text::cut("{\"a\":1}"))))
                .unwrap();
            for message in traced() {
                outbound.control(&message).unwrap();
            }
            outbound.control(&emit()).unwrap();
            outbound.control(&FromChild::Done(outcome())).unwrap();
        }
    }
    for id in [64, 65, 319] {
        let tunnel = TunnelId::from_id(id).unwrap();
        outbound.open(tunnel).unwrap();
        outbound.control(&FromChild::Open { tunnel }).unwrap();
        outbound.tunnels_mut().data(tunnel, &[b't'; 300]);
        outbound.tunnels_mut().grant(tunnel, 100);
        if id != 65 {
            outbound.tunnels_mut().end(tunnel);
        }
        outbound.tunnels_mut().close(tunnel);
    }
    for stream in Stream::ALL {
        if stream.sender() == side {
            outbound.data(stream, &[b'x'; 300]).unwrap();
            outbound.end(stream).unwrap();
        } else {
            outbound.grant(Credit { stream, grant: 100 });
        }
    }
    let mut bytes = Vec::new();
    while outbound.pending() {
        bytes.extend_from_slice(outbound.chunk());
        let count = outbound.chunk().len();
        outbound.advance(count);
    }
    bytes
}

#[test]
fn spoilt_transcripts_never_break_the_receiver() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for side in [Side::Host, Side::Child] {
        let good = transcript(side);
        for round in 0..20_000_usize {
            let mut bytes = good.clone();
            if round > 0 {
                random.mutate(&mut bytes);
            }
            let receiver = [u8::from(side == Side::Host), 2][usize::from(round % 7 == 6)];
            bytes.splice(0..0, [receiver, random.byte()]);
            fuzz_inbound(&bytes);
        }
    }
}

#[test]
fn spoilt_messages_never_break_the_decoder() {
    fn payload(message: &impl Message) -> Vec<u8> {
        let mut frame = Vec::new();
        encode_frame(message, &mut frame).unwrap();
        frame.split_off(HEADER)
    }
    let reason = Text::cut("no space");
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
        payload(&call(300, Body::Streamed { bytes: 1 << 20 })),
        payload(&returned(Answer::Result(Body::Inline(Text::cut("[]"))))),
        payload(&returned(Answer::Refused(refusal()))),
        payload(&Report::PrepareFailed { number: 300, reason }),
        payload(&Order::Prepare(Preparation {
            number: u32::MAX,
            language: Language::Program,
            limits: ChildLimits {
                address_space: Some(u64::MAX),
                private_memory: None,
                cpu_seconds: 62,
            },
            interpreter: Text::cut("/usr/bin/python3"),
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
    }
    for bytes in [&[][..], &[0], &[0, 0]] {
        fuzz_inbound(bytes);
    }
}
