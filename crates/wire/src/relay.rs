//! One byte stream for everything of a sandbox, where its backend has no way to hand sockets over: the conversation with the
//! first process, and the pipe of the execution, whose bytes both ends carry without reading them.
//!
//! A [`Relay`] is one end of it, without input or output of its own. The bytes of a pipe have credit, so that a pipe nobody
//! reads never stands in the way of an order or a report, and what either end holds is bounded. There is one pipe at a time:
//! frames of an earlier one are late and dropped.

use std::collections::VecDeque;

use crate::frame::MAX_PAYLOAD;

/// The most bytes of a pipe that may be sent and not yet written to their pipe by the other end.
pub const RELAY_WINDOW: usize = 256 * 1024;

/// Bytes of a header: kind `u8`, three zeros, length `u32`, execution `u32`, all little-endian.
const HEADER_BYTES: usize = 12;

/// Control packets that may wait to be sent. The conversation has one report for each order, so there are never many.
const MAX_WAITING_PACKETS: usize = 64;

/// The kinds of frame on a relayed stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum RelayFrameKind {
    /// A whole packet of the conversation with the first process.
    Control = 0,
    /// Bytes of an execution's pipe.
    Data = 1,
    /// The pipe of an execution is closed at the sender's end.
    End = 2,
    /// The receiver of a pipe's bytes grants more of them.
    Credit = 3,
}

/// Why a relayed stream cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RelayError {
    /// The header has an unknown kind, or bytes that must be zero are not.
    #[error("the header of a relayed frame makes no sense")]
    Header,
    /// The length is not one that the kind allows.
    #[error("a relayed frame cannot have {length} bytes")]
    Length {
        /// The length in the header.
        length: u32,
    },
    /// The frame belongs to an execution that does not exist.
    #[error("there is no pipe of execution {execution}")]
    UnknownExecution {
        /// The number in the header.
        execution: u32,
    },
    /// The peer sends more bytes of a pipe than it was granted, or grants more than it received.
    #[error("the pipe of execution {execution} goes beyond its credit")]
    BeyondCredit {
        /// The number in the header.
        execution: u32,
    },
    /// The peer sends bytes of a pipe that it has closed.
    #[error("the pipe of execution {execution} was closed before")]
    AfterEnd {
        /// The number in the header.
        execution: u32,
    },
    /// More control packets wait than a conversation can have.
    #[error("too many packets wait for the stream")]
    TooManyPackets,
}

#[derive(Clone, Copy)]
struct RelayHeader {
    kind: RelayFrameKind,
    length: u32,
    execution: u32,
}

impl RelayHeader {
    fn parse(bytes: [u8; HEADER_BYTES]) -> Result<RelayHeader, RelayError> {
        let field = |at: usize| bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
        let (Some([kind, 0, 0, 0]), Some(length), Some(execution)) = (field(0), field(4), field(8)) else {
            return Err(RelayError::Header);
        };
        let (length, execution) = (u32::from_le_bytes(*length), u32::from_le_bytes(*execution));
        let kind = match kind {
            0 => RelayFrameKind::Control,
            1 => RelayFrameKind::Data,
            2 => RelayFrameKind::End,
            3 => RelayFrameKind::Credit,
            _ => return Err(RelayError::Header),
        };
        let fits = match kind {
            RelayFrameKind::Control | RelayFrameKind::Data => length > 0 && length as usize <= MAX_PAYLOAD,
            RelayFrameKind::End => length == 0,
            RelayFrameKind::Credit => length == 4,
        };
        if !fits {
            return Err(RelayError::Length { length });
        }
        if (kind == RelayFrameKind::Control) != (execution == 0) {
            return Err(RelayError::UnknownExecution { execution });
        }
        Ok(RelayHeader {
            kind,
            length,
            execution,
        })
    }

    fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = self.kind as u8;
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..].copy_from_slice(&self.execution.to_le_bytes());
        bytes
    }
}

/// One end of a relayed stream.
///
/// What the stream brings goes to [`push`](Self::push), then [`next_packet`](Self::next_packet) is called until it returns
/// `None`. What [`chunk`](Self::chunk) returns goes to the stream. The bytes of the local pipe go to
/// [`queue_pipe`](Self::queue_pipe), and those of [`pipe_bytes`](Self::pipe_bytes) go to the local pipe.
#[derive(Debug, Default)]
pub struct Relay {
    received: Vec<u8>,
    /// Packets that wait to be sent; they overtake the bytes of a pipe.
    packets: VecDeque<Vec<u8>>,
    /// The frame that is being sent, and how much of it has been.
    frame: Vec<u8>,
    sent: usize,
    lane: Option<PipeLane>,
    /// The number of the last execution whose pipe was opened.
    last: u32,
}

