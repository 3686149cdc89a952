use std::io::Write;
use std::os::unix::net::UnixStream as Socket;

use ringfence_wire::{
    Ask as WireAsk, Call, Header, Job, JobKind, Kind, Language, List, OutcomeKind, StdinMode, Text, Unfit, VERSION,
    encode_frame,
};

use super::*;

#[derive(Debug, Default)]
struct Kept {
    asked: Vec<Asked>,
}

impl Receiver for Kept {
    fn output(&mut self, _stream: Stream, _bytes: &[u8]) {}

    fn asked(&mut self, asked: Asked) {
        self.asked.push(asked);
    }

    fn is_full(&self) -> bool {
        false
    }
}

fn job() -> ToChild {
    ToChild::Job(Job {
        version: VERSION,
        kind: JobKind::Code {
            language: Language::TypeScript,
            file_name: Text::cut("main.ts"),
            args: List::default(),
            source_bytes: 0,
        },
        cwd: Text::cut("/workspace"),
        env: List::default(),
        stdin: StdinMode::Empty,
        network: None,
    })
}

fn call(number: u32, body: Body) -> FromChild {
    let ask = WireAsk::List;
    FromChild::Call(Call { number, ask, body })
}

fn small(number: u32) -> FromChild {
    call(number, Body::Inline(Text::cut("{}")))
}

fn done() -> FromChild {
    FromChild::Done(Outcome {
        kind: OutcomeKind::Completed,
        exit_code: 0,
        signal: None,
        has_value: false,
        error: None,
        diagnostics: List::default(),
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
    let header = Header::new(Kind::Data, stream, length).unwrap();
    [&header.write()[..], bytes].concat()
}

/// What the host makes of a child that has its job and then says `bytes`.
async fn hear(bytes: &[u8]) -> (Result<(), PipeError>, Kept, Pipe) {
    let (ours, mut child) = Socket::pair().unwrap();
    let mut pipe = Pipe::new(ours.into()).unwrap();
    let mut kept = Kept::default();
    child.write_all(&frames(&[FromChild::Ready])).unwrap();
    pipe.readable().await.unwrap();
    pipe.receive(&mut kept).unwrap();
    pipe.give(&job()).unwrap();
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || {
        // A host that hears nonsense does not read on.
        let _ = child.write_all(&bytes);
    });
    let heard = loop {
        pipe.readable().await.unwrap();
        match pipe.receive(&mut kept) {
            Ok(Progress::Open) => {}
            Ok(Progress::Over) => break Ok(()),
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
    assert!(error.is_the_childs(), "{error:?}");
}

#[tokio::test]
async fn a_child_that_breaks_the_rules_of_calls_is_not_heard_further() {
    let started = FromChild::Started;
    let turn = |error| PipeError::Turn(error);
    check(frames(&[small(1)]), turn(OutOfTurn::Child)).await;
    for (number, next, before) in [(0, 1, None), (2, 1, None), (u32::MAX, 1, None), (1, 2, Some(small(1)))] {
        let said: Vec<FromChild> = [Some(started.clone()), before, Some(small(number))]
            .into_iter()
            .flatten()
            .collect();
        check(frames(&said), turn(OutOfTurn::Call { number, next })).await;
    }
    check(
        frames(&[started.clone(), small(1), done(), small(2)]),
        turn(OutOfTurn::Child),
    )
    .await;
    let flood: Vec<FromChild> = std::iter::once(started.clone()).chain((1..=5000).map(small)).collect();
    check(frames(&flood), turn(OutOfTurn::TooManyCalls)).await;
    check(
        [frames(std::slice::from_ref(&started)), data(6, b"x")].concat(),
        turn(OutOfTurn::Body { bytes: 1 }),
    )
    .await;
    check(
        [
            frames(&[started.clone(), call(1, Body::Streamed { bytes: 40_000 })]),
            data(6, &vec![0xff; 40_000]),
        ]
        .concat(),
        PipeError::NotText,
    )
    .await;
    // Such a message cannot be made with this crate's own words.
    let mut short = frames(&[started]);
    short.extend_from_slice(&Header::new(Kind::Control, 0, 5).unwrap().write());
    short.extend_from_slice(&[3, 1, 3, 1, 9]);
    check(short, PipeError::Message(Unfit::Body { bytes: 9 }.into())).await;
}

#[tokio::test]
async fn bodies_are_given_to_their_calls() {
    let long = "y".repeat(40_000);
    let said = [
        frames(&[FromChild::Started, call(1, Body::Streamed { bytes: 40_000 }), small(2)]),
        data(6, &long.as_bytes()[..30_000]),
        data(6, &long.as_bytes()[30_000..]),
    ];
    let (heard, kept, mut pipe) = hear(&said.concat()).await;
    heard.unwrap();
    let found: Vec<(u32, &str)> = kept.asked.iter().map(|one| (one.number, one.body.as_str())).collect();
    assert_eq!(found, [(2, "{}"), (1, long.as_str())]);
    let answer = |number| Answered {
        number,
        answer: Ok("1".to_owned()),
    };
    for number in [1, 1, 7] {
        pipe.answer(answer(number));
    }
    assert_eq!(pipe.answers.len(), 1, "one answer to one call");
}
