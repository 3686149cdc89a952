use super::*;
use crate::bounded::{BoundedList, BoundedText};
use crate::job::{Job, JobKind, StdinMode, ToChild};
use crate::outcome::FromChild;
use crate::worker_command::{WorkerCommand, WorkerReport};

fn frame_of(message: &impl ControlMessage) -> Vec<u8> {
    let mut frame = Vec::new();
    encode_frame(message, &mut frame).unwrap();
    frame
}

#[test]
fn a_frame_is_a_header_and_the_message() {
    let frame = frame_of(&WorkerCommand::Finish { number: 300 });
    assert_eq!(frame, [3, 0, 0, 0, 0, 0, 0, 0, 1, 0xac, 0x02]);
    assert_eq!(
        decode(&frame[HEADER_BYTES..]),
        Ok(WorkerCommand::Finish { number: 300 })
    );
}

#[test]
fn hostile_payloads_are_refused() {
    use postcard::Error as Postcard;
    #[track_caller]
    fn check(payload: &[u8], error: MessageError) {
        assert_eq!(decode::<WorkerReport>(payload), Err(error), "{payload:?}");
    }
    let malformed = MessageError::Malformed;
    check(&[], malformed(Postcard::DeserializeUnexpectedEnd));
    check(&[7], malformed(Postcard::SerdeDeCustom));
    check(&[0xff; 16], malformed(Postcard::DeserializeBadVarint));
    check(&[1], malformed(Postcard::DeserializeUnexpectedEnd));
    check(
        &[1, 0x80, 0x80, 0x80, 0x80, 0x10],
        malformed(Postcard::DeserializeBadVarint),
    );
    check(&[5, 1, 0xff], malformed(Postcard::DeserializeBadUtf8));
    check(&[5, 2, b'a'], malformed(Postcard::DeserializeUnexpectedEnd));
    check(&[4, 0], MessageError::Trailing { bytes: 1 });
    check(&[3, 1, 0, 0], MessageError::Trailing { bytes: 2 });
    check(&[0x84, 0], MessageError::NotCanonical);
    check(&[3, 0x81, 0], MessageError::NotCanonical);
    check(&[0, 5], InvalidMessage::Version { theirs: 5 }.into());
    check(&[0, 0], InvalidMessage::Version { theirs: 0 }.into());
    check(&vec![4; MAX_PAYLOAD + 1], MessageError::TooLarge);
    assert_eq!(
        decode::<FromChild>(&[2, 0, 0, 0, 2]),
        Err(malformed(Postcard::DeserializeBadBool))
    );
    assert_eq!(
        decode::<FromChild>(&[2, 0, 0, 2]),
        Err(malformed(Postcard::DeserializeBadOption))
    );
}

#[test]
fn a_message_larger_than_a_frame_is_not_encoded() {
    let value = BoundedText::new("x".repeat(MAX_ARGUMENTS_BYTES)).unwrap();
    let name = BoundedText::new("A").unwrap();
    let job = |count| {
        ToChild::Job(Job {
            version: PROTOCOL_VERSION,
            kind: JobKind::Program {
                argv: BoundedList::new(vec![BoundedText::new("true").unwrap()]).unwrap(),
            },
            cwd: BoundedText::default(),
            env: BoundedList::new(vec![(name.clone(), value.clone()); count]).unwrap(),
            stdin: StdinMode::Empty,
            network: None,
        })
    };
    let mut frame = vec![1, 2, 3];
    assert_eq!(encode_frame(&job(2), &mut frame), Err(MessageError::TooLarge));
    assert_eq!(frame, [1, 2, 3], "nothing is left behind");
    encode_frame(&job(1), &mut frame).unwrap();
    assert_eq!(decode(&frame[3 + HEADER_BYTES..]), Ok(job(1)));
}

/// The memory that a job holds outside its own struct.
fn heap(job: &Job) -> usize {
    let text = |text: &str| text.len();
    let JobKind::Program { argv } = &job.kind else {
        panic!("not a program");
    };
    let env: usize = job.env.iter().map(|(a, b)| text(a) + text(b)).sum();
    let args: usize = argv.iter().map(|a| text(a)).sum();
    env + args + size_of_val(argv.as_slice()) + size_of_val(job.env.as_slice()) + text(&job.cwd)
}

#[test]
fn the_worst_message_stays_within_the_budget() {
    // The most items that fit a frame, as small as they can be, and the rest of the frame as text.
    let mut argv = vec![BoundedText::new("/").unwrap()];
    argv.resize(4096, BoundedText::default());
    argv[1] = BoundedText::new("x".repeat(MAX_ARGUMENTS_BYTES - 1)).unwrap();
    let mut env = vec![(BoundedText::new("A").unwrap(), BoundedText::default()); 1024];
    env[0].1 = BoundedText::new("x".repeat(5_000)).unwrap();
    let job = ToChild::Job(Job {
        version: PROTOCOL_VERSION,
        kind: JobKind::Program {
            argv: BoundedList::new(argv).unwrap(),
        },
        cwd: BoundedText::new("/").unwrap(),
        env: BoundedList::new(env).unwrap(),
        stdin: StdinMode::Empty,
        network: None,
    });
    let frame = frame_of(&job);
    assert!(frame.len() > 60_000, "the frame is nearly full");
    let Ok(ToChild::Job(decoded)) = decode(&frame[HEADER_BYTES..]) else {
        panic!("it must decode");
    };
    let held = size_of::<ToChild>() + heap(&decoded);
    assert!(held > 150_000 && held <= MAX_DECODED_BYTES, "{held}");
}

#[test]
fn lists_longer_than_allowed_do_not_decode() {
    // A job whose argument list claims one item too many, all of them empty.
    let mut payload = vec![0, 1, 1];
    payload.extend_from_slice(&[0x81, 0x20]);
    payload.resize(payload.len() + 4097 + 3, 0);
    assert_eq!(
        decode::<ToChild>(&payload),
        Err(MessageError::Malformed(postcard::Error::SerdeDeCustom))
    );
}
