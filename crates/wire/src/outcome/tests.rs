use super::*;
use crate::codec::{decode, encode_frame};
use crate::frame::HEADER_BYTES;

#[test]
fn the_largest_outcome_can_be_sent() {
    fn full<const N: usize>() -> BoundedText<N> {
        BoundedText::truncated(&"x".repeat(N))
    }
    let diagnostic = SourceDiagnostic {
        file: full(),
        line: u32::MAX,
        column: u32::MAX,
        code: full(),
        message: full(),
    };
    let done = FromChild::Done(JobOutcome {
        kind: JobOutcomeKind::SyntaxError,
        exit_code: i32::MIN,
        signal: Some(i32::MIN),
        has_value: true,
        error: Some(JobFailure {
            code: full(),
            message: full(),
            file: full(),
            line: u32::MAX,
            column: u32::MAX,
            call: Some(u32::MAX),
        }),
        diagnostics: BoundedList::new(vec![diagnostic; MAX_DIAGNOSTICS]).unwrap(),
    });
    let mut frame = Vec::new();
    encode_frame(&done, &mut frame).unwrap();
    assert_eq!(decode(&frame[HEADER_BYTES..]), Ok(done));
}
