use super::*;

/// The raw bytes of a header, valid or not.
fn raw(length: u32, stream: u16, kind: u8, reserved: u8) -> [u8; HEADER_BYTES] {
    let [a, b, c, d] = length.to_le_bytes();
    let [low, high] = stream.to_le_bytes();
    [a, b, c, d, low, high, kind, reserved]
}

#[test]
fn a_good_header_survives_the_wire() {
    for (kind, stream, length) in [
        (FrameKind::Control, 0, 1),
        (FrameKind::Control, 0, 65_536),
        (FrameKind::Data, 1, 1),
        (FrameKind::Data, 3, 65_536),
        (FrameKind::Data, u16::MAX, 512),
        (FrameKind::End, 5, 0),
        (FrameKind::Credit, 2, 4),
    ] {
        let header = FrameHeader::new(kind, stream, length).unwrap();
        assert_eq!(header.to_bytes(), raw(length, stream, kind as u8, 0));
        assert_eq!(FrameHeader::parse(header.to_bytes()), Ok(header));
        assert_eq!(
            (header.kind(), header.stream(), header.length()),
            (kind, stream, length as usize)
        );
    }
}

#[test]
fn a_header_that_lies_is_refused() {
    let lane = |kind, stream| FrameHeaderError::WrongLane { kind, stream };
    let length = |kind, length| FrameHeaderError::WrongLength { kind, length };
    for (bytes, error) in [
        (raw(65_537, 0, 0, 0), FrameHeaderError::Oversized { length: 65_537 }),
        (raw(u32::MAX, 3, 1, 0), FrameHeaderError::Oversized { length: u32::MAX }),
        (raw(65_537, 3, 2, 0), FrameHeaderError::Oversized { length: 65_537 }),
        (raw(1, 0, 5, 0), FrameHeaderError::UnknownKind { kind: 5 }),
        (raw(1, 0, 255, 0), FrameHeaderError::UnknownKind { kind: 255 }),
        (raw(1, 0, 0, 1), FrameHeaderError::Reserved { value: 1 }),
        (raw(1, 3, 1, 128), FrameHeaderError::Reserved { value: 128 }),
        (raw(1, 1, 0, 0), lane(FrameKind::Control, 1)),
        (raw(1, 0, 1, 0), lane(FrameKind::Data, 0)),
        (raw(0, 0, 2, 0), lane(FrameKind::End, 0)),
        (raw(4, 0, 3, 0), lane(FrameKind::Credit, 0)),
        (raw(0, 0, 4, 0), lane(FrameKind::Close, 0)),
        (raw(1, 64, 4, 0), length(FrameKind::Close, 1)),
        (raw(0, 0, 0, 0), length(FrameKind::Control, 0)),
        (raw(0, 3, 1, 0), length(FrameKind::Data, 0)),
        (raw(1, 3, 2, 0), length(FrameKind::End, 1)),
        (raw(0, 3, 3, 0), length(FrameKind::Credit, 0)),
        (raw(3, 3, 3, 0), length(FrameKind::Credit, 3)),
        (raw(5, 3, 3, 0), length(FrameKind::Credit, 5)),
    ] {
        assert_eq!(FrameHeader::parse(bytes), Err(error), "{bytes:?}");
    }
}