/// The pipe of the current execution.
#[derive(Debug)]
struct PipeLane {
    execution: u32,
    /// Bytes of the local pipe that wait to be sent.
    outgoing: Vec<u8>,
    /// Bytes that may still be sent.
    credit: usize,
    /// Bytes for the local pipe.
    incoming: VecDeque<u8>,
    /// Bytes that the peer may still send.
    granted: usize,
    /// Bytes written to the local pipe since the last grant.
    written: usize,
    local: LaneEnd,
    /// Whether the local pipe takes nothing more: what comes for it is dropped.
    is_deaf: bool,
    peer_closed: bool,
}

/// The state of a pipe's local end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LaneEnd {
    Open,
    /// Closed, and the peer is yet to be told.
    Closing,
    Closed,
}

impl Relay {
    /// An end of a stream that has carried nothing.
    pub fn new() -> Relay {
        Relay::default()
    }

    /// Takes bytes that the stream brought.
    pub fn push(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    /// The next packet of the conversation, or `None` until more bytes come. The bytes of the pipe before it are taken.
    pub fn next_packet(&mut self) -> Result<Option<Vec<u8>>, RelayError> {
        let mut start = 0;
        let packet = loop {
            let rest = self.received.get(start..).unwrap_or_default();
            let Some(header) = rest.first_chunk::<HEADER_BYTES>() else {
                break None;
            };
            let header = RelayHeader::parse(*header)?;
            let length = HEADER_BYTES + header.length as usize;
            let Some(payload) = rest.get(HEADER_BYTES..length) else {
                break None;
            };
            start += length;
            match header.kind {
                RelayFrameKind::Control => break Some(payload.to_vec()),
                RelayFrameKind::Data | RelayFrameKind::End | RelayFrameKind::Credit => {
                    take_frame(&mut self.lane, self.last, header, payload)?;
                }
            }
        };
        self.received.drain(..start);
        Ok(packet)
    }

    /// Queues a packet of the conversation.
    pub fn queue_packet(&mut self, packet: &[u8]) -> Result<(), RelayError> {
        if self.packets.len() == MAX_WAITING_PACKETS {
            return Err(RelayError::TooManyPackets);
        }
        let length = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        if packet.is_empty() || packet.len() > MAX_PAYLOAD {
            return Err(RelayError::Length { length });
        }
        self.packets
            .push_back(encode_frame_bytes(RelayFrameKind::Control, 0, packet));
        Ok(())
    }

    /// Opens the pipe of the next execution, whose number is larger than any before. The pipe before it is given up.
    pub fn open_pipe(&mut self, execution: u32) -> Result<(), RelayError> {
        if execution <= self.last {
            return Err(RelayError::UnknownExecution { execution });
        }
        self.last = execution;
        self.lane = Some(PipeLane {
            execution,
            outgoing: Vec::new(),
            credit: RELAY_WINDOW,
            incoming: VecDeque::new(),
            granted: RELAY_WINDOW,
            written: 0,
            local: LaneEnd::Open,
            is_deaf: false,
            peer_closed: false,
        });
        Ok(())
    }

    /// How many bytes of the local pipe may be queued now.
    pub fn pipe_room(&self) -> usize {
        let open = self.lane.as_ref().filter(|lane| lane.local == LaneEnd::Open);
        open.map_or(0, |lane| {
            lane.credit.min(MAX_PAYLOAD).saturating_sub(lane.outgoing.len())
        })
    }

    /// Queues bytes of the local pipe, at most [`pipe_room`](Self::pipe_room) of them.
    pub fn queue_pipe(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= self.pipe_room(), "more than there is room for");
        if let Some(lane) = &mut self.lane {
            lane.outgoing.extend_from_slice(bytes);
        }
    }

    /// The next bytes for the local pipe.
    pub fn pipe_bytes(&self) -> &[u8] {
        self.lane.as_ref().map_or(&[], |lane| lane.incoming.as_slices().0)
    }

    /// Marks bytes of [`pipe_bytes`](Self::pipe_bytes) as written.
    pub fn mark_written(&mut self, count: usize) {
        if let Some(lane) = &mut self.lane {
            let count = count.min(lane.incoming.len());
            lane.incoming.drain(..count);
            lane.written += count;
        }
    }

    /// The local pipe is closed: the peer is told after the bytes that are queued.
    pub fn close_pipe(&mut self) {
        if let Some(lane) = &mut self.lane
            && lane.local == LaneEnd::Open
        {
            lane.local = LaneEnd::Closing;
            lane.drop_incoming();
        }
    }

