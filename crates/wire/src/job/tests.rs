use super::*;
use crate::bounded::BoundExceeded;
use crate::codec::{MessageError, encode_frame};

fn arguments(texts: &[&str]) -> JobArguments {
    BoundedList::new(texts.iter().map(|text| BoundedText::new(*text).unwrap()).collect()).unwrap()
}

fn program(argv: &[&str]) -> JobKind {
    JobKind::Program { argv: arguments(argv) }
}

fn code(language: JobLanguage, source_bytes: u64) -> JobKind {
    JobKind::Code {
        language,
        file_name: BoundedText::new("main.ts").unwrap(),
        args: JobArguments::default(),
        source_bytes,
        input_bytes: None,
        seed: 1,
        clock: 2,
        trace_bytes: 0,
    }
}

fn shell(file_name: &str, args: &[&str]) -> JobKind {
    JobKind::Shell {
        file_name: BoundedText::new(file_name).unwrap(),
        args: arguments(args),
        source_bytes: 1,
    }
}

fn job(kind: JobKind) -> Job {
    Job {
        version: PROTOCOL_VERSION,
        kind,
        cwd: BoundedText::new("/workspace").unwrap(),
        env: JobEnvironment::default(),
        stdin: StdinMode::Empty,
        network: None,
    }
}

/// An invalid message can neither be sent nor received.
#[track_caller]
fn check(job: Job, answer: Result<(), InvalidMessage>) {
    let message = ToChild::Job(job);
    let sent = encode_frame(&message, &mut Vec::new());
    assert_eq!(sent, answer.map_err(MessageError::Unfit));
    let bytes = postcard::to_stdvec(&message).unwrap();
    let received = crate::codec::decode::<ToChild>(&bytes);
    assert_eq!(received, answer.map(|()| message).map_err(MessageError::Unfit));
}

#[test]
fn a_program_job_names_a_program() {
    check(job(program(&["/bin/true"])), Ok(()));
    check(job(program(&["git", "", "--version"])), Ok(()));
    check(job(program(&[])), Err(InvalidMessage::NoProgram));
    check(job(program(&["", "x"])), Err(InvalidMessage::NoProgram));
}

#[test]
fn a_code_job_has_a_language_and_a_bounded_source() {
    for language in [JobLanguage::TypeScript, JobLanguage::JavaScript, JobLanguage::Python] {
        check(job(code(language, SOURCE_CAP)), Ok(()));
    }
    check(job(code(JobLanguage::Program, 1)), Err(InvalidMessage::NoCode));
    let bytes = SOURCE_CAP + 1;
    check(
        job(code(JobLanguage::Python, bytes)),
        Err(InvalidMessage::Source { bytes }),
    );
    for (bytes, answer) in [
        (TRACE_CAP, Ok(())),
        (TRACE_CAP + 1, Err(InvalidMessage::Trace { bytes: TRACE_CAP + 1 })),
    ] {
        let mut kind = code(JobLanguage::TypeScript, SOURCE_CAP);
        if let JobKind::Code { trace_bytes, .. } = &mut kind {
            *trace_bytes = bytes;
        }
        check(job(kind), answer);
    }
}

#[test]
fn an_input_is_as_long_as_the_body_of_a_call_at_most() {
    let most = MAX_BODY_BYTES as u64;
    for (bytes, answer) in [
        (0, Ok(())),
        (most, Ok(())),
        (most + 1, Err(InvalidMessage::Input { bytes: most + 1 })),
    ] {
        let mut kind = code(JobLanguage::Python, 1);
        if let JobKind::Code { input_bytes, .. } = &mut kind {
            *input_bytes = Some(bytes);
        }
        check(job(kind), answer);
    }
}

#[test]
fn arguments_are_bounded_together() {
    let half = "x".repeat(MAX_ARGUMENTS_BYTES / 2);
    check(job(shell("-", &[&half, &half])), Ok(()));
    let bytes = MAX_ARGUMENTS_BYTES + 1;
    check(
        job(shell("-", &[&half, &half, "x"])),
        Err(InvalidMessage::Arguments { bytes }),
    );
    check(
        job(program(&["x", &half, &half])),
        Err(InvalidMessage::Arguments { bytes }),
    );
    assert_eq!(
        JobArguments::new(vec![BoundedText::default(); 4097]),
        Err(BoundExceeded {
            limit: 4096,
            length: 4097
        })
    );
}

#[test]
fn no_text_for_a_program_holds_nul() {
    check(job(program(&["a\0b"])), Err(InvalidMessage::Nul));
    check(job(program(&["a", "\0"])), Err(InvalidMessage::Nul));
    check(job(shell("a\0b", &[])), Err(InvalidMessage::Nul));
    let mut somewhere = job(program(&["a"]));
    somewhere.cwd = BoundedText::new("/work\0space").unwrap();
    check(somewhere, Err(InvalidMessage::Nul));
}

#[test]
fn environment_names_are_names() {
    for (name, value, answer) in [
        ("LANG", "C.UTF-8", Ok(())),
        ("EMPTY", "", Ok(())),
        ("ODD", "a=b", Ok(())),
        ("", "x", Err(InvalidMessage::EnvironmentName)),
        ("A=B", "x", Err(InvalidMessage::EnvironmentName)),
        ("A\0", "x", Err(InvalidMessage::Nul)),
        ("A", "x\0", Err(InvalidMessage::Nul)),
    ] {
        let mut with = job(program(&["env"]));
        with.env = BoundedList::new(vec![(
            BoundedText::new(name).unwrap(),
            BoundedText::new(value).unwrap(),
        )])
        .unwrap();
        check(with, answer);
    }
}

#[test]
fn another_version_is_not_run() {
    let mut old = job(program(&["true"]));
    old.version = 0;
    check(old, Err(InvalidMessage::Version { theirs: 0 }));
}
