//! Every message and frame of version 8, byte for byte. A change here is a change of the protocol: it needs a new version.

use std::fmt::Write as _;

use ringfence_wire::{
    BoundedBytes, BoundedList, BoundedText, CallBody, CallFailure, CallReply, CallRequest, CallResponse, CallTarget,
    ChildLimits, ControlMessage, EmittedFile, FrameHeader, FrameKind, FromChild, Job, JobFailure, JobKind, JobLanguage,
    JobOutcome, JobOutcomeKind, NetworkProxy, Outbound, PROTOCOL_VERSION, PipeSide, PipeStream, PrepareCommand,
    SourceDiagnostic, StdinMode, StreamCredit, ToChild, TunnelId, WorkerCommand, WorkerReport, decode, encode_frame,
};

const PINNED: &str = include_str!("../../testdata/v8/messages.txt");

fn text<const N: usize>(text: &str) -> BoundedText<N> {
    BoundedText::truncated(text)
}

fn job(kind: JobKind) -> Job {
    Job {
        version: PROTOCOL_VERSION,
        kind,
        cwd: text("/workspace"),
        env: BoundedList::truncated(vec![(text("LANG"), text("C.UTF-8")), (text("E"), text(""))]),
        stdin: StdinMode::Empty,
        network: None,
    }
}

fn code(language: JobLanguage) -> ToChild {
    ToChild::Job(job(JobKind::Code {
        language,
        file_name: text("main.ts"),
        args: BoundedList::truncated(vec![text("a"), text("é")]),
        source_bytes: 8_388_608,
        input_bytes: (language == JobLanguage::Python).then_some(16_777_216),
        seed: 0x0102_0304_0506_0708,
        clock: 17_000_000_000_000,
        trace_bytes: 4_194_304,
    }))
}

fn done(kind: JobOutcomeKind) -> FromChild {
    FromChild::Done(JobOutcome {
        kind,
        exit_code: 0,
        signal: None,
        has_value: false,
        error: None,
        diagnostics: BoundedList::default(),
    })
}

fn orders() -> Vec<WorkerCommand> {
    let prepare = |number, language| {
        let limits = ChildLimits {
            address_space: Some(1 << 30),
            private_memory: None,
            cpu_seconds: 62,
        };
        WorkerCommand::Prepare(PrepareCommand {
            number,
            language,
            limits,
            interpreter: text("/usr/bin/python3"),
            network: language == JobLanguage::Python,
        })
    };
    vec![
        prepare(0, JobLanguage::TypeScript),
        prepare(127, JobLanguage::JavaScript),
        prepare(128, JobLanguage::Python),
        prepare(u32::MAX, JobLanguage::Program),
        WorkerCommand::Finish { number: 300 },
        WorkerCommand::Wipe,
        WorkerCommand::Shutdown,
    ]
}

fn reports() -> Vec<WorkerReport> {
    let reason = text("no space");
    vec![
        WorkerReport::Ready {
            version: PROTOCOL_VERSION,
        },
        WorkerReport::Prepared { number: 7 },
        WorkerReport::PrepareFailed {
            number: 7,
            reason: text("cannot fork"),
        },
        WorkerReport::Finished { number: 7 },
        WorkerReport::Wiped,
        WorkerReport::WipeFailed { reason },
        WorkerReport::ZygoteFailed { reason: text("") },
    ]
}