    /// The local pipe takes nothing more, and may still be read.
    pub fn drop_incoming(&mut self) {
        if let Some(lane) = &mut self.lane {
            lane.drop_incoming();
        }
    }

    /// Whether the peer has closed the pipe and all of its bytes are written: the local pipe is to be closed.
    pub fn is_pipe_over(&self) -> bool {
        self.lane
            .as_ref()
            .is_some_and(|lane| lane.peer_closed && lane.incoming.is_empty())
    }

    /// Whether there is something to send. It makes the next frame ready for [`chunk`](Self::chunk).
    pub fn has_pending(&mut self) -> bool {
        if self.sent == self.frame.len() {
            self.sent = 0;
            self.frame = match (self.packets.pop_front(), &mut self.lane) {
                (Some(packet), _) => packet,
                (None, Some(lane)) => lane.next_frame(),
                (None, None) => Vec::new(),
            };
        }
        !self.frame.is_empty()
    }

    /// The bytes to send next, once [`has_pending`](Self::has_pending) has made them ready.
    pub fn chunk(&self) -> &[u8] {
        self.frame.get(self.sent..).unwrap_or_default()
    }

    /// Marks bytes of [`chunk`](Self::chunk) as sent.
    pub fn advance(&mut self, count: usize) {
        self.sent = self.frame.len().min(self.sent + count);
    }
}

impl PipeLane {
    fn drop_incoming(&mut self) {
        self.incoming.clear();
        self.is_deaf = true;
    }

    /// The frame that goes out next; empty if there is none.
    fn next_frame(&mut self) -> Vec<u8> {
        if self.written >= RELAY_WINDOW / 2 && !self.peer_closed && !self.is_deaf {
            let grant = std::mem::take(&mut self.written);
            self.granted += grant;
            let grant = u32::try_from(grant).unwrap_or(u32::MAX).to_le_bytes();
            return encode_frame_bytes(RelayFrameKind::Credit, self.execution, &grant);
        }
        if !self.outgoing.is_empty() {
            let frame = encode_frame_bytes(RelayFrameKind::Data, self.execution, &self.outgoing);
            self.credit -= self.outgoing.len().min(self.credit);
            self.outgoing.clear();
            return frame;
        }
        if self.local == LaneEnd::Closing {
            self.local = LaneEnd::Closed;
            return encode_frame_bytes(RelayFrameKind::End, self.execution, &[]);
        }
        Vec::new()
    }

    fn take(&mut self, kind: RelayFrameKind, payload: &[u8]) -> Result<(), RelayError> {
        let execution = self.execution;
        if self.peer_closed && kind != RelayFrameKind::Credit {
            return Err(RelayError::AfterEnd { execution });
        }
        match kind {
            RelayFrameKind::Data => {
                self.granted = self
                    .granted
                    .checked_sub(payload.len())
                    .ok_or(RelayError::BeyondCredit { execution })?;
                if !self.is_deaf {
                    self.incoming.extend(payload);
                }
            }
            RelayFrameKind::Credit => {
                let grant = payload.first_chunk().map_or(0, |grant| u32::from_le_bytes(*grant)) as usize;
                self.credit = self.credit.saturating_add(grant);
                if grant == 0 || self.credit > RELAY_WINDOW {
                    return Err(RelayError::BeyondCredit { execution });
                }
            }
            RelayFrameKind::End => self.peer_closed = true,
            RelayFrameKind::Control => {}
        }
        Ok(())
    }
}

/// Hands a frame to the pipe that it belongs to; a frame of an earlier pipe is late.
fn take_frame(lane: &mut Option<PipeLane>, last: u32, header: RelayHeader, payload: &[u8]) -> Result<(), RelayError> {
    match lane {
        Some(lane) if lane.execution == header.execution => lane.take(header.kind, payload),
        _ if header.execution <= last => Ok(()),
        _ => Err(RelayError::UnknownExecution {
            execution: header.execution,
        }),
    }
}

fn encode_frame_bytes(kind: RelayFrameKind, execution: u32, payload: &[u8]) -> Vec<u8> {
    let header = RelayHeader {
        kind,
        length: u32::try_from(payload.len()).unwrap_or(u32::MAX),
        execution,
    };
    let mut frame = Vec::with_capacity(HEADER_BYTES + payload.len());
    frame.extend_from_slice(&header.to_bytes());
    frame.extend_from_slice(payload);
    frame
}

#[cfg(test)]
mod tests;
