//! Turns bytes from a peer into checked items. The peer is hostile: the first error ends the conversation for good, and
//! nothing the peer sends makes this hold more than one frame.

use crate::error::ProtocolError;
use crate::frame::{FrameHeader, FrameHeaderError, FrameKind, HEADER_BYTES, MAX_PAYLOAD};
use crate::stream::{PipeSide, PipeStream, STREAM_COUNT, STREAM_WINDOW, StreamCap, StreamCredit};
use crate::tunnel::{TunnelError, TunnelEvent, TunnelId, TunnelReceivers};

/// The initial size of the buffer, which grows when a larger frame comes; most pipes never carry one.
const INITIAL_CAPACITY: usize = 4 * 1024;

/// One checked frame. Its bytes stay in the buffer until the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InboundItem<'a> {
    /// An encoded message, to pass to [`decode`](crate::decode).
    Control(&'a [u8]),
    /// Bytes of a stream; call [`Inbound::mark_consumed`] once they are processed.
    Data {
        /// The stream that carries the bytes.
        stream: PipeStream,
        /// The payload, which has at least one byte.
        bytes: &'a [u8],
    },
    /// The peer has ended a stream.
    End {
        /// The stream that has ended.
        stream: PipeStream,
    },
    /// The peer grants more bytes; pass this to [`Outbound::add_credit`](crate::Outbound::add_credit).
    Credit(StreamCredit),
    /// A frame of a tunnel.
    Tunnel {
        /// The tunnel that the frame belongs to.
        tunnel: TunnelId,
        /// The content of the frame.
        carried: TunnelEvent<'a>,
    },
}

/// The receiving half of a pipe.
///
/// Feed it with [`push`](Self::push), or read into [`read_buffer`](Self::read_buffer) and call [`advance`](Self::advance); then call
/// [`next`](Self::next) until it returns `None`; at the end of the input call [`finish`](Self::finish).
#[derive(Debug)]
pub struct Inbound {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    streams: [StreamReceiver; STREAM_COUNT],
    tunnels: TunnelReceivers,
    failed: Option<ProtocolError>,
}

/// The receiving state of a stream. If the peer does not send the stream, its direction is never `In`.
#[derive(Clone, Copy, Debug)]
struct StreamReceiver {
    direction: StreamDirection,
    /// Bytes the peer may still send.
    credit: u32,
    /// Bytes consumed since the last grant.
    consumed: u32,
    /// Bytes that the peer may still send in total.
    left: StreamCap,
    cap: StreamCap,
    ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamDirection {
    In,
    Out,
    Absent,
}

impl Inbound {
    /// The receiving half at the `side` end of an execution's pipe.
    pub fn execution(side: PipeSide) -> Self {
        Self::new(|stream| {
            if stream.sender() == side {
                StreamDirection::Out
            } else {
                StreamDirection::In
            }
        })
    }

    /// The receiving half for commands or reports, without streams.
    pub fn control_only() -> Self {
        Self::new(|_| StreamDirection::Absent)
    }

