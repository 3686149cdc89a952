use super::*;
use crate::codec::{MessageError, encode_frame};

#[test]
fn only_this_version_is_spoken() {
    for (version, answer) in [
        (VERSION, Ok(())),
        (0, Err(Unfit::Version { theirs: 0 })),
        (VERSION + 1, Err(Unfit::Version { theirs: VERSION + 1 })),
        (u16::MAX, Err(Unfit::Version { theirs: u16::MAX })),
    ] {
        let ready = Report::Ready { version };
        assert_eq!(ready.check(), answer);
        assert_eq!(
            encode_frame(&ready, &mut Vec::new()),
            answer.map_err(MessageError::Unfit)
        );
    }
}
