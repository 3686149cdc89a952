//! Turns messages and streams into bytes for a peer. Control and credit frames go before everything that is not in
//! flight; streams take turns; nothing exceeds the peer's grants; memory is bounded however slow the peer is.

use crate::codec::{Message, MessageError, encode_frame};
use crate::error::ProtocolError;
use crate::frame::{HEADER, MAX_PAYLOAD};
use crate::sending::{self, Lent, Sending, State, Turn};
use crate::stream::{Credit, STREAMS, Side, Stream};
use crate::tunnel::{Leaving, TunnelId};

/// The most bytes of control frames that may be queued.
pub const CONTROL_QUEUE: usize = 256 * 1024;

/// Why something cannot be sent. Each of these is an error of this side.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The message cannot be encoded.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The queue of control frames is full, because the peer does not read.
    #[error("{CONTROL_QUEUE} bytes of control frames wait already")]
    ControlFull,
    /// This side does not send the stream.
    #[error("{stream} is not sent from here")]
    NotOurs {
        /// The stream that only the peer sends.
        stream: Stream,
    },
    /// This side has already ended the stream.
    #[error("{stream} was ended before")]
    Ended {
        /// The stream that has ended.
        stream: Stream,
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
    flight: Vec<u8>,
    position: usize,
    stop: usize,
    /// The stream or tunnel that owns the block in flight; `None` for a batch of frames.
    lent: Option<Lender>,
    sending: [Sending; STREAMS],
    /// Grants for the peer's streams that are queued.
    owed: [u32; STREAMS],
    tunnels: Leaving,
    /// Whose turn it is: the index of a stream, or the number after the last for the tunnels.
    turn: usize,
}

#[derive(Clone, Copy, Debug)]
enum Lender {
    Stream(Stream),
    Tunnel(TunnelId),
}

/// The number of turns: one for each stream, and one for all tunnels.
const TURNS: usize = STREAMS + 1;

impl Outbound {
    /// The sending half at the `side` end of an execution's pipe.
    pub fn execution(side: Side) -> Self {
        Self::new(|stream| {
            if stream.sender() == side {
                State::Open
            } else {
                State::NotOurs
            }
        })
    }

    /// The sending half for commands or reports, without streams.
    pub fn control_only() -> Self {
        Self::new(|_| State::NotOurs)
    }

    fn new(state: impl Fn(Stream) -> State) -> Self {
        Self {
            control: Vec::new(),
            flight: Vec::new(),
            position: 0,
            stop: 0,
            lent: None,
            sending: Stream::ALL.map(|stream| Sending::new(state(stream))),
            owed: [0; STREAMS],
            tunnels: Leaving::default(),
            turn: 0,
        }
    }

    /// Queues a message, which goes before all streams.
    pub fn control<M: Message>(&mut self, message: &M) -> Result<(), SendError> {
        let waiting = self.control.len();
        encode_frame(message, &mut self.control)?;
        if self.control.len() > CONTROL_QUEUE {
            self.control.truncate(waiting);
            return Err(SendError::ControlFull);
        }
        Ok(())
    }

    /// Whether the queue has capacity for any message, and for one more after it.
    pub fn takes_control(&self) -> bool {
        self.control.len() + 2 * (HEADER + MAX_PAYLOAD) <= CONTROL_QUEUE
    }

    /// Queues as many bytes as the stream has capacity for, and returns how many.
    pub fn data(&mut self, stream: Stream, bytes: &[u8]) -> Result<usize, SendError> {
        Ok(self.ours(stream)?.push(bytes))
    }

    /// How many bytes [`data`](Self::data) would queue now.
    pub fn room(&self, stream: Stream) -> usize {
        self.sending[stream.index()].room()
    }

    /// Ends a stream. The queued bytes go first.
    pub fn end(&mut self, stream: Stream) -> Result<(), SendError> {
        self.ours(stream)?.state = State::Ending;
        Ok(())
    }

    /// Adds a grant of the peer, received as [`Item::Credit`](crate::Item::Credit).
    pub fn credit(&mut self, credit: Credit) -> Result<(), ProtocolError> {
        let Credit { stream, grant } = credit;
        let sending = &mut self.sending[stream.index()];
        if sending.state == State::NotOurs {
            return Err(ProtocolError::WrongWay { stream });
        }
        if sending.add_credit(grant) {
            Ok(())
        } else {
            Err(ProtocolError::BadGrant { stream, grant })
        }
    }