    fn new(way: impl Fn(PipeStream) -> StreamDirection) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            end: 0,
            streams: PipeStream::ALL.map(|stream| StreamReceiver {
                direction: way(stream),
                credit: STREAM_WINDOW,
                consumed: 0,
                left: stream.cap(),
                cap: stream.cap(),
                ended: false,
            }),
            tunnels: TunnelReceivers::default(),
            failed: None,
        }
    }

    /// Replaces the cap of a stream. Call it before the first byte.
    #[must_use]
    pub fn with_cap(mut self, stream: PipeStream, cap: StreamCap) -> Self {
        let receiving = &mut self.streams[stream.table_index()];
        receiving.cap = cap;
        receiving.left = cap;
        self
    }

    /// Takes bytes and returns how many: all of them, unless [`next`](Self::next) still has items.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while taken < bytes.len() {
            let space = self.read_buffer();
            let count = space.len().min(bytes.len() - taken);
            if count == 0 {
                break;
            }
            space[..count].copy_from_slice(&bytes[taken..taken + count]);
            self.advance(count);
            taken += count;
        }
        taken
    }

    /// The buffer to read into. It is never empty once [`next`](Self::next) has returned `None`.
    pub fn read_buffer(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let wanted = match self.peek_header() {
            Some(Ok(header)) => (HEADER_BYTES + header.length()).max(INITIAL_CAPACITY),
            Some(Err(_)) | None => INITIAL_CAPACITY,
        };
        if self.buffer.len() < wanted {
            let room = if wanted > INITIAL_CAPACITY {
                HEADER_BYTES + MAX_PAYLOAD
            } else {
                INITIAL_CAPACITY
            };
            self.buffer.resize(room, 0);
        }
        &mut self.buffer[self.end..]
    }

    /// Marks `count` bytes of [`read_buffer`](Self::read_buffer) as filled.
    pub fn advance(&mut self, count: usize) {
        debug_assert!(count <= self.buffer.len() - self.end);
        self.end = self.buffer.len().min(self.end + count);
    }

    /// The next item, or `None` until more bytes come. An error is final: every later call returns it again.
    #[expect(
        clippy::should_implement_trait,
        reason = "an item borrows the buffer, which an iterator cannot say"
    )]
    pub fn next(&mut self) -> Result<Option<InboundItem<'_>>, ProtocolError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        match self.take_frame() {
            Ok(Some((checked, range))) => {
                self.start = range.end;
                Ok(Some(self.item_from_frame(checked, range)))
            }
            Ok(None) => Ok(None),
            Err(error) => {
                self.failed = Some(error);
                Err(error)
            }
        }
    }

    /// Ends the input, which is an error within a frame.
    pub fn finish(&self) -> Result<(), ProtocolError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        match self.buffered_bytes() {
            0 => Ok(()),
            held => Err(ProtocolError::CutShort { held }),
        }
    }

    /// Bytes received that are not yet returned as items.
    pub fn buffered_bytes(&self) -> usize {
        self.end - self.start
    }

    /// Whether the peer has ended this stream.
    pub fn has_ended(&self, stream: PipeStream) -> bool {
        self.streams[stream.table_index()].ended
    }

    /// Marks bytes of a stream as consumed. Returns the credit to grant the peer once half a window is free.
    pub fn mark_consumed(&mut self, stream: PipeStream, bytes: usize) -> Option<StreamCredit> {
        let receiving = &mut self.streams[stream.table_index()];
        let held = STREAM_WINDOW - receiving.credit - receiving.consumed;
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        debug_assert!(bytes <= held, "consumed more than came");
        receiving.consumed += bytes.min(held);
        if receiving.ended || receiving.consumed < STREAM_WINDOW / 2 {
            return None;
        }
        let grant = std::mem::take(&mut receiving.consumed);
        receiving.credit += grant;
        Some(StreamCredit { stream, grant })
    }

    /// Opens a tunnel, announced by a message of the peer or of this side. An error is final, like any other.
    pub fn open_tunnel(&mut self, tunnel: TunnelId) -> Result<(), ProtocolError> {
        self.tunnels.open(tunnel).map_err(|error| {
            self.failed = Some(error.into());
            error.into()
        })
    }

    /// The receiving halves of all tunnels, to ask which are open.
    pub fn tunnels(&self) -> &TunnelReceivers {
        &self.tunnels
    }

    /// The receiving halves of all tunnels, to mark bytes as consumed.
    pub fn tunnels_mut(&mut self) -> &mut TunnelReceivers {
        &mut self.tunnels
    }

    /// The header at the front of the buffer, or `None` if it is incomplete.
    fn peek_header(&self) -> Option<Result<FrameHeader, FrameHeaderError>> {
        self.buffer[self.start..self.end]
            .first_chunk::<HEADER_BYTES>()
            .map(|bytes| FrameHeader::parse(*bytes))
    }

    /// The next whole frame, with its bytes counted. The header is checked before the payload has come.
    fn take_frame(&mut self) -> Result<Option<(CheckedFrame, std::ops::Range<usize>)>, ProtocolError> {
        let Some(header) = self.peek_header().transpose()? else {
            return Ok(None);
        };
        let checked = self.check_header(header)?;
        let from = self.start + HEADER_BYTES;
        let range = from..from + header.length();
        if range.end > self.end {
            return Ok(None);
        }
        match checked {
            CheckedFrame::Control => {}
            CheckedFrame::Data(stream) => self.streams[stream.table_index()].count_received(header.length()),
            CheckedFrame::End(stream) => self.streams[stream.table_index()].ended = true,
            CheckedFrame::Credit(stream) => {
                if self.grant_at(&range) == 0 {
                    return Err(ProtocolError::BadGrant { stream, grant: 0 });
                }
            }
            CheckedFrame::Tunnel(tunnel, kind) => {
                if kind == FrameKind::Credit && self.grant_at(&range) == 0 {
                    return Err(TunnelError::BadGrant { tunnel, grant: 0 }.into());
                }
                self.tunnels.count_frame(tunnel, header);
            }
        }
        Ok(Some((checked, range)))
    }

    fn item_from_frame(&self, checked: CheckedFrame, range: std::ops::Range<usize>) -> InboundItem<'_> {
        match checked {
            CheckedFrame::Control => InboundItem::Control(&self.buffer[range]),
            CheckedFrame::Data(stream) => InboundItem::Data {
                stream,
                bytes: &self.buffer[range],
            },
            CheckedFrame::End(stream) => InboundItem::End { stream },
            CheckedFrame::Credit(stream) => InboundItem::Credit(StreamCredit {
                stream,
                grant: self.grant_at(&range),
            }),
            CheckedFrame::Tunnel(tunnel, kind) => {
                let carried = match kind {
                    FrameKind::Credit => TunnelEvent::Credit(self.grant_at(&range)),
                    FrameKind::End => TunnelEvent::End,
                    FrameKind::Close => TunnelEvent::Close,
                    FrameKind::Control | FrameKind::Data => TunnelEvent::Data(&self.buffer[range]),
                };
                InboundItem::Tunnel { tunnel, carried }
            }
        }
    }

    /// The number in a credit frame, whose length the header check covers.
    fn grant_at(&self, range: &std::ops::Range<usize>) -> u32 {
        self.buffer[range.clone()]
            .first_chunk()
            .map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    fn check_header(&self, header: FrameHeader) -> Result<CheckedFrame, ProtocolError> {
        if header.kind() == FrameKind::Control {
            return Ok(CheckedFrame::Control);
        }
        let id = header.stream();
        if let Some(tunnel) = TunnelId::from_id(id) {
            self.tunnels.check(tunnel, header)?;
            return Ok(CheckedFrame::Tunnel(tunnel, header.kind()));
        }
        let unknown = ProtocolError::UnknownStream { stream: id };
        let stream = PipeStream::from_id(id).ok_or(unknown)?;
        let receiving = &self.streams[stream.table_index()];
        let wanted = match header.kind() {
            FrameKind::Credit => StreamDirection::Out,
            FrameKind::Control | FrameKind::Data | FrameKind::End | FrameKind::Close => StreamDirection::In,
        };
        if receiving.direction == StreamDirection::Absent {
            return Err(unknown);
        }
        if receiving.direction != wanted {
            return Err(ProtocolError::WrongWay { stream });
        }
        if receiving.ended {
            return Err(ProtocolError::AfterEnd { stream });
        }
        match header.kind() {
            FrameKind::Control => Ok(CheckedFrame::Control),
            // Only tunnels have close frames.
            FrameKind::Close => Err(ProtocolError::WrongWay { stream }),
            FrameKind::End => Ok(CheckedFrame::End(stream)),
            FrameKind::Credit => Ok(CheckedFrame::Credit(stream)),
            FrameKind::Data => {
                receiving.check_data(stream, header.length())?;
                Ok(CheckedFrame::Data(stream))
            }
        }
    }
}

/// A frame that the current state allows.
#[derive(Clone, Copy)]
enum CheckedFrame {
    Control,
    Data(PipeStream),
    End(PipeStream),
    Credit(PipeStream),
    Tunnel(TunnelId, FrameKind),
}

impl StreamReceiver {
    fn check_data(&self, stream: PipeStream, bytes: usize) -> Result<(), ProtocolError> {
        if let Some(excess) = bytes.checked_sub(self.credit as usize + 1) {
            return Err(ProtocolError::BeyondCredit {
                stream,
                excess: excess + 1,
            });
        }
        match (self.left, self.cap) {
            (StreamCap::Bytes(left), StreamCap::Bytes(cap)) if bytes as u64 > left => {
                Err(ProtocolError::BeyondCap { stream, cap })
            }
            _ => Ok(()),
        }
    }

    /// Counts bytes that [`check_data`](Self::admit) accepted.
    fn count_received(&mut self, bytes: usize) {
        self.credit = self.credit.saturating_sub(u32::try_from(bytes).unwrap_or(u32::MAX));
        if let StreamCap::Bytes(left) = &mut self.left {
            *left = left.saturating_sub(bytes as u64);
        }
    }
}

#[cfg(test)]
mod tests;
