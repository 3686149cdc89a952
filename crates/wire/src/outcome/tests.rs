use super::*;
use crate::codec::{decode, encode_frame};
use crate::frame::HEADER;

#[test]
fn the_largest_outcome_can_be_sent() {
    fn full<const N: usize>() -> Text<N> {
        Text::cut(&"x".repeat(N))
    }
    let diagnostic = Diagnostic {
        file: full(),
        line: u32::MAX,
        column: u32::MAX,
        code: full(),
        message: full(),
    };
    let done = FromChild::Done(Outcome {
        kind: OutcomeKind::SyntaxError,
        exit_code: i32::MIN,
        signal: Some(i32::MIN),
        has_value: true,
        error: Some(Fault {
            code: full(),
            message: full(),
            file: full(),
            line: u32::MAX,
            column: u32::MAX,
            call: Some(u32::MAX),
        }),
        diagnostics: List::new(vec![diagnostic; DIAGNOSTICS]).unwrap(),
    });
    let mut frame = Vec::new();
    encode_frame(&done, &mut frame).unwrap();
    assert_eq!(decode(&frame[HEADER..]), Ok(done));
}
