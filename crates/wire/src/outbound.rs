//! Turns messages and streams into bytes for a peer. Control and credit frames go before everything that is not in
//! flight; streams take turns; nothing exceeds the peer's grants; memory is bounded however slow the peer is.

use crate::codec::{ControlMessage, MessageError, encode_frame};
use crate::error::ProtocolError;
use crate::frame::{HEADER_BYTES, MAX_PAYLOAD};
use crate::stream::{PipeSide, PipeStream, STREAM_COUNT, StreamCredit};
use crate::stream_sender::{self, LentBlock, SendState, StreamSender, TurnOutcome};
use crate::tunnel::{TunnelId, TunnelSenders};

/// The most bytes of control frames that may be queued.
pub const CONTROL_QUEUE_CAPACITY: usize = 256 * 1024;

/// Why something cannot be sent. Each of these is an error of this side.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutboundError {
    /// The message cannot be encoded.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The queue of control frames is full, because the peer does not read.
    #[error("{CONTROL_QUEUE_CAPACITY} bytes of control frames wait already")]
    ControlFull,
    /// This side does not send the stream.
    #[error("{stream} is not sent from here")]
    NotOurs {
        /// The stream that only the peer sends.
        stream: PipeStream,
    },
    /// This side has already ended the stream.
    #[error("{stream} was ended before")]
    Ended {
        /// The stream that has ended.
        stream: PipeStream,
    },
}

/// The sending half of a pipe.
///
/// While [`chunk`](Self::chunk) is not empty, write some of it and call [`advance`](Self::advance).
#[derive(Debug)]
pub struct Outbound {
    /// Whole control frames that are queued.
    control: Vec<u8>,
    /// The bytes in flight are those from `position` to `stop`. The rest of a stream's block may follow them.
    in_flight: Vec<u8>,
    position: usize,
    stop: usize,
    /// The stream or tunnel that owns the block in flight; `None` for a batch of frames.
    block_owner: Option<BlockOwner>,
    sending: [StreamSender; STREAM_COUNT],
    /// Grants for the peer's streams that are queued.
    owed_grants: [u32; STREAM_COUNT],
    tunnels: TunnelSenders,
    /// Whose turn it is: the index of a stream, or the number after the last for the tunnels.
    turn: usize,
}

#[derive(Clone, Copy, Debug)]
enum BlockOwner {
    Stream(PipeStream),
    Tunnel(TunnelId),
}

/// The number of turns: one for each stream, and one for all tunnels.
const TURN_COUNT: usize = STREAM_COUNT + 1;

impl Outbound {
    /// The sending half at the `side` end of an execution's pipe.
    pub fn execution(side: PipeSide) -> Self {
        Self::new(|stream| {
            if stream.sender() == side {
                SendState::Open
            } else {
                SendState::NotOurs
            }
        })
    }

    /// The sending half for commands or reports, without streams.
    pub fn control_only() -> Self {
        Self::new(|_| SendState::NotOurs)
    }

    fn new(state: impl Fn(PipeStream) -> SendState) -> Self {
        Self {
            control: Vec::new(),
            in_flight: Vec::new(),
            position: 0,
            stop: 0,
            block_owner: None,
            sending: PipeStream::ALL.map(|stream| StreamSender::new(state(stream))),
            owed_grants: [0; STREAM_COUNT],
            tunnels: TunnelSenders::default(),
            turn: 0,
        }
    }

    /// Queues a message, which goes before all streams.
    pub fn queue_message<M: ControlMessage>(&mut self, message: &M) -> Result<(), OutboundError> {
        let waiting = self.control.len();
        encode_frame(message, &mut self.control)?;
        if self.control.len() > CONTROL_QUEUE_CAPACITY {
            self.control.truncate(waiting);
            return Err(OutboundError::ControlFull);
        }
        Ok(())
    }

    /// Whether the queue has capacity for any message, and for one more after it.
    pub fn can_queue_message(&self) -> bool {
        self.control.len() + 2 * (HEADER_BYTES + MAX_PAYLOAD) <= CONTROL_QUEUE_CAPACITY
    }

    /// Queues as many bytes as the stream has capacity for, and returns how many.
    pub fn queue_data(&mut self, stream: PipeStream, bytes: &[u8]) -> Result<usize, OutboundError> {
        Ok(self.own_stream(stream)?.push(bytes))
    }

    /// How many bytes [`queue_data`](Self::queue_data) would queue now.
    pub fn available_capacity(&self, stream: PipeStream) -> usize {
        self.sending[stream.table_index()].available_capacity()
    }

    /// Ends a stream. The queued bytes go first.
    pub fn end_stream(&mut self, stream: PipeStream) -> Result<(), OutboundError> {
        self.own_stream(stream)?.state = SendState::Ending;
        Ok(())
    }

    /// Adds a grant of the peer, received as [`InboundItem::Credit`](crate::InboundItem::Credit).
    pub fn add_credit(&mut self, credit: StreamCredit) -> Result<(), ProtocolError> {
        let StreamCredit { stream, grant } = credit;
        let sending = &mut self.sending[stream.table_index()];
        if sending.state == SendState::NotOurs {
            return Err(ProtocolError::WrongWay { stream });
        }
        if sending.add_credit(grant) {
            Ok(())
        } else {
            Err(ProtocolError::BadGrant { stream, grant })
        }
    }

