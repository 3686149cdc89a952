use std::io::Write;
use std::os::unix::net::UnixStream as Socket;

use ringfence_wire::{
    BoundedBytes, BoundedList, BoundedText, CallRequest, CallTarget as WireAsk, FrameHeader, FrameKind, InvalidMessage,
    Job, JobKind, JobLanguage, JobOutcomeKind, PROTOCOL_VERSION, StdinMode, encode_frame,
};

use super::*;

#[derive(Debug, Default)]
struct Kept {
    asked: Vec<ToolCall>,
}

impl ChildHandler for Kept {
    fn on_unrepeatable(&mut self, _why: &str) {}

    fn on_output(&mut self, _stream: PipeStream, _bytes: &[u8]) {}

    fn on_call(&mut self, asked: ToolCall) {
        self.asked.push(asked);
    }

    fn is_full(&self) -> bool {
        false
    }
}

fn job() -> ToChild {
    ToChild::Job(Job {
        version: PROTOCOL_VERSION,
        kind: JobKind::Code {
            language: JobLanguage::TypeScript,
            file_name: BoundedText::truncated("main.ts"),
            args: BoundedList::default(),
            source_bytes: 0,
            seed: 1,
            clock: 2,
            input_bytes: None,
            trace_bytes: 0,
        },
        cwd: BoundedText::truncated("/workspace"),
        env: BoundedList::default(),
        stdin: StdinMode::Empty,
        network: None,
    })
}

fn call(number: u32, body: CallBody) -> FromChild {
    let ask = WireAsk::List;
    let trace = BoundedBytes::default();
    FromChild::Call(CallRequest {
        number,
        ask,
        body,
        trace,
    })
}

fn small(number: u32) -> FromChild {
    call(number, CallBody::Inline(BoundedText::truncated("{}")))
}

fn done() -> FromChild {
    FromChild::Done(JobOutcome {
        kind: JobOutcomeKind::Completed,
        exit_code: 0,
        signal: None,
        has_value: false,
        error: None,
        diagnostics: BoundedList::default(),
    })
}

fn frames(messages: &[FromChild]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for message in messages {
        encode_frame(message, &mut bytes).unwrap();
    }
    bytes
}

fn data(stream: u16, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap();
    let header = FrameHeader::new(FrameKind::Data, stream, length).unwrap();
    [&header.to_bytes()[..], bytes].concat()
}

/// How the host reacts to a child that has its job and then sends `bytes`.
async fn hear(bytes: &[u8]) -> (Result<(), PipeError>, Kept, HostPipe) {
    hear_of(&job(), bytes).await
}

