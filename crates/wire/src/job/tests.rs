use super::*;
use crate::bounded::TooLong;
use crate::codec::{MessageError, encode_frame};

fn arguments(texts: &[&str]) -> Arguments {
    List::new(texts.iter().map(|text| Text::new(*text).unwrap()).collect()).unwrap()
}

fn program(argv: &[&str]) -> JobKind {
    JobKind::Program { argv: arguments(argv) }
}

fn code(language: Language, source_bytes: u64) -> JobKind {
    JobKind::Code {
        language,
        file_name: Text::new("main.ts").unwrap(),
        args: Arguments::default(),
        source_bytes,
        input_bytes: None,
        seed: 1,
        clock: 2,
        trace_bytes: 0,
    }
}

fn shell(file_name: &str, args: &[&str]) -> JobKind {
    JobKind::Shell {
        file_name: Text::new(file_name).unwrap(),
        args: arguments(args),
        source_bytes: 1,
    }
}

fn job(kind: JobKind) -> Job {
    Job {
        version: VERSION,
        kind,
        cwd: Text::new("/workspace").unwrap(),
        env: Environment::default(),
        stdin: StdinMode::Empty,
        network: None,
    }
}

/// An invalid message can neither be sent nor received.
#[track_caller]
fn check(job: Job, answer: Result<(), Unfit>) {
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
    check(job(program(&[])), Err(Unfit::NoProgram));
    check(job(program(&["", "x"])), Err(Unfit::NoProgram));
}

#[test]
fn a_code_job_has_a_language_and_a_bounded_source() {
    for language in [Language::TypeScript, Language::JavaScript, Language::Python] {
        check(job(code(language, SOURCE_CAP)), Ok(()));
    }
    check(job(code(Language::Program, 1)), Err(Unfit::NoCode));
    let bytes = SOURCE_CAP + 1;
    check(job(code(Language::Python, bytes)), Err(Unfit::Source { bytes }));
    for (bytes, answer) in [
        (TRACE_CAP, Ok(())),
        (TRACE_CAP + 1, Err(Unfit::Trace { bytes: TRACE_CAP + 1 })),
    ] {
        let mut kind = code(Language::TypeScript, SOURCE_CAP);
        if let JobKind::Code { trace_bytes, .. } = &mut kind {
            *trace_bytes = bytes;
        }
        check(job(kind), answer);
    }
}

#[test]
fn an_input_is_as_long_as_the_body_of_a_call_at_most() {
    let most = BODY_CAP as u64;
    for (bytes, answer) in [
        (0, Ok(())),
        (most, Ok(())),
        (most + 1, Err(Unfit::Input { bytes: most + 1 })),
    ] {
        let mut kind = code(Language::Python, 1);
        if let JobKind::Code { input_bytes, .. } = &mut kind {
            *input_bytes = Some(bytes);
        }
        check(job(kind), answer);
    }
}

#[test]
fn arguments_are_bounded_together() {
    let half = "x".repeat(ARGUMENTS_MAX / 2);
    check(job(shell("-", &[&half, &half])), Ok(()));
    let bytes = ARGUMENTS_MAX + 1;
    check(job(shell("-", &[&half, &half, "x"])), Err(Unfit::Arguments { bytes }));
    check(job(program(&["x", &half, &half])), Err(Unfit::Arguments { bytes }));
    assert_eq!(
        Arguments::new(vec![Text::default(); 4097]),
        Err(TooLong {
            limit: 4096,
            length: 4097
        })
    );
}

#[test]
fn no_text_for_a_program_holds_nul() {
    check(job(program(&["a\0b"])), Err(Unfit::Nul));
    check(job(program(&["a", "\0"])), Err(Unfit::Nul));
    check(job(shell("a\0b", &[])), Err(Unfit::Nul));
    let mut somewhere = job(program(&["a"]));
    somewhere.cwd = Text::new("/work\0space").unwrap();
    check(somewhere, Err(Unfit::Nul));
}

#[test]
fn environment_names_are_names() {
    for (name, value, answer) in [
        ("LANG", "C.UTF-8", Ok(())),
        ("EMPTY", "", Ok(())),
        ("ODD", "a=b", Ok(())),
        ("", "x", Err(Unfit::EnvironmentName)),
        ("A=B", "x", Err(Unfit::EnvironmentName)),
        ("A\0", "x", Err(Unfit::Nul)),
        ("A", "x\0", Err(Unfit::Nul)),
    ] {
        let mut with = job(program(&["env"]));
        with.env = List::new(vec![(Text::new(name).unwrap(), Text::new(value).unwrap())]).unwrap();
        check(with, answer);
    }
}

#[test]
fn another_version_is_not_run() {
    let mut old = job(program(&["true"]));
    old.version = 0;
    check(old, Err(Unfit::Version { theirs: 0 }));
}
