//! Messages and streams, turned into bytes for a peer. Control and credit go before everything not yet on its way; streams
//! take turns; nothing is sent that the peer has not granted; memory is bounded however slow the peer is.

use std::collections::VecDeque;

use crate::codec::{Message, MessageError, encode_frame};
use crate::frame::{HEADER, Header, Kind, MAX_PAYLOAD};
use crate::inbound::ProtocolError;
use crate::stream::{Credit, STREAMS, Side, Stream, WINDOW};

/// The most bytes of control frames that may wait.
pub const CONTROL_QUEUE: usize = 256 * 1024;

/// The most bytes of one stream that may wait: more could not be granted anyway.
const STREAM_QUEUE: usize = WINDOW as usize;

/// Frames up to this many bytes together leave in one write. Copying so little costs less than another system call; a larger
/// frame leaves in the buffer it was collected in.
const BATCH: usize = 4 * 1024;

/// What a stream's buffer starts with.
const FIRST_ROOM: usize = 1024;

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
    lent: Option<Stream>,
    sending: [Sending; STREAMS],
    /// Grants for the peer's streams that wait.
    owed: [u32; STREAMS],
    /// The stream whose turn it is, by its index.
    turn: usize,
}

#[derive(Debug)]
struct Sending {
    credit: u32,
    queued: usize,
    blocks: VecDeque<Block>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    NotOurs,
    Open,
    /// Its end is to be told when its bytes are gone.
    Ending,
    Ended,
}

