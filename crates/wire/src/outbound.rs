//! Messages and streams, turned into bytes for a peer. Control and credit go before everything not yet on its way; streams
//! take turns; nothing is sent that the peer has not granted; memory is bounded however slow the peer is.

use crate::codec::{Message, MessageError, encode_frame};
use crate::error::ProtocolError;
use crate::frame::{HEADER, MAX_PAYLOAD};
use crate::sending::{self, Lent, Sending, State, Turn};
use crate::stream::{Credit, STREAMS, Side, Stream};
use crate::tunnel::{Leaving, TunnelId};

/// The most bytes of control frames that may wait.
pub const CONTROL_QUEUE: usize = 256 * 1024;

/// Why something cannot be sent. All of these are this side's own doing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The message cannot be encoded.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The peer has not taken control frames for too long.
    #[error("{CONTROL_QUEUE} bytes of control frames wait already")]
    ControlFull,
    /// This side does not send that stream.
    #[error("{stream} is not sent from here")]
    NotOurs {
        /// The stream.
        stream: Stream,
    },
    /// The stream was ended before.
    #[error("{stream} was ended before")]
    Ended {
        /// The stream.
        stream: Stream,
    },
}

/// The sending half of a pipe.
///
/// While [`chunk`](Self::chunk) is not empty, write some of it and say [`advance`](Self::advance).
#[derive(Debug)]
pub struct Outbound {
    /// Whole control frames that wait.
    control: Vec<u8>,
    /// What is on its way is `flight[position..stop]`. Behind `stop` there may be the rest of a stream's block.
    flight: Vec<u8>,
    position: usize,
    stop: usize,
    /// The stream whose block `flight` is.
    lent: Option<Lender>,
    sending: [Sending; STREAMS],
    /// Grants for the peer's streams that wait.
    owed: [u32; STREAMS],
    tunnels: Leaving,
    /// The stream whose turn it is, by its index; after the last of them it is the tunnels'.
    turn: usize,
}

#[derive(Clone, Copy, Debug)]
enum Lender {
    Stream(Stream),
    Tunnel(TunnelId),
}

/// All streams, and the tunnels together.
const TURNS: usize = STREAMS + 1;

impl Outbound {
    /// The half that `side` of an execution's pipe sends with.
    pub fn execution(side: Side) -> Self {
        Self::new(|stream| {
            if stream.sender() == side {
                State::Open
            } else {
                State::NotOurs
            }
        })
    }

    /// For a conversation of messages only: orders and reports.
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

    /// Queues a message before all streams.
    pub fn control<M: Message>(&mut self, message: &M) -> Result<(), SendError> {
        let waiting = self.control.len();
        encode_frame(message, &mut self.control)?;
        if self.control.len() > CONTROL_QUEUE {
            self.control.truncate(waiting);
            return Err(SendError::ControlFull);
        }
        Ok(())
    }

    /// Whether any message can be queued now, and one more after it.
    pub fn takes_control(&self) -> bool {
        self.control.len() + 2 * (HEADER + MAX_PAYLOAD) <= CONTROL_QUEUE
    }

    /// Queues as many bytes as there is room for, and says how many.
    pub fn data(&mut self, stream: Stream, bytes: &[u8]) -> Result<usize, SendError> {
        Ok(self.ours(stream)?.push(bytes))
    }

    /// How many bytes [`data`](Self::data) would take now.
    pub fn room(&self, stream: Stream) -> usize {
        self.sending[stream.index()].room()
    }

    /// No more bytes will come; what is queued goes first.
    pub fn end(&mut self, stream: Stream) -> Result<(), SendError> {
        self.ours(stream)?.state = State::Ending;
        Ok(())
    }

    /// The peer grants more: for what [`Item::Credit`](crate::Item::Credit) brought.
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

    /// Queues a grant for the peer: for what [`Inbound::consumed`](crate::Inbound::consumed) answered. Grants that wait are
    /// added up, so that a peer that does not read costs nothing.
    pub fn grant(&mut self, credit: Credit) {
        let owed = &mut self.owed[credit.stream.index()];
        *owed = owed.saturating_add(credit.grant);
    }

    /// The sending halves of tunnels.
    pub fn tunnels(&self) -> &Leaving {
        &self.tunnels
    }

    /// The same, to send with.
    pub fn tunnels_mut(&mut self) -> &mut Leaving {
        &mut self.tunnels
    }

    /// A tunnel was opened: by the peer's message, or by one that this side sends next.
    pub fn open(&mut self, tunnel: TunnelId) -> Result<(), ProtocolError> {
        Ok(self.tunnels.open(tunnel)?)
    }

    /// Whether [`chunk`](Self::chunk) has something.
    pub fn pending(&self) -> bool {
        self.position < self.stop
            || !self.control.is_empty()
            || self.owed.iter().any(|owed| *owed > 0)
            || self.sending.iter().any(Sending::ready)
            || self.tunnels.pending()
    }

    /// Whether everything queued has left, also what waited for credit.
    pub fn flushed(&self) -> bool {
        !self.pending() && self.sending.iter().all(Sending::is_flushed) && self.tunnels.is_flushed()
    }

    /// Bytes to write now; empty when there are none, or none that the peer has granted.
    pub fn chunk(&mut self) -> &[u8] {
        if self.position == self.stop {
            self.fill();
        }
        &self.flight[self.position..self.stop]
    }

    /// Says that so many bytes of [`chunk`](Self::chunk) were written.
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

    /// Everything on its way is written: what was behind it in the same block goes back to the head of its stream.
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

    /// Sends the next frame of whoever's turn it is along.
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
