//! Frames of a Python process: whole, truncated and hostile.
use super::{
    BTreeMap, FrameBuffer, JobError, MAX_JOB, Path, PythonError, PythonJob, PythonReadError, PythonResult, ZygoteReply,
    ZygoteRequest, is_ready, zygote_arguments,
};

fn frame(body: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
    frame.extend(body);
    frame
}

#[test]
fn frames_come_out_whole_however_they_arrive() {
    let bytes = [frame(b"one"), frame(b""), frame(b"three")].concat();
    for step in 1..bytes.len() {
        let mut frames = FrameBuffer::new(16);
        let mut out = Vec::new();
        for chunk in bytes.chunks(step) {
            frames.feed(chunk);
            while let Some(frame) = frames.next_frame().unwrap() {
                out.push(frame);
            }
        }
        assert_eq!(out, [&b"one"[..], b"", b"three"]);
    }
}

#[test]
fn a_frame_above_the_cap_is_refused_by_its_header_alone() {
    let mut frames = FrameBuffer::new(16);
    frames.feed(&[0, 0, 0, 17]);
    assert!(matches!(
        frames.next_frame(),
        Err(PythonReadError::TooLarge { size: 17, cap: 16 })
    ));
    let mut frames = FrameBuffer::new(16);
    frames.feed(&[0xff; 4]);
    assert!(matches!(frames.next_frame(), Err(PythonReadError::TooLarge { .. })));
}

#[test]
fn a_stream_that_ends_early_has_no_frame() {
    let mut cut: &[u8] = &[0, 0, 0, 9, b'x'];
    assert!(FrameBuffer::new(16).read_frame(&mut cut).unwrap().is_none());
}

#[test]
fn answers_are_parsed_and_never_believed() {
    let parse = |text: &str| PythonResult::from_frame(text.as_bytes());
    assert_eq!(
        parse(r#"{"kind":"completed","value_json":"[1]"}"#).unwrap(),
        PythonResult::Completed {
            value_json: Some("[1]".to_owned())
        }
    );
    assert_eq!(
        parse(r#"{"kind":"exit","exit_code":3}"#).unwrap(),
        PythonResult::Exit { code: 3 }
    );
    assert_eq!(
        parse(r#"{"kind":"failed","error":{"type":"E","message":"m","line":2}}"#).unwrap(),
        PythonResult::Failed(PythonError {
            kind: "E".to_owned(),
            message: "m".to_owned(),
            line: Some(2),
            ..PythonError::default()
        })
    );
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    assert!(parse(&format!(r#"{{"kind":"completed","value_json":"{deep}"}}"#)).is_ok());
    for broken in [
        "",
        "null",
        "[]",
        "{}",
        "\u{ff}",
        r#"{"kind":"won"}"#,
        r#"{"kind":"failed"}"#,
        r#"{"kind":"exit"}"#,
        r#"{"kind":"exit","exit_code":256}"#,
        r#"{"kind":"completed","value_json":"[1"}"#,
        r#"{"kind":"completed","value_json":"NaN"}"#,
        r#"{"kind":"completed","value_json":"1 2"}"#,
        r#"{"kind":"completed","value_json":5}"#,
        r#"{"kind":"failed","error":{"line":-1}}"#,
    ] {
        assert!(parse(broken).is_err(), "{broken}");
    }
    let long = format!(r#"{{"kind":"failed","error":{{"message":"{}"}}}}"#, "ü".repeat(50_000));
    let PythonResult::Failed(error) = parse(&long).unwrap() else {
        panic!()
    };
    assert!(error.message.len() < 17_000);
}

#[test]
fn replies_are_one_of_three() {
    let parse = |text: &str| ZygoteReply::from_packet(text.as_bytes());
    assert_eq!(parse(r#"{"pid":7}"#).unwrap(), ZygoteReply::Child { pid: 7 });
    assert_eq!(
        parse(r#"{"reaped":7,"status":-9}"#).unwrap(),
        ZygoteReply::Reaped { pid: 7, status: -9 }
    );
    assert_eq!(
        parse(r#"{"error":"no"}"#).unwrap(),
        ZygoteReply::Refused {
            message: "no".to_owned()
        }
    );
    for broken in [
        "{}",
        r#"{"pid":1}"#,
        r#"{"pid":-1}"#,
        r#"{"pid":2,"error":"x"}"#,
        r#"{"reaped":3}"#,
        "x",
    ] {
        assert!(parse(broken).is_err(), "{broken}");
    }
    assert!(is_ready(br#"{"ready":true}"#));
    assert!(!is_ready(br#"{"ready":false}"#));
    assert!(!is_ready(b"ready"));
}

#[test]
fn requests_are_small_json() {
    let rlimits = BTreeMap::from([("AS".to_owned(), 1 << 30)]);
    assert_eq!(
        ZygoteRequest::Fork { rlimits }.to_packet(),
        br#"{"rlimits":{"AS":1073741824}}"#
    );
    assert_eq!(ZygoteRequest::Reap { pid: 5 }.to_packet(), br#"{"reap":5}"#);
}

#[test]
fn a_job_above_the_cap_is_not_sent() {
    let source = " ".repeat(MAX_JOB);
    let env = BTreeMap::new();
    let job = PythonJob {
        source: &source,
        file_name: "p.py",
        args: &[],
        input: None,
        env: &env,
        workspace: Path::new("/workspace"),
        deps: Path::new("/deps"),
        seed: 0,
        clock: 0,
        trace: &[],
        network: false,
    };
    assert!(matches!(job.to_frame(), Err(JobError::TooLarge { .. })));
}

#[test]
fn the_script_fits_one_argument() {
    let longest = zygote_arguments(&[0; 8 * 1024]).iter().map(String::len).max().unwrap();
    assert!(longest < 128 * 1024, "{longest}");
}