/// Bytes of a stream with room for a header before them: the room at `start`, then the payload. When part of a payload has
/// been sent, the room for the next header is the end of that part.
#[derive(Debug)]
struct Block {
    bytes: Vec<u8>,
    start: usize,
}

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
            sending: Stream::ALL.map(|stream| Sending {
                credit: WINDOW,
                queued: 0,
                blocks: VecDeque::new(),
                state: state(stream),
            }),
            owed: [0; STREAMS],
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
        let sending = self.open(stream)?;
        let count = bytes.len().min(STREAM_QUEUE - sending.queued);
        let mut rest = &bytes[..count];
        while !rest.is_empty() {
            let room = sending.blocks.back().map_or(0, Block::room);
            if room == 0 {
                sending.blocks.push_back(Block::with_room_for(rest.len()));
                continue;
            }
            let (now, later) = rest.split_at(room.min(rest.len()));
            if let Some(block) = sending.blocks.back_mut() {
                block.bytes.extend_from_slice(now);
            }
            rest = later;
        }
        sending.queued += count;
        Ok(count)
    }

    /// How many bytes [`data`](Self::data) would take now.
    pub fn room(&self, stream: Stream) -> usize {
        let sending = &self.sending[stream.index()];
        match sending.state {
            State::Open => STREAM_QUEUE - sending.queued,
            State::NotOurs | State::Ending | State::Ended => 0,
        }
    }

    /// No more bytes will come; what is queued goes first.
    pub fn end(&mut self, stream: Stream) -> Result<(), SendError> {
        self.open(stream)?.state = State::Ending;
        Ok(())
    }

    /// The peer grants more: for what [`Item::Credit`](crate::Item::Credit) brought.
    pub fn credit(&mut self, credit: Credit) -> Result<(), ProtocolError> {
        let Credit { stream, grant } = credit;
        let sending = &mut self.sending[stream.index()];
        if sending.state == State::NotOurs {
            return Err(ProtocolError::WrongWay { stream });
        }
        match sending.credit.checked_add(grant) {
            Some(credit) if credit <= WINDOW && grant > 0 => {
                sending.credit = credit;
                Ok(())
            }
            _ => Err(ProtocolError::BadGrant { stream, grant }),
        }
    }

    /// Queues a grant for the peer: for what [`Inbound::consumed`](crate::Inbound::consumed) answered. Grants that wait are
    /// added up, so that a peer that does not read costs nothing.
    pub fn grant(&mut self, credit: Credit) {
        let owed = &mut self.owed[credit.stream.index()];
        *owed = owed.saturating_add(credit.grant);
    }

    /// Whether [`chunk`](Self::chunk) has something.
    pub fn pending(&self) -> bool {
        self.position < self.stop
            || !self.control.is_empty()
            || self.owed.iter().any(|owed| *owed > 0)
            || self.sending.iter().any(Sending::ready)
    }

    /// Whether everything queued has left, also what waited for credit.
    pub fn flushed(&self) -> bool {
        let empty = |sending: &Sending| sending.queued == 0 && sending.state != State::Ending;
        !self.pending() && self.sending.iter().all(empty)
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

    fn open(&mut self, stream: Stream) -> Result<&mut Sending, SendError> {
        let sending = &mut self.sending[stream.index()];
        match sending.state {
            State::Open => Ok(sending),
            State::NotOurs => Err(SendError::NotOurs { stream }),
            State::Ending | State::Ended => Err(SendError::Ended { stream }),
        }
    }

    /// Everything on its way is written: what was behind it in the same block goes back to the head of its stream.
    fn land(&mut self) {
        if let Some(stream) = self.lent.take()
            && self.stop < self.flight.len()
        {
            let block = Block {
                bytes: std::mem::take(&mut self.flight),
                start: self.stop - HEADER,
            };
            self.sending[stream.index()].blocks.push_front(block);
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
                let header = Header::on(stream, Kind::Credit, 4);
                self.flight.extend_from_slice(&header.write());
                self.flight.extend_from_slice(&grant.to_le_bytes());
            }
        }
        let mut passed = 0;
        while passed < STREAMS {
            match self.take_turn(Stream::ALL[self.turn]) {
                Turn::Passed => passed += 1,
                Turn::Added => passed = 0,
                Turn::Waits => break,
                Turn::Lent => {
                    self.pass_turn();
                    return;
                }
            }
            self.pass_turn();
        }
        self.stop = self.flight.len();
    }

    fn pass_turn(&mut self) {
        self.turn = (self.turn + 1) % STREAMS;
    }

    /// Sends the next frame of a stream along, if it has one and there is room.
    fn take_turn(&mut self, stream: Stream) -> Turn {
        let sending = &mut self.sending[stream.index()];
        let batched = self.flight.len();
        let Some(block) = sending.blocks.front_mut() else {
            if sending.state != State::Ending {
                return Turn::Passed;
            }
            if batched > 0 && batched + HEADER > BATCH {
                return Turn::Waits;
            }
            sending.state = State::Ended;
            self.flight.extend_from_slice(&Header::on(stream, Kind::End, 0).write());
            return Turn::Added;
        };
        let count = block.payload().min(sending.credit);
        if count == 0 {
            return Turn::Passed;
        }
        let bytes = count as usize;
        let fits = batched + HEADER + bytes <= BATCH;
        if !fits && batched > 0 {
            return Turn::Waits;
        }
        sending.credit -= count;
        sending.queued -= bytes;
        let start = block.start;
        let stop = start + HEADER + bytes;
        let header = Header::on(stream, Kind::Data, count);
        block.bytes[start..start + HEADER].copy_from_slice(&header.write());
        if fits {
            self.flight.extend_from_slice(&block.bytes[start..stop]);
            block.start += bytes;
            if block.payload() == 0 {
                sending.blocks.pop_front();
            }
            return Turn::Added;
        }
        if let Some(block) = sending.blocks.pop_front() {
            self.flight = block.bytes;
        }
        self.position = start;
        self.stop = stop;
        self.lent = Some(stream);
        Turn::Lent
    }
}

/// What a stream did with its turn.
enum Turn {
    /// It had nothing that may be sent.
    Passed,
    /// Its frame is in the batch.
    Added,
    /// Its frame is too large for what is in the batch already.
    Waits,
    /// Its block is what flies now.
    Lent,
}

impl Sending {
    /// Whether it would use a turn.
    fn ready(&self) -> bool {
        if self.blocks.is_empty() {
            self.state == State::Ending
        } else {
            self.credit > 0
        }
    }
}

impl Block {
    fn with_room_for(bytes: usize) -> Self {
        let room = bytes.clamp(FIRST_ROOM, MAX_PAYLOAD);
        let mut block = Vec::with_capacity(HEADER + room);
        block.extend_from_slice(&[0; HEADER]);
        Self { bytes: block, start: 0 }
    }

    /// How many bytes may be added to it.
    fn room(&self) -> usize {
        HEADER + MAX_PAYLOAD - self.bytes.len()
    }

    /// How many bytes are to be sent.
    fn payload(&self) -> u32 {
        // A block is never larger than a frame.
        u32::try_from(self.bytes.len() - self.start - HEADER).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests;
