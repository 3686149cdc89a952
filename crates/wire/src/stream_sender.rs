//! The sending side of one stream. It queues bytes in blocks that become frames in place, and sends as far as the peer has granted.

use std::collections::VecDeque;

use crate::frame::{FrameHeader, FrameKind, HEADER_BYTES, MAX_PAYLOAD};
use crate::stream::STREAM_WINDOW;

/// The most bytes of one stream that may be queued; the peer could not grant more.
const STREAM_QUEUE_CAPACITY: usize = STREAM_WINDOW as usize;

/// Frames with up to this many bytes in total leave in one write: such a copy costs less than another system call. A
/// larger frame leaves in the buffer that it was queued in.
const MAX_BATCH_BYTES: usize = 4 * 1024;

/// The initial capacity of a block.
const INITIAL_CAPACITY: usize = 1024;

#[derive(Debug)]
pub(crate) struct StreamSender {
    credit: u32,
    queued: usize,
    blocks: VecDeque<QueuedBlock>,
    pub(crate) state: SendState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendState {
    NotOurs,
    Open,
    /// The end frame follows once the queued bytes are sent.
    Ending,
    Ended,
}

/// What a stream did with its turn.
pub(crate) enum TurnOutcome {
    /// The stream had nothing that it may send.
    Passed,
    /// The stream's frame is in the batch.
    Added,
    /// The stream's frame does not fit the batch; the turn is not used up.
    Full,
    /// The stream's frame is this block, which goes in flight as it is.
    Block(LentBlock),
}

/// A block in flight, whose part `start..stop` is a frame. More bytes of the same stream may follow `stop`.
pub(crate) struct LentBlock {
    pub(crate) bytes: Vec<u8>,
    pub(crate) start: usize,
    pub(crate) stop: usize,
}

/// Bytes of a stream with space for a header before them: the space at `start`, then the payload. After a part of the
/// payload is sent, the end of that part is the space for the next header.
#[derive(Debug)]
struct QueuedBlock {
    bytes: Vec<u8>,
    start: usize,
}

impl StreamSender {
    pub(crate) fn new(state: SendState) -> Self {
        Self {
            credit: STREAM_WINDOW,
            queued: 0,
            blocks: VecDeque::new(),
            state,
        }
    }

    /// Queues as many bytes as there is capacity for, and returns how many.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(STREAM_QUEUE_CAPACITY - self.queued);
        let mut rest = &bytes[..count];
        while !rest.is_empty() {
            let room = self.blocks.back().map_or(0, QueuedBlock::available_capacity);
            if room == 0 {
                self.blocks.push_back(QueuedBlock::with_capacity(rest.len()));
                continue;
            }
            let (now, later) = rest.split_at(room.min(rest.len()));
            if let Some(block) = self.blocks.back_mut() {
                block.bytes.extend_from_slice(now);
            }
            rest = later;
        }
        self.queued += count;
        count
    }

    /// How many bytes [`push`](Self::push) would queue now.
    pub(crate) fn available_capacity(&self) -> usize {
        match self.state {
            SendState::Open => STREAM_QUEUE_CAPACITY - self.queued,
            SendState::NotOurs | SendState::Ending | SendState::Ended => 0,
        }
    }

    /// Adds a grant of the peer; false if it is 0 or exceeds the window.
    pub(crate) fn add_credit(&mut self, grant: u32) -> bool {
        match self.credit.checked_add(grant) {
            Some(credit) if credit <= STREAM_WINDOW && grant > 0 => {
                self.credit = credit;
                true
            }
            _ => false,
        }
    }

    /// How many bytes were sent and not granted again.
    pub(crate) fn ungranted(&self) -> u32 {
        STREAM_WINDOW - self.credit
    }

    /// How many bytes are granted beyond those that are queued.
    pub(crate) fn allowance(&self) -> usize {
        (self.credit as usize).saturating_sub(self.queued)
    }

    /// Whether the stream would use a turn.
    pub(crate) fn has_turn(&self) -> bool {
        if self.blocks.is_empty() {
            self.state == SendState::Ending
        } else {
            self.credit > 0
        }
    }

