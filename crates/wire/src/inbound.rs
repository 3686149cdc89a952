//! Turns bytes from a peer into checked items. The peer is hostile: the first error ends the conversation for good, and
//! nothing the peer sends makes this hold more than one frame.

use crate::error::ProtocolError;
use crate::frame::{FrameError, HEADER, Header, Kind, MAX_PAYLOAD};
use crate::stream::{Cap, Credit, STREAMS, Side, Stream, WINDOW};
use crate::tunnel::{Arriving, Carried, TunnelError, TunnelId};

/// The initial size of the buffer, which grows when a larger frame comes; most pipes never carry one.
const FIRST_ROOM: usize = 4 * 1024;

/// One checked frame. Its bytes stay in the buffer until the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// An encoded message, to pass to [`decode`](crate::decode).
    Control(&'a [u8]),
    /// Bytes of a stream; call [`Inbound::consumed`] once they are processed.
    Data {
        /// The stream that carries the bytes.
        stream: Stream,
        /// The payload, which has at least one byte.
        bytes: &'a [u8],
    },
    /// The peer has ended a stream.
    End {
        /// The stream that has ended.
        stream: Stream,
    },
    /// The peer grants more bytes; pass this to [`Outbound::credit`](crate::Outbound::credit).
    Credit(Credit),
    /// A frame of a tunnel.
    Tunnel {
        /// The tunnel that the frame belongs to.
        tunnel: TunnelId,
        /// The content of the frame.
        carried: Carried<'a>,
    },
}

/// The receiving half of a pipe.
///
/// Feed it with [`push`](Self::push), or read into [`space`](Self::space) and call [`filled`](Self::filled); then call
/// [`next`](Self::next) until it returns `None`; at the end of the input call [`finish`](Self::finish).
#[derive(Debug)]
pub struct Inbound {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    streams: [Receiving; STREAMS],
    tunnels: Arriving,
    failed: Option<ProtocolError>,
}

/// The receiving state of a stream. If the peer does not send the stream, its direction is never `In`.
#[derive(Clone, Copy, Debug)]
struct Receiving {
    way: Way,
    /// Bytes the peer may still send.
    credit: u32,
    /// Bytes consumed since the last grant.
    consumed: u32,
    /// Bytes that the peer may still send in total.
    left: Cap,
    cap: Cap,
    ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    In,
    Out,
    Absent,
}

impl Inbound {
    /// The receiving half at the `side` end of an execution's pipe.
    pub fn execution(side: Side) -> Self {
        Self::new(|stream| if stream.sender() == side { Way::Out } else { Way::In })
    }

    /// The receiving half for commands or reports, without streams.
    pub fn control_only() -> Self {
        Self::new(|_| Way::Absent)
    }

