use super::*;
use crate::codec::{MessageError, encode_frame};

#[test]
fn only_this_version_is_spoken() {
    for (version, answer) in [
        (PROTOCOL_VERSION, Ok(())),
        (0, Err(InvalidMessage::Version { theirs: 0 })),
        (
            PROTOCOL_VERSION + 1,
            Err(InvalidMessage::Version {
                theirs: PROTOCOL_VERSION + 1,
            }),
        ),
        (u16::MAX, Err(InvalidMessage::Version { theirs: u16::MAX })),
    ] {
        let ready = WorkerReport::Ready { version };
        assert_eq!(ready.check(), answer);
        assert_eq!(
            encode_frame(&ready, &mut Vec::new()),
            answer.map_err(MessageError::Unfit)
        );
    }
}