fn to_child() -> Vec<ToChild> {
    let mut program = job(JobKind::Program {
        argv: BoundedList::truncated(vec![text("git"), text("--version")]),
    });
    program.stdin = StdinMode::Stream;
    program.network = Some(NetworkProxy {
        port: 3128,
        trust: text("-----BEGIN CERTIFICATE-----"),
    });
    vec![
        code(JobLanguage::TypeScript),
        code(JobLanguage::JavaScript),
        code(JobLanguage::Python),
        ToChild::Job(program),
        ToChild::Job(job(JobKind::Shell {
            file_name: text("-"),
            args: BoundedList::default(),
            source_bytes: 12,
        })),
        ToChild::Cancel,
        returned(1, CallReply::Result(CallBody::Inline(text("[1]")))),
        returned(300, CallReply::Result(CallBody::Streamed { bytes: 16_777_216 })),
        returned(
            u32::MAX,
            CallReply::Refused(CallFailure {
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

fn returned(number: u32, answer: CallReply) -> ToChild {
    ToChild::Return(CallResponse { number, answer })
}

fn call(number: u32, ask: CallTarget, body: CallBody) -> FromChild {
    let trace = BoundedBytes::new(if number == 2 { vec![0, 255, 7] } else { Vec::new() }).unwrap();
    FromChild::Call(CallRequest {
        number,
        ask,
        body,
        trace,
    })
}

fn from_child() -> Vec<FromChild> {
    let kinds = [
        JobOutcomeKind::Completed,
        JobOutcomeKind::Failed,
        JobOutcomeKind::OutOfMemory,
        JobOutcomeKind::NoSuchProgram,
        JobOutcomeKind::ImportRefused,
        JobOutcomeKind::NotJson,
        JobOutcomeKind::SyntaxError,
        JobOutcomeKind::Stuck,
        JobOutcomeKind::Cancelled,
        JobOutcomeKind::Diverged,
    ];
    let mut messages = vec![FromChild::Ready, FromChild::Started];
    messages.extend(kinds.map(done));
    messages.push(FromChild::Done(JobOutcome {
        kind: JobOutcomeKind::Failed,
        exit_code: -1,
        signal: Some(9),
        has_value: true,
        error: Some(JobFailure {
            code: text("program.failed"),
            message: text("it broke"),
            file: text("main.ts"),
            line: 300,
            column: 7,
            call: Some(3),
        }),
        diagnostics: BoundedList::truncated(vec![SourceDiagnostic {
            file: text("main.ts"),
            line: 1,
            column: 2,
            code: text("TS1005"),
            message: text("`;` expected"),
        }]),
    }));
    let tool = CallTarget::Tool {
        server: text("github"),
        tool: text("list_issues"),
    };
    messages.push(call(1, tool, CallBody::Inline(text("{}"))));
    messages.push(call(2, CallTarget::Search, CallBody::Streamed { bytes: 32_769 }));
    messages.push(call(128, CallTarget::Describe, CallBody::Inline(text(""))));
    messages.push(call(u32::MAX, CallTarget::List, CallBody::Inline(text("é"))));
    messages.push(call(3, CallTarget::Fetch, CallBody::Inline(text("{}"))));
    messages.extend([64, 319].map(|id| FromChild::Open {
        tunnel: TunnelId::from_id(id).unwrap(),
    }));
    messages.push(FromChild::Trace(BoundedBytes::new(vec![1, 128, 2]).unwrap()));
    messages.push(FromChild::Waits { open: 0, due: None });
    messages.push(FromChild::Waits {
        open: 300,
        due: Some(17_000_000_000_001),
    });
    messages.push(FromChild::Unrepeatable { why: text("threads") });
    messages.push(FromChild::Emit(EmittedFile {
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
fn pin<M: ControlMessage + std::fmt::Debug + PartialEq>(table: &mut String, messages: &[M]) {
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
    let order = |order: &WorkerCommand| match order {
        WorkerCommand::Prepare(_) => 0,
        WorkerCommand::Finish { .. } => 1,
        WorkerCommand::Wipe => 2,
        WorkerCommand::Shutdown => 3,
    };
    let report = |report: &WorkerReport| match report {
        WorkerReport::Ready { .. } => 0,
        WorkerReport::Prepared { .. } => 1,
        WorkerReport::PrepareFailed { .. } => 2,
        WorkerReport::Finished { .. } => 3,
        WorkerReport::Wiped => 4,
        WorkerReport::WipeFailed { .. } => 5,
        WorkerReport::ZygoteFailed { .. } => 6,
    };
    let to_child_kind = |message: &ToChild| match message {
        ToChild::Job(job) => match &job.kind {
            JobKind::Code { language, .. } => match language {
                JobLanguage::TypeScript => 0,
                JobLanguage::JavaScript => 1,
                JobLanguage::Python => 2,
                JobLanguage::Program => 99,
            },
            JobKind::Program { .. } => 3,
            JobKind::Shell { .. } => 4,
        },
        ToChild::Cancel => 5,
        ToChild::Return(returned) => match returned.answer {
            CallReply::Result(CallBody::Inline(_)) => 6,
            CallReply::Result(CallBody::Streamed { .. }) => 7,
            CallReply::Refused(_) => 8,
        },
        ToChild::Look => 9,
    };
    let from_child_kind = |message: &FromChild| match message {
        FromChild::Ready => 0,
        FromChild::Started => 1,
        FromChild::Done(outcome) => match outcome.kind {
            JobOutcomeKind::Completed => 2,
            JobOutcomeKind::Failed => 3,
            JobOutcomeKind::OutOfMemory => 4,
            JobOutcomeKind::NoSuchProgram => 5,
            JobOutcomeKind::ImportRefused => 6,
            JobOutcomeKind::NotJson => 7,
            JobOutcomeKind::SyntaxError => 8,
            JobOutcomeKind::Stuck => 9,
            JobOutcomeKind::Cancelled => 10,
            JobOutcomeKind::Diverged => 11,
        },
        FromChild::Call(call) => match call.ask {
            CallTarget::Tool { .. } => 12,
            CallTarget::Search => 13,
            CallTarget::Describe => 14,
            CallTarget::List => 15,
            CallTarget::Fetch => 21,
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
        (FrameKind::Control, 0, 0x1_0000, "0000010000000000"),
        (FrameKind::Data, 3, 0x0102, "0201000003000100"),
        (FrameKind::End, 5, 0, "0000000005000200"),
        (FrameKind::Credit, 2, 4, "0400000002000300"),
        (FrameKind::Close, 319, 0, "000000003f010400"),
    ] {
        let header = FrameHeader::new(kind, stream, length).unwrap();
        assert_eq!(hex(&header.to_bytes()), bytes);
    }
    let mut outbound = Outbound::execution(PipeSide::Host);
    outbound.queue_message(&ToChild::Cancel).unwrap();
    outbound.queue_data(PipeStream::Source, b"1+1").unwrap();
    outbound.end_stream(PipeStream::Source).unwrap();
    outbound.queue_grant(StreamCredit {
        stream: PipeStream::Stdout,
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