/// How the host reacts to a child that has this job and then sends `bytes`.
async fn hear_of(job: &ToChild, bytes: &[u8]) -> (Result<(), PipeError>, Kept, HostPipe) {
    let (ours, mut child) = Socket::pair().unwrap();
    let mut pipe = HostPipe::new(ours.into()).unwrap();
    let mut kept = Kept::default();
    child.write_all(&frames(&[FromChild::Ready])).unwrap();
    pipe.readable().await.unwrap();
    pipe.receive(&mut kept).unwrap();
    pipe.queue_message(job).unwrap();
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || {
        // A host that receives invalid data stops reading.
        let _ = child.write_all(&bytes);
    });
    let heard = loop {
        pipe.readable().await.unwrap();
        match pipe.receive(&mut kept) {
            Ok(PipeProgress::Open) => {}
            Ok(PipeProgress::Over) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    if heard.is_ok() {
        writer.join().unwrap();
    }
    (heard, kept, pipe)
}

async fn check(bytes: Vec<u8>, expected: PipeError) {
    let (heard, ..) = hear(&bytes).await;
    let error = heard.unwrap_err();
    assert_eq!(format!("{error:?}"), format!("{expected:?}"));
    assert!(error.is_child_fault(), "{error:?}");
}

#[tokio::test]
async fn a_child_that_breaks_the_rules_of_calls_is_not_heard_further() {
    let started = FromChild::Started;
    let turn = |error| PipeError::Turn(error);
    check(frames(&[small(1)]), turn(ProtocolViolation::Child)).await;
    for (number, next, before) in [(0, 1, None), (2, 1, None), (u32::MAX, 1, None), (1, 2, Some(small(1)))] {
        let said: Vec<FromChild> = [Some(started.clone()), before, Some(small(number))]
            .into_iter()
            .flatten()
            .collect();
        check(frames(&said), turn(ProtocolViolation::Call { number, next })).await;
    }
    check(
        frames(&[started.clone(), small(1), done(), small(2)]),
        turn(ProtocolViolation::Child),
    )
    .await;
    let flood: Vec<FromChild> = std::iter::once(started.clone()).chain((1..=5000).map(small)).collect();
    check(frames(&flood), turn(ProtocolViolation::TooManyCalls)).await;
    check(
        [frames(std::slice::from_ref(&started)), data(6, b"x")].concat(),
        turn(ProtocolViolation::Body { bytes: 1 }),
    )
    .await;
    check(
        [
            frames(&[started.clone(), call(1, CallBody::Streamed { bytes: 40_000 })]),
            data(6, &vec![0xff; 40_000]),
        ]
        .concat(),
        PipeError::NotText,
    )
    .await;
    // The types of this crate cannot express such a message.
    let mut short = frames(&[started]);
    short.extend_from_slice(&FrameHeader::new(FrameKind::Control, 0, 6).unwrap().to_bytes());
    short.extend_from_slice(&[3, 1, 3, 1, 9, 0]);
    check(short, PipeError::Message(InvalidMessage::Body { bytes: 9 }.into())).await;
}

fn traced(number: u32, body: CallBody, trace: &[u8]) -> FromChild {
    FromChild::Call(CallRequest {
        number,
        ask: WireAsk::List,
        body,
        trace: BoundedBytes::new(trace.to_vec()).unwrap(),
    })
}

fn piece(bytes: &[u8]) -> FromChild {
    FromChild::Trace(BoundedBytes::new(bytes.to_vec()).unwrap())
}

#[tokio::test]
async fn a_trace_is_given_to_the_call_it_led_to_or_to_the_end() {
    let said = [
        frames(&[
            FromChild::Started,
            piece(b"ab"),
            piece(b"c"),
            traced(1, CallBody::Streamed { bytes: 40_000 }, b"d"),
            traced(2, CallBody::Inline(BoundedText::truncated("{}")), b"e"),
            small(3),
            piece(b"f"),
            FromChild::Unrepeatable {
                why: BoundedText::truncated("threads"),
            },
        ]),
        data(6, &vec![b'y'; 40_000]),
    ];
    let (heard, kept, mut pipe) = hear(&said.concat()).await;
    heard.unwrap();
    let found: Vec<(u32, &[u8])> = kept.asked.iter().map(|one| (one.number, &*one.trace)).collect();
    assert_eq!(found, [(2, &b"e"[..]), (3, b""), (1, b"abcd")]);
    assert_eq!(
        (pipe.take_trace(), pipe.unrepeatable()),
        (b"f".to_vec(), Some("threads"))
    );
}

#[tokio::test]
async fn a_child_that_breaks_the_rules_of_traces_is_not_heard_further() {
    let started = FromChild::Started;
    let turn = |error| PipeError::Turn(error);
    let why = BoundedText::truncated("threads");
    let over = FromChild::Unrepeatable { why };
    let waits = FromChild::Waits { open: 0, due: None };
    check(frames(&[piece(b"x")]), turn(ProtocolViolation::Child)).await;
    check(frames(&[started.clone(), waits]), turn(ProtocolViolation::Waits)).await;
    check(
        frames(&[started.clone(), over.clone(), over.clone()]),
        turn(ProtocolViolation::Unrepeatable),
    )
    .await;
    check(
        frames(&[started.clone(), over, piece(b"xy")]),
        turn(ProtocolViolation::Trace { bytes: 2 }),
    )
    .await;
    let flood: Vec<FromChild> = std::iter::once(started)
        .chain(std::iter::repeat_n(piece(&vec![0; 32 * 1024]), 140))
        .collect();
    check(frames(&flood), turn(ProtocolViolation::Trace { bytes: 32 * 1024 })).await;
}

fn emit(name: &str) -> FromChild {
    FromChild::Emit(EmittedFile::new(name, "text/csv").unwrap())
}

#[tokio::test]
async fn files_to_go_out_are_kept_as_they_were_named() {
    let most: Vec<FromChild> = (0..64).map(|number| emit(&format!("{number}.csv"))).collect();
    let said = [&[FromChild::Started], &most[..]].concat();
    let (heard, _, mut pipe) = hear(&frames(&said)).await;
    heard.unwrap();
    let kept: Vec<FromChild> = pipe.take_emitted().into_iter().map(FromChild::Emit).collect();
    assert_eq!(kept, most);
}

#[tokio::test]
async fn a_child_that_breaks_the_rules_of_files_is_not_heard_further() {
    let started = FromChild::Started;
    let turn = |error| PipeError::Turn(error);
    check(frames(&[emit("a")]), turn(ProtocolViolation::Child)).await;
    check(
        frames(&[started.clone(), done(), emit("a")]),
        turn(ProtocolViolation::Child),
    )
    .await;
    let flood: Vec<FromChild> = std::iter::once(started.clone())
        .chain(std::iter::repeat_n(emit("a"), 10_000))
        .collect();
    check(frames(&flood), turn(ProtocolViolation::TooManyEmits)).await;
    // The types of this crate cannot express such messages: `../x`, and a media type of two lines.
    for (payload, unfit) in [
        (&b"\x08\x04../x\x03a/b"[..], InvalidMessage::Path),
        (b"\x08\x01x\x04a/\nb", InvalidMessage::MediaType),
    ] {
        let mut bytes = frames(std::slice::from_ref(&started));
        let length = u32::try_from(payload.len()).unwrap();
        bytes.extend_from_slice(&FrameHeader::new(FrameKind::Control, 0, length).unwrap().to_bytes());
        bytes.extend_from_slice(payload);
        check(bytes, PipeError::Message(unfit.into())).await;
    }
    let ToChild::Job(mut program) = job() else { panic!() };
    program.kind = JobKind::Program {
        argv: BoundedList::truncated(vec![BoundedText::truncated("true")]),
    };
    let (heard, ..) = hear_of(&ToChild::Job(program), &frames(&[started, emit("a")])).await;
    let error = heard.unwrap_err();
    assert!(
        matches!(error, PipeError::Turn(ProtocolViolation::TooManyEmits)),
        "{error:?}"
    );
}

#[tokio::test]
async fn bodies_are_given_to_their_calls() {
    let long = "y".repeat(40_000);
    let said = [
        frames(&[
            FromChild::Started,
            call(1, CallBody::Streamed { bytes: 40_000 }),
            small(2),
        ]),
        data(6, &long.as_bytes()[..30_000]),
        data(6, &long.as_bytes()[30_000..]),
    ];
    let (heard, kept, mut pipe) = hear(&said.concat()).await;
    heard.unwrap();
    let found: Vec<(u32, &str)> = kept.asked.iter().map(|one| (one.number, one.body.as_str())).collect();
    assert_eq!(found, [(2, "{}"), (1, long.as_str())]);
    let answer = |number| ToolReply {
        number,
        answer: Ok("1".to_owned()),
    };
    for number in [1, 1, 7] {
        pipe.queue_reply(answer(number));
    }
    assert_eq!(pipe.replies.len(), 1, "one answer to one call");
}
