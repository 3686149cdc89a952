//! Bytes from a peer, turned into checked items. The peer is hostile: the first thing wrong ends the conversation for good,
//! and nothing it sends makes this hold more than one frame.

use crate::error::ProtocolError;
use crate::frame::{FrameError, HEADER, Header, Kind, MAX_PAYLOAD};
use crate::stream::{Cap, Credit, STREAMS, Side, Stream, WINDOW};
use crate::tunnel::{Arriving, Carried, TunnelError, TunnelId};

/// What a buffer starts with. It grows when a larger frame comes: most pipes never see one.
const FIRST_ROOM: usize = 4 * 1024;

/// One frame, checked. Its bytes stay in the buffer until the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// An encoded message: for [`decode`](crate::decode).
    Control(&'a [u8]),
    /// Bytes of a stream; say [`Inbound::consumed`] when they are gone.
    Data {
        /// Whose bytes.
        stream: Stream,
        /// At least one.
        bytes: &'a [u8],
    },
    /// A stream is complete.
    End {
        /// Which.
        stream: Stream,
    },
    /// The peer has room again: for [`Outbound::credit`](crate::Outbound::credit).
    Credit(Credit),
    /// Something of a tunnel.
    Tunnel {
        /// Which.
        tunnel: TunnelId,
        /// What it brings.
        carried: Carried<'a>,
    },
}

/// The receiving half of a pipe.
///
/// Feed it with [`push`](Self::push), or read into [`space`](Self::space) and say [`filled`](Self::filled); then take
/// [`next`](Self::next) until there is none; at the end of input ask [`finish`](Self::finish).
#[derive(Debug)]
pub struct Inbound {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    streams: [Receiving; STREAMS],
    tunnels: Arriving,
    failed: Option<ProtocolError>,
}

/// What is known of a stream. Without a peer that sends it, `way` is never `In`.
#[derive(Clone, Copy, Debug)]
struct Receiving {
    way: Way,
    /// Bytes the peer may still send.
    credit: u32,
    /// Bytes consumed and not yet granted again.
    consumed: u32,
    /// Bytes it may still have in all.
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
    /// The half that `side` of an execution's pipe receives with.
    pub fn execution(side: Side) -> Self {
        Self::new(|stream| if stream.sender() == side { Way::Out } else { Way::In })
    }

    /// For a conversation of messages only: orders and reports.
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

    /// The same with another cap for a stream, from its beginning.
    #[must_use]
    pub fn capped(mut self, stream: Stream, cap: Cap) -> Self {
        let receiving = &mut self.streams[stream.index()];
        receiving.cap = cap;
        receiving.left = cap;
        self
    }

    /// Takes bytes and says how many: all of them, unless items wait for [`next`](Self::next).
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

    /// Where to read into. Never empty once [`next`](Self::next) has said that there is none.
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

    /// Says that so many bytes were written to [`space`](Self::space).
    pub fn filled(&mut self, count: usize) {
        debug_assert!(count <= self.buffer.len() - self.end);
        self.end = self.buffer.len().min(self.end + count);
    }

    /// The next item, or `None` until more bytes come. An error stays: every later call gives it again.
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

    /// The input is over. Clean only between frames.
    pub fn finish(&self) -> Result<(), ProtocolError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        match self.held() {
            0 => Ok(()),
            held => Err(ProtocolError::CutShort { held }),
        }
    }

    /// Bytes that came and were not yet given out as items.
    pub fn held(&self) -> usize {
        self.end - self.start
    }

    /// Whether the peer has ended this stream.
    pub fn ended(&self, stream: Stream) -> bool {
        self.streams[stream.index()].ended
    }

    /// Says that bytes of a stream are gone for good; answers what to grant the peer, once half a window is free.
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

    /// A tunnel was opened: by the peer's message, or by one that this side sends. An error stays, like any other.
    pub fn open(&mut self, tunnel: TunnelId) -> Result<(), ProtocolError> {
        self.tunnels.open(tunnel).map_err(|error| {
            self.failed = Some(error.into());
            error.into()
        })
    }

    /// The receiving halves of tunnels.
    pub fn tunnels(&self) -> &Arriving {
        &self.tunnels
    }

    /// The same, to say what is consumed.
    pub fn tunnels_mut(&mut self) -> &mut Arriving {
        &mut self.tunnels
    }

    /// The header at the front, if its bytes are there.
    fn peek(&self) -> Option<Result<Header, FrameError>> {
        self.buffer[self.start..self.end]
            .first_chunk::<HEADER>()
            .map(|bytes| Header::read(*bytes))
    }

    /// The next whole frame, accounted for. A header is judged before its payload has come.
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

    /// The number in a credit frame; its length was checked with its header.
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
            // Only tunnels are closed.
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

/// A frame whose header this conversation allows now.
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

    /// Counts bytes that [`admit`](Self::admit) let in.
    fn book(&mut self, bytes: usize) {
        self.credit = self.credit.saturating_sub(u32::try_from(bytes).unwrap_or(u32::MAX));
        if let Cap::Bytes(left) = &mut self.left {
            *left = left.saturating_sub(bytes as u64);
        }
    }
}

#[cfg(test)]
mod tests;