    fn new(way: impl Fn(Stream) -> Way) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            end: 0,
            streams: Stream::ALL.map(|stream| Receiving {
                way: way(stream),
                credit: WINDOW,
                consumed: 0,
                left: stream.cap(),
                cap: stream.cap(),
                ended: false,
            }),
            tunnels: Arriving::default(),
            failed: None,
        }
    }

    /// Replaces the cap of a stream. Call it before the first byte.
    #[must_use]
    pub fn capped(mut self, stream: Stream, cap: Cap) -> Self {
        let receiving = &mut self.streams[stream.index()];
        receiving.cap = cap;
        receiving.left = cap;
        self
    }

    /// Takes bytes and returns how many: all of them, unless [`next`](Self::next) still has items.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while taken < bytes.len() {
            let space = self.space();
            let count = space.len().min(bytes.len() - taken);
            if count == 0 {
                break;
            }
            space[..count].copy_from_slice(&bytes[taken..taken + count]);
            self.filled(count);
            taken += count;
        }
        taken
    }

    /// The buffer to read into. It is never empty once [`next`](Self::next) has returned `None`.
    pub fn space(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let wanted = match self.peek() {
            Some(Ok(header)) => (HEADER + header.length()).max(FIRST_ROOM),
            Some(Err(_)) | None => FIRST_ROOM,
        };
        if self.buffer.len() < wanted {
            let room = if wanted > FIRST_ROOM {
                HEADER + MAX_PAYLOAD
            } else {
                FIRST_ROOM
            };
            self.buffer.resize(room, 0);
        }
        &mut self.buffer[self.end..]
    }

    /// Marks `count` bytes of [`space`](Self::space) as filled.
    pub fn filled(&mut self, count: usize) {
        debug_assert!(count <= self.buffer.len() - self.end);
        self.end = self.buffer.len().min(self.end + count);
    }

    /// The next item, or `None` until more bytes come. An error is final: every later call returns it again.
    #[expect(
        clippy::should_implement_trait,
        reason = "an item borrows the buffer, which an iterator cannot say"
    )]
    pub fn next(&mut self) -> Result<Option<Item<'_>>, ProtocolError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        match self.take() {
            Ok(Some((checked, range))) => {
                self.start = range.end;
                Ok(Some(self.item(checked, range)))
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
        match self.held() {
            0 => Ok(()),
            held => Err(ProtocolError::CutShort { held }),
        }
    }

    /// Bytes received that are not yet returned as items.
    pub fn held(&self) -> usize {
        self.end - self.start
    }

    /// Whether the peer has ended this stream.
    pub fn ended(&self, stream: Stream) -> bool {
        self.streams[stream.index()].ended
    }

    /// Marks bytes of a stream as consumed. Returns the credit to grant the peer once half a window is free.
    pub fn consumed(&mut self, stream: Stream, bytes: usize) -> Option<Credit> {
        let receiving = &mut self.streams[stream.index()];
        let held = WINDOW - receiving.credit - receiving.consumed;
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        debug_assert!(bytes <= held, "consumed more than came");
        receiving.consumed += bytes.min(held);
        if receiving.ended || receiving.consumed < WINDOW / 2 {
            return None;
        }
        let grant = std::mem::take(&mut receiving.consumed);
        receiving.credit += grant;
        Some(Credit { stream, grant })
    }

    /// Opens a tunnel, announced by a message of the peer or of this side. An error is final, like any other.
    pub fn open(&mut self, tunnel: TunnelId) -> Result<(), ProtocolError> {
        self.tunnels.open(tunnel).map_err(|error| {
            self.failed = Some(error.into());
            error.into()
        })
    }

    /// The receiving halves of all tunnels, to ask which are open.
    pub fn tunnels(&self) -> &Arriving {
        &self.tunnels
    }

    /// The receiving halves of all tunnels, to mark bytes as consumed.
    pub fn tunnels_mut(&mut self) -> &mut Arriving {
        &mut self.tunnels
    }

    /// The header at the front of the buffer, or `None` if it is incomplete.
    fn peek(&self) -> Option<Result<Header, FrameError>> {
        self.buffer[self.start..self.end]
            .first_chunk::<HEADER>()
            .map(|bytes| Header::read(*bytes))
    }

    /// The next whole frame, with its bytes counted. The header is checked before the payload has come.
    fn take(&mut self) -> Result<Option<(Checked, std::ops::Range<usize>)>, ProtocolError> {
        let Some(header) = self.peek().transpose()? else {
            return Ok(None);
        };
        let checked = self.check(header)?;
        let from = self.start + HEADER;
        let range = from..from + header.length();
        if range.end > self.end {
            return Ok(None);
        }
        match checked {
            Checked::Control => {}
            Checked::Data(stream) => self.streams[stream.index()].book(header.length()),
            Checked::End(stream) => self.streams[stream.index()].ended = true,
            Checked::Credit(stream) => {
                if self.grant(&range) == 0 {
                    return Err(ProtocolError::BadGrant { stream, grant: 0 });
                }
            }
            Checked::Tunnel(tunnel, kind) => {
                if kind == Kind::Credit && self.grant(&range) == 0 {
                    return Err(TunnelError::BadGrant { tunnel, grant: 0 }.into());
                }
                self.tunnels.book(tunnel, header);
            }
        }
        Ok(Some((checked, range)))
    }

    fn item(&self, checked: Checked, range: std::ops::Range<usize>) -> Item<'_> {
        match checked {
            Checked::Control => Item::Control(&self.buffer[range]),
            Checked::Data(stream) => Item::Data {
                stream,
                bytes: &self.buffer[range],
            },
            Checked::End(stream) => Item::End { stream },
            Checked::Credit(stream) => Item::Credit(Credit {
                stream,
                grant: self.grant(&range),
            }),
            Checked::Tunnel(tunnel, kind) => {
                let carried = match kind {
                    Kind::Credit => Carried::Credit(self.grant(&range)),
                    Kind::End => Carried::End,
                    Kind::Close => Carried::Close,
                    Kind::Control | Kind::Data => Carried::Data(&self.buffer[range]),
                };
                Item::Tunnel { tunnel, carried }
            }
        }
    }

    /// The number in a credit frame, whose length the header check covers.
    fn grant(&self, range: &std::ops::Range<usize>) -> u32 {
        self.buffer[range.clone()]
            .first_chunk()
            .map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    fn check(&self, header: Header) -> Result<Checked, ProtocolError> {
        if header.kind() == Kind::Control {
            return Ok(Checked::Control);
        }
        let id = header.stream();
        if let Some(tunnel) = TunnelId::from_id(id) {
            self.tunnels.check(tunnel, header)?;
            return Ok(Checked::Tunnel(tunnel, header.kind()));
        }
        let unknown = ProtocolError::UnknownStream { stream: id };
        let stream = Stream::from_id(id).ok_or(unknown)?;
        let receiving = &self.streams[stream.index()];
        let wanted = match header.kind() {
            Kind::Credit => Way::Out,
            Kind::Control | Kind::Data | Kind::End | Kind::Close => Way::In,
        };
        if receiving.way == Way::Absent {
            return Err(unknown);
        }
        if receiving.way != wanted {
            return Err(ProtocolError::WrongWay { stream });
        }
        if receiving.ended {
            return Err(ProtocolError::AfterEnd { stream });
        }
        match header.kind() {
            Kind::Control => Ok(Checked::Control),
            // Only tunnels have close frames.
            Kind::Close => Err(ProtocolError::WrongWay { stream }),
            Kind::End => Ok(Checked::End(stream)),
            Kind::Credit => Ok(Checked::Credit(stream)),
            Kind::Data => {
                receiving.admit(stream, header.length())?;
                Ok(Checked::Data(stream))
            }
        }
    }
}

/// A frame that the current state allows.
#[derive(Clone, Copy)]
enum Checked {
    Control,
    Data(Stream),
    End(Stream),
    Credit(Stream),
    Tunnel(TunnelId, Kind),
}

impl Receiving {
    fn admit(&self, stream: Stream, bytes: usize) -> Result<(), ProtocolError> {
        if let Some(excess) = bytes.checked_sub(self.credit as usize + 1) {
            return Err(ProtocolError::BeyondCredit {
                stream,
                excess: excess + 1,
            });
        }
        match (self.left, self.cap) {
            (Cap::Bytes(left), Cap::Bytes(cap)) if bytes as u64 > left => Err(ProtocolError::BeyondCap { stream, cap }),
            _ => Ok(()),
        }
    }

    /// Counts bytes that [`admit`](Self::admit) accepted.
    fn book(&mut self, bytes: usize) {
        self.credit = self.credit.saturating_sub(u32::try_from(bytes).unwrap_or(u32::MAX));
        if let Cap::Bytes(left) = &mut self.left {
            *left = left.saturating_sub(bytes as u64);
        }
    }
}

#[cfg(test)]
mod tests;