    /// Whether nothing is queued, neither bytes nor the end.
    pub(crate) fn is_flushed(&self) -> bool {
        self.queued == 0 && self.state != SendState::Ending
    }

    /// The memory that the queued blocks hold.
    #[cfg(test)]
    pub(crate) fn held_memory(&self) -> usize {
        self.blocks.iter().map(|block| block.bytes.capacity()).sum()
    }

    /// Sends the next frame under the number `id`, if there is one and it fits.
    pub(crate) fn take_turn(&mut self, id: u16, flight: &mut Vec<u8>) -> TurnOutcome {
        let batched = flight.len();
        let Some(block) = self.blocks.front_mut() else {
            if self.state != SendState::Ending {
                return TurnOutcome::Passed;
            }
            if !add_empty(id, FrameKind::End, flight) {
                return TurnOutcome::Full;
            }
            self.state = SendState::Ended;
            return TurnOutcome::Added;
        };
        let count = block.payload_length().min(self.credit);
        if count == 0 {
            return TurnOutcome::Passed;
        }
        let bytes = count as usize;
        let fits = batched + HEADER_BYTES + bytes <= MAX_BATCH_BYTES;
        if !fits && batched > 0 {
            return TurnOutcome::Full;
        }
        self.credit -= count;
        self.queued -= bytes;
        let start = block.start;
        let stop = start + HEADER_BYTES + bytes;
        let header = FrameHeader::new_unchecked(id, FrameKind::Data, count);
        block.bytes[start..start + HEADER_BYTES].copy_from_slice(&header.to_bytes());
        if fits {
            flight.extend_from_slice(&block.bytes[start..stop]);
            block.start += bytes;
            if block.payload_length() == 0 {
                self.blocks.pop_front();
            }
            return TurnOutcome::Added;
        }
        match self.blocks.pop_front() {
            Some(QueuedBlock { bytes, .. }) => TurnOutcome::Block(LentBlock { bytes, start, stop }),
            None => TurnOutcome::Passed,
        }
    }

    /// Returns a block that was written up to `stop`: the bytes after `stop` go back to the head of the queue.
    pub(crate) fn return_block(&mut self, bytes: Vec<u8>, stop: usize) {
        let start = stop - HEADER_BYTES;
        self.blocks.push_front(QueuedBlock { bytes, start });
    }
}

/// Adds a frame without a payload to the batch; false if the batch is full.
pub(crate) fn add_empty(id: u16, kind: FrameKind, flight: &mut Vec<u8>) -> bool {
    let fits = flight.is_empty() || flight.len() + HEADER_BYTES <= MAX_BATCH_BYTES;
    if fits {
        flight.extend_from_slice(&FrameHeader::new_unchecked(id, kind, 0).to_bytes());
    }
    fits
}

/// Adds a grant to the batch, whatever the size of the batch.
pub(crate) fn add_grant(id: u16, grant: u32, flight: &mut Vec<u8>) {
    flight.extend_from_slice(&FrameHeader::new_unchecked(id, FrameKind::Credit, 4).to_bytes());
    flight.extend_from_slice(&grant.to_le_bytes());
}

impl QueuedBlock {
    fn with_capacity(bytes: usize) -> Self {
        let room = bytes.clamp(INITIAL_CAPACITY, MAX_PAYLOAD);
        let mut block = Vec::with_capacity(HEADER_BYTES + room);
        block.extend_from_slice(&[0; HEADER_BYTES]);
        Self { bytes: block, start: 0 }
    }

    /// How many bytes the block can still take.
    fn available_capacity(&self) -> usize {
        HEADER_BYTES + MAX_PAYLOAD - self.bytes.len()
    }

    /// How many bytes of the block are not sent yet.
    fn payload_length(&self) -> u32 {
        // A block is never larger than a frame.
        u32::try_from(self.bytes.len() - self.start - HEADER_BYTES).unwrap_or(u32::MAX)
    }
}
