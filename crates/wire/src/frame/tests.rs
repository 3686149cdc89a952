use super::*;

/// The raw bytes of a header, valid or not.
fn raw(length: u32, stream: u16, kind: u8, reserved: u8) -> [u8; HEADER] {
    let [a, b, c, d] = length.to_le_bytes();
    let [low, high] = stream.to_le_bytes();
    [a, b, c, d, low, high, kind, reserved]
}

#[test]
fn a_good_header_survives_the_wire() {
    for (kind, stream, length) in [
        (Kind::Control, 0, 1),
        (Kind::Control, 0, 65_536),
        (Kind::Data, 1, 1),
        (Kind::Data, 3, 65_536),
        (Kind::Data, u16::MAX, 512),
        (Kind::End, 5, 0),
        (Kind::Credit, 2, 4),
    ] {
        let header = Header::new(kind, stream, length).unwrap();
        assert_eq!(header.write(), raw(length, stream, kind as u8, 0));
        assert_eq!(Header::read(header.write()), Ok(header));
        assert_eq!(
            (header.kind(), header.stream(), header.length()),
            (kind, stream, length as usize)
        );
    }
}

#[test]
fn a_header_that_lies_is_refused() {
    let lane = |kind, stream| FrameError::WrongLane { kind, stream };
    let length = |kind, length| FrameError::WrongLength { kind, length };
    for (bytes, error) in [
        (raw(65_537, 0, 0, 0), FrameError::Oversized { length: 65_537 }),
        (raw(u32::MAX, 3, 1, 0), FrameError::Oversized { length: u32::MAX }),
        (raw(65_537, 3, 2, 0), FrameError::Oversized { length: 65_537 }),
        (raw(1, 0, 5, 0), FrameError::UnknownKind { kind: 5 }),
        (raw(1, 0, 255, 0), FrameError::UnknownKind { kind: 255 }),
        (raw(1, 0, 0, 1), FrameError::Reserved { value: 1 }),
        (raw(1, 3, 1, 128), FrameError::Reserved { value: 128 }),
        (raw(1, 1, 0, 0), lane(Kind::Control, 1)),
        (raw(1, 0, 1, 0), lane(Kind::Data, 0)),
        (raw(0, 0, 2, 0), lane(Kind::End, 0)),
        (raw(4, 0, 3, 0), lane(Kind::Credit, 0)),
        (raw(0, 0, 4, 0), lane(Kind::Close, 0)),
        (raw(1, 64, 4, 0), length(Kind::Close, 1)),
        (raw(0, 0, 0, 0), length(Kind::Control, 0)),
        (raw(0, 3, 1, 0), length(Kind::Data, 0)),
        (raw(1, 3, 2, 0), length(Kind::End, 1)),
        (raw(0, 3, 3, 0), length(Kind::Credit, 0)),
        (raw(3, 3, 3, 0), length(Kind::Credit, 3)),
        (raw(5, 3, 3, 0), length(Kind::Credit, 5)),
    ] {
        assert_eq!(Header::read(bytes), Err(error), "{bytes:?}");
    }
}
