//! Every message and frame of version 8, byte for byte. A change here is a change of the protocol: it needs a new version.

use std::fmt::Write as _;

use ringfence_wire::{
    Answer, Ask, Body, Bytes, Call, ChildLimits, Credit, Diagnostic, Emit, Fault, FromChild, Header, Job, JobKind,
    Kind, Language, List, Message, Network, Order, Outbound, Outcome, OutcomeKind, Preparation, Refusal, Report,
    Return, Side, StdinMode, Stream, Text, ToChild, TunnelId, VERSION, decode, encode_frame,
};

const PINNED: &str = include_str!("../../testdata/v8/messages.txt");

fn text<const N: usize>(text: &str) -> Text<N> {
    Text::cut(text)
}

fn job(kind: JobKind) -> Job {
    Job {
        version: VERSION,
        kind,
        cwd: text("/workspace"),
        env: List::cut(vec![(text("LANG"), text("C.UTF-8")), (text("E"), text(""))]),
        stdin: StdinMode::Empty,
        network: None,
    }
}

fn code(language: Language) -> ToChild {
    ToChild::Job(job(JobKind::Code {
        language,
        file_name: text("main.ts"),
        args: List::cut(vec![text("a"), text("é")]),
        source_bytes: 8_388_608,
        input_bytes: (language == Language::Python).then_some(16_777_216),
        seed: 0x0102_0304_0506_0708,
        clock: 17_000_000_000_000,
        trace_bytes: 4_194_304,
    }))
}

fn done(kind: OutcomeKind) -> FromChild {
    FromChild::Done(Outcome {
        kind,
        exit_code: 0,
        signal: None,
        has_value: false,
        error: None,
        diagnostics: List::default(),
    })
}

fn orders() -> Vec<Order> {
    let prepare = |number, language| {
        let limits = ChildLimits {
            address_space: Some(1 << 30),
            private_memory: None,
            cpu_seconds: 62,
        };
        Order::Prepare(Preparation {
            number,
            language,
            limits,
            interpreter: text("/usr/bin/python3"),
            network: language == Language::Python,
        })
    };
    vec![
        prepare(0, Language::TypeScript),
        prepare(127, Language::JavaScript),
        prepare(128, Language::Python),
        prepare(u32::MAX, Language::Program),
        Order::Finish { number: 300 },
        Order::Wipe,
        Order::Shutdown,
    ]
}

fn reports() -> Vec<Report> {
    let reason = text("no space");
    vec![
        Report::Ready { version: VERSION },
        Report::Prepared { number: 7 },
        Report::PrepareFailed {
            number: 7,
            reason: text("cannot fork"),
        },
        Report::Finished { number: 7 },
        Report::Wiped,
        Report::WipeFailed { reason },
        Report::ZygoteFailed { reason: text("") },
    ]
}

fn to_child() -> Vec<ToChild> {
    let mut program = job(JobKind::Program {
        argv: List::cut(vec![text("git"), text("--version")]),
    });
    program.stdin = StdinMode::Stream;
    program.network = Some(Network {
        port: 3128,
        trust: text("-----BEGIN CERTIFICATE-----"),
    });
    vec![
        code(Language::TypeScript),
        code(Language::JavaScript),
        code(Language::Python),
        ToChild::Job(program),
        ToChild::Job(job(JobKind::Shell {
            file_name: text("-"),
            args: List::default(),
            source_bytes: 12,
        })),
        ToChild::Cancel,
        returned(1, Answer::Result(Body::Inline(text("[1]")))),
        returned(300, Answer::Result(Body::Streamed { bytes: 16_777_216 })),
        returned(
            u32::MAX,
            Answer::Refused(Refusal {
                code: text("tools.denied"),
                message: text("not this one"),
                rule: Some(text("tools.rules[3]")),
                hint: None,
                retry_after_ms: Some(60_000),
            }),
        ),
        ToChild::Look,
    ]
}

fn returned(number: u32, answer: Answer) -> ToChild {
    ToChild::Return(Return { number, answer })
}

fn call(number: u32, ask: Ask, body: Body) -> FromChild {
    let trace = Bytes::new(if number == 2 { vec![0, 255, 7] } else { Vec::new() }).unwrap();
    FromChild::Call(Call {
        number,
        ask,
        body,
        trace,
    })
}