    /// Queues a grant for the peer, returned by [`Inbound::mark_consumed`](crate::Inbound::mark_consumed). Queued grants are
    /// added up, so a peer that does not read costs no memory.
    pub fn queue_grant(&mut self, credit: StreamCredit) {
        let owed = &mut self.owed_grants[credit.stream.table_index()];
        *owed = owed.saturating_add(credit.grant);
    }

    /// The sending halves of all tunnels, to ask for their capacity.
    pub fn tunnels(&self) -> &TunnelSenders {
        &self.tunnels
    }

    /// The sending halves of all tunnels, to send with.
    pub fn tunnels_mut(&mut self) -> &mut TunnelSenders {
        &mut self.tunnels
    }

    /// Opens a tunnel, announced by a message of the peer or by one that this side sends next.
    pub fn open_tunnel(&mut self, tunnel: TunnelId) -> Result<(), ProtocolError> {
        Ok(self.tunnels.open(tunnel)?)
    }

    /// Whether [`chunk`](Self::chunk) has something to write.
    pub fn has_pending(&self) -> bool {
        self.position < self.stop
            || !self.control.is_empty()
            || self.owed_grants.iter().any(|owed| *owed > 0)
            || self.sending.iter().any(StreamSender::has_turn)
            || self.tunnels.has_pending()
    }

    /// Whether everything queued has been written, bytes without credit included.
    pub fn is_flushed(&self) -> bool {
        !self.has_pending() && self.sending.iter().all(StreamSender::is_flushed) && self.tunnels.is_flushed()
    }

    /// The bytes to write now; empty if nothing is queued or the peer has granted nothing more.
    pub fn chunk(&mut self) -> &[u8] {
        if self.position == self.stop {
            self.fill_batch();
        }
        &self.in_flight[self.position..self.stop]
    }

    /// Marks `count` bytes of [`chunk`](Self::chunk) as written.
    pub fn advance(&mut self, count: usize) {
        debug_assert!(count <= self.stop - self.position, "advanced past the chunk");
        self.position = self.stop.min(self.position + count);
        if self.position == self.stop {
            self.finish_block();
        }
    }

    fn own_stream(&mut self, stream: PipeStream) -> Result<&mut StreamSender, OutboundError> {
        let sending = &mut self.sending[stream.table_index()];
        match sending.state {
            SendState::Open => Ok(sending),
            SendState::NotOurs => Err(OutboundError::NotOurs { stream }),
            SendState::Ending | SendState::Ended => Err(OutboundError::Ended { stream }),
        }
    }

    /// Ends the flight once everything is written: the rest of the block returns to the head of its stream.
    fn finish_block(&mut self) {
        match self.block_owner.take() {
            Some(BlockOwner::Stream(stream)) if self.stop < self.in_flight.len() => {
                let bytes = std::mem::take(&mut self.in_flight);
                self.sending[stream.table_index()].return_block(bytes, self.stop);
            }
            Some(BlockOwner::Tunnel(tunnel)) => {
                let bytes = std::mem::take(&mut self.in_flight);
                self.tunnels.return_block(tunnel, bytes, self.stop);
            }
            Some(BlockOwner::Stream(_)) | None => {}
        }
        self.in_flight.clear();
        self.position = 0;
        self.stop = 0;
    }

    fn fill_batch(&mut self) {
        self.finish_block();
        std::mem::swap(&mut self.in_flight, &mut self.control);
        for stream in PipeStream::ALL {
            let grant = std::mem::take(&mut self.owed_grants[stream.table_index()]);
            if grant > 0 {
                stream_sender::add_grant(stream.id(), grant, &mut self.in_flight);
            }
        }
        self.tunnels.add_grants(&mut self.in_flight);
        let mut passed = 0;
        while passed < TURN_COUNT {
            match self.take_turn() {
                (TurnOutcome::Passed, _) => passed += 1,
                (TurnOutcome::Added, _) => passed = 0,
                (TurnOutcome::Full, _) => break,
                (TurnOutcome::Block(LentBlock { bytes, start, stop }), lender) => {
                    self.in_flight = bytes;
                    self.position = start;
                    self.stop = stop;
                    self.block_owner = lender;
                    self.next_turn();
                    return;
                }
            }
            self.next_turn();
        }
        self.stop = self.in_flight.len();
    }

    fn next_turn(&mut self) {
        self.turn = (self.turn + 1) % TURN_COUNT;
    }

    /// Takes the next frame of the stream or tunnel whose turn it is.
    fn take_turn(&mut self) -> (TurnOutcome, Option<BlockOwner>) {
        let flight = &mut self.in_flight;
        let Some(stream) = PipeStream::ALL.get(self.turn).copied() else {
            let (turn, tunnel) = self.tunnels.take_turn(flight);
            return (turn, tunnel.map(BlockOwner::Tunnel));
        };
        let turn = self.sending[stream.table_index()].take_turn(stream.id(), flight);
        (turn, Some(BlockOwner::Stream(stream)))
    }
}

#[cfg(test)]
mod tests;