    /// Queues a grant for the peer, returned by [`Inbound::consumed`](crate::Inbound::consumed). Queued grants are
    /// added up, so a peer that does not read costs no memory.
    pub fn grant(&mut self, credit: Credit) {
        let owed = &mut self.owed[credit.stream.index()];
        *owed = owed.saturating_add(credit.grant);
    }

    /// The sending halves of all tunnels, to ask for their capacity.
    pub fn tunnels(&self) -> &Leaving {
        &self.tunnels
    }

    /// The sending halves of all tunnels, to send with.
    pub fn tunnels_mut(&mut self) -> &mut Leaving {
        &mut self.tunnels
    }

    /// Opens a tunnel, announced by a message of the peer or by one that this side sends next.
    pub fn open(&mut self, tunnel: TunnelId) -> Result<(), ProtocolError> {
        Ok(self.tunnels.open(tunnel)?)
    }

    /// Whether [`chunk`](Self::chunk) has something to write.
    pub fn pending(&self) -> bool {
        self.position < self.stop
            || !self.control.is_empty()
            || self.owed.iter().any(|owed| *owed > 0)
            || self.sending.iter().any(Sending::ready)
            || self.tunnels.pending()
    }

    /// Whether everything queued has been written, bytes without credit included.
    pub fn flushed(&self) -> bool {
        !self.pending() && self.sending.iter().all(Sending::is_flushed) && self.tunnels.is_flushed()
    }

    /// The bytes to write now; empty if nothing is queued or the peer has granted nothing more.
    pub fn chunk(&mut self) -> &[u8] {
        if self.position == self.stop {
            self.fill();
        }
        &self.flight[self.position..self.stop]
    }

    /// Marks `count` bytes of [`chunk`](Self::chunk) as written.
    pub fn advance(&mut self, count: usize) {
        debug_assert!(count <= self.stop - self.position, "advanced past the chunk");
        self.position = self.stop.min(self.position + count);
        if self.position == self.stop {
            self.land();
        }
    }

    fn ours(&mut self, stream: Stream) -> Result<&mut Sending, SendError> {
        let sending = &mut self.sending[stream.index()];
        match sending.state {
            State::Open => Ok(sending),
            State::NotOurs => Err(SendError::NotOurs { stream }),
            State::Ending | State::Ended => Err(SendError::Ended { stream }),
        }
    }

    /// Ends the flight once everything is written: the rest of the block returns to the head of its stream.
    fn land(&mut self) {
        match self.lent.take() {
            Some(Lender::Stream(stream)) if self.stop < self.flight.len() => {
                let bytes = std::mem::take(&mut self.flight);
                self.sending[stream.index()].give_back(bytes, self.stop);
            }
            Some(Lender::Tunnel(tunnel)) => {
                let bytes = std::mem::take(&mut self.flight);
                self.tunnels.give_back(tunnel, bytes, self.stop);
            }
            Some(Lender::Stream(_)) | None => {}
        }
        self.flight.clear();
        self.position = 0;
        self.stop = 0;
    }

    fn fill(&mut self) {
        self.land();
        std::mem::swap(&mut self.flight, &mut self.control);
        for stream in Stream::ALL {
            let grant = std::mem::take(&mut self.owed[stream.index()]);
            if grant > 0 {
                sending::add_grant(stream.id(), grant, &mut self.flight);
            }
        }
        self.tunnels.add_grants(&mut self.flight);
        let mut passed = 0;
        while passed < TURNS {
            match self.take_turn() {
                (Turn::Passed, _) => passed += 1,
                (Turn::Added, _) => passed = 0,
                (Turn::Waits, _) => break,
                (Turn::Lent(Lent { bytes, start, stop }), lender) => {
                    self.flight = bytes;
                    self.position = start;
                    self.stop = stop;
                    self.lent = lender;
                    self.pass_turn();
                    return;
                }
            }
            self.pass_turn();
        }
        self.stop = self.flight.len();
    }

    fn pass_turn(&mut self) {
        self.turn = (self.turn + 1) % TURNS;
    }

    /// Takes the next frame of the stream or tunnel whose turn it is.
    fn take_turn(&mut self) -> (Turn, Option<Lender>) {
        let flight = &mut self.flight;
        let Some(stream) = Stream::ALL.get(self.turn).copied() else {
            let (turn, tunnel) = self.tunnels.take_turn(flight);
            return (turn, tunnel.map(Lender::Tunnel));
        };
        let turn = self.sending[stream.index()].take_turn(stream.id(), flight);
        (turn, Some(Lender::Stream(stream)))
    }
}

#[cfg(test)]
mod tests;