fn from_child() -> Vec<FromChild> {
    let kinds = [
        OutcomeKind::Completed,
        OutcomeKind::Failed,
        OutcomeKind::OutOfMemory,
        OutcomeKind::NoSuchProgram,
        OutcomeKind::ImportRefused,
        OutcomeKind::NotJson,
        OutcomeKind::SyntaxError,
        OutcomeKind::Stuck,
        OutcomeKind::Cancelled,
        OutcomeKind::Diverged,
    ];
    let mut messages = vec![FromChild::Ready, FromChild::Started];
    messages.extend(kinds.map(done));
    messages.push(FromChild::Done(Outcome {
        kind: OutcomeKind::Failed,
        exit_code: -1,
        signal: Some(9),
        has_value: true,
        error: Some(Fault {
            code: text("program.failed"),
            message: text("it broke"),
            file: text("main.ts"),
            line: 300,
            column: 7,
            call: Some(3),
        }),
        diagnostics: List::cut(vec![Diagnostic {
            file: text("main.ts"),
            line: 1,
            column: 2,
            code: text("TS1005"),
            message: text("`;` expected"),
        }]),
    }));
    let tool = Ask::Tool {
        server: text("github"),
        tool: text("list_issues"),
    };
    messages.push(call(1, tool, Body::Inline(text("{}"))));
    messages.push(call(2, Ask::Search, Body::Streamed { bytes: 32_769 }));
    messages.push(call(128, Ask::Describe, Body::Inline(text(""))));
    messages.push(call(u32::MAX, Ask::List, Body::Inline(text("é"))));
    messages.push(call(3, Ask::Fetch, Body::Inline(text("{}"))));
    messages.extend([64, 319].map(|id| FromChild::Open {
        tunnel: TunnelId::from_id(id).unwrap(),
    }));
    messages.push(FromChild::Trace(Bytes::new(vec![1, 128, 2]).unwrap()));
    messages.push(FromChild::Waits { open: 0, due: None });
    messages.push(FromChild::Waits {
        open: 300,
        due: Some(17_000_000_000_001),
    });
    messages.push(FromChild::Unrepeatable { why: text("threads") });
    messages.push(FromChild::Emit(Emit {
        path: text("out/report.csv"),
        media_type: text("text/csv"),
    }));
    messages
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Adds one line for each message: its bytes, then its debug text. Each must also decode to itself.
fn pin<M: Message + std::fmt::Debug + PartialEq>(table: &mut String, messages: &[M]) {
    for message in messages {
        let mut frame = Vec::new();
        encode_frame(message, &mut frame).unwrap();
        assert_eq!(decode::<M>(&frame[8..]).as_ref(), Ok(message));
        let _ = writeln!(table, "{} {message:?}", hex(&frame));
    }
}

#[test]
fn every_message_has_its_pinned_bytes() {
    let mut table = String::new();
    pin(&mut table, &orders());
    pin(&mut table, &reports());
    pin(&mut table, &to_child());
    pin(&mut table, &from_child());
    assert_eq!(table, PINNED, "now:\n{table}");
}

#[track_caller]
fn check(mut found: Vec<usize>, variants: usize) {
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, (0..variants).collect::<Vec<_>>());
}

/// Every variant of every message is in the table. A new variant does not compile until it is in one of these lists.
#[test]
fn no_variant_is_left_unpinned() {
    let order = |order: &Order| match order {
        Order::Prepare(_) => 0,
        Order::Finish { .. } => 1,
        Order::Wipe => 2,
        Order::Shutdown => 3,
    };
    let report = |report: &Report| match report {
        Report::Ready { .. } => 0,
        Report::Prepared { .. } => 1,
        Report::PrepareFailed { .. } => 2,
        Report::Finished { .. } => 3,
        Report::Wiped => 4,
        Report::WipeFailed { .. } => 5,
        Report::ZygoteFailed { .. } => 6,
    };
    let to_child_kind = |message: &ToChild| match message {
        ToChild::Job(job) => match &job.kind {
            JobKind::Code { language, .. } => match language {
                Language::TypeScript => 0,
                Language::JavaScript => 1,
                Language::Python => 2,
                Language::Program => 99,
            },
            JobKind::Program { .. } => 3,
            JobKind::Shell { .. } => 4,
        },
        ToChild::Cancel => 5,
        ToChild::Return(returned) => match returned.answer {
            Answer::Result(Body::Inline(_)) => 6,
            Answer::Result(Body::Streamed { .. }) => 7,
            Answer::Refused(_) => 8,
        },
        ToChild::Look => 9,
    };
    let from_child_kind = |message: &FromChild| match message {
        FromChild::Ready => 0,
        FromChild::Started => 1,
        FromChild::Done(outcome) => match outcome.kind {
            OutcomeKind::Completed => 2,
            OutcomeKind::Failed => 3,
            OutcomeKind::OutOfMemory => 4,
            OutcomeKind::NoSuchProgram => 5,
            OutcomeKind::ImportRefused => 6,
            OutcomeKind::NotJson => 7,
            OutcomeKind::SyntaxError => 8,
            OutcomeKind::Stuck => 9,
            OutcomeKind::Cancelled => 10,
            OutcomeKind::Diverged => 11,
        },
        FromChild::Call(call) => match call.ask {
            Ask::Tool { .. } => 12,
            Ask::Search => 13,
            Ask::Describe => 14,
            Ask::List => 15,
            Ask::Fetch => 21,
        },
        FromChild::Open { .. } => 16,
        FromChild::Trace(_) => 17,
        FromChild::Waits { .. } => 18,
        FromChild::Unrepeatable { .. } => 19,
        FromChild::Emit(_) => 20,
    };
    check(orders().iter().map(order).collect(), 4);
    check(reports().iter().map(report).collect(), 7);
    check(to_child().iter().map(to_child_kind).collect(), 10);
    check(from_child().iter().map(from_child_kind).collect(), 22);
}

#[test]
fn every_frame_has_its_pinned_bytes() {
    for (kind, stream, length, bytes) in [
        (Kind::Control, 0, 0x1_0000, "0000010000000000"),
        (Kind::Data, 3, 0x0102, "0201000003000100"),
        (Kind::End, 5, 0, "0000000005000200"),
        (Kind::Credit, 2, 4, "0400000002000300"),
        (Kind::Close, 319, 0, "000000003f010400"),
    ] {
        let header = Header::new(kind, stream, length).unwrap();
        assert_eq!(hex(&header.write()), bytes);
    }
    let mut outbound = Outbound::execution(Side::Host);
    outbound.control(&ToChild::Cancel).unwrap();
    outbound.data(Stream::Source, b"1+1").unwrap();
    outbound.end(Stream::Source).unwrap();
    outbound.grant(Credit {
        stream: Stream::Stdout,
        grant: 131_072,
    });
    assert_eq!(
        hex(outbound.chunk()),
        concat!(
            "0100000000000000",
            "01",
            "0400000003000300",
            "00000200",
            "0300000001000100",
            "312b31",
            "0000000001000200",
        )
    );
}
