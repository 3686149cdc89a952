//! What the kernel keeps in the buffers of a jail's sockets, as the kernel itself reports it.
//!
//! The list comes from a netlink socket that the jail's first process made in its network namespace before it was confined.
//! It holds only unix and internet sockets; netlink sockets are in `/proc`.

use std::io;
use std::os::fd::BorrowedFd;

use crate::sys::socket;

const HEADER_BYTES: usize = 16;
const ATTRIBUTE_HEADER_BYTES: usize = 4;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const DUMP_REQUEST_FLAGS: u16 = 0x301;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const ALL_STATES: u32 = u32::MAX;
const LISTENING: u8 = 10;

/// Datagrams that may wait in one socket, including one in transit: the kernel reports only the first one's length.
const MAX_QUEUED_DATAGRAMS: u64 = 11;
/// What one sender may have in transit by default, including the kernel's own overhead.
const MAX_QUEUE_BYTES: u64 = 256 << 10;
/// The same, where its last datagram was sent just before the queue was full.
const MAX_SENT_BYTES: u64 = 2 * MAX_QUEUE_BYTES;
/// How many sockets with an unknown queue count as empty: any program may have a few.
const MAX_UNCOUNTED_QUEUES: u64 = 16;

/// Bytes that the kernel keeps for a socket itself, whatever its buffers hold: internet sockets that are not accepted yet
/// are charged to no group, and without control groups no socket is.
const SOCKET_OVERHEAD_BYTES: u64 = 3 << 10;

/// Bytes that the kernel keeps for a connection that both sides have closed, until it is sure that no late packet comes.
const CLOSED_CONNECTION_BYTES: u64 = 512;

/// Bytes that the kernel keeps for sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SocketMemory {
    /// Unix sockets: the sockets themselves, and what their open senders have in transit.
    pub unix: u64,
    /// The most that may wait in unix sockets from closed senders.
    pub unix_unknown: u64,
    /// TCP and UDP: their buffers, and the sockets themselves.
    pub internet: u64,
    /// The number of open sockets.
    pub open: u64,
}

impl SocketMemory {
    /// All bytes of unix sockets, where the kernel counts `sockets` in the namespace. A closed sender is among them while
    /// some of its data waits: without one, queues of unknown length are empty.
    pub fn unix_of(&self, sockets: u64) -> u64 {
        let closed = sockets.saturating_sub(self.open).saturating_mul(MAX_SENT_BYTES);
        self.unix.saturating_add(self.unix_unknown.min(closed))
    }
}

/// Bytes in all buffers of the sockets in `list`'s namespace.
pub(crate) fn socket_memory(list: BorrowedFd<'_>) -> io::Result<SocketMemory> {
    const V4: u8 = 2;
    const V6: u8 = 10;
    const TCP: u8 = 6;
    const UDP: u8 = 17;
    let mut unix = UnixQueues::default();
    dump(list, &unix_request(), |answer| unix.add_answer(answer))?;
    let (mut bytes, mut open) = (0u64, unix.sockets);
    for (family, protocol) in [(V4, UDP), (V6, UDP), (V4, TCP), (V6, TCP)] {
        dump(list, &internet_request(family, protocol), |answer| {
            bytes = bytes
                .saturating_add(overhead(answer))
                .saturating_add(internet_bytes(answer));
            open += u64::from(is_open(answer));
        })?;
    }
    Ok(SocketMemory {
        unix: unix
            .sent
            .saturating_add(unix.sockets.saturating_mul(SOCKET_OVERHEAD_BYTES)),
        unix_unknown: unix.unknown_bytes(),
        internet: bytes,
        open,
    })
}

fn netlink_request(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEADER_BYTES + body.len()).unwrap_or(0);
    let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
    message.extend(length.to_ne_bytes());
    message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend(DUMP_REQUEST_FLAGS.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}

fn unix_request() -> Vec<u8> {
    const UNIX: u8 = 1;
    const PEER_QUEUE_AND_MEMORY: u32 = 0x4 | 0x10 | 0x20;
    let mut body = vec![UNIX, 0, 0, 0];
    body.extend(ALL_STATES.to_ne_bytes());
    body.extend([0; 4]);
    body.extend(PEER_QUEUE_AND_MEMORY.to_ne_bytes());
    body.extend([0; 8]);
    netlink_request(&body)
}

fn internet_request(family: u8, protocol: u8) -> Vec<u8> {
    const MEMORY: u8 = 1 << 6;
    let mut body = vec![family, protocol, MEMORY, 0];
    body.extend(ALL_STATES.to_ne_bytes());
    body.extend([0; 48]);
    netlink_request(&body)
}

/// Sends a request and passes each answer to `take`.
fn dump(list: BorrowedFd<'_>, request: &[u8], mut take: impl FnMut(&[u8])) -> io::Result<()> {
    socket::send(list, request, &[])?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = socket::receive_bytes(list, &mut buffer)?;
        let mut rest = buffer.get(..length).unwrap_or_default();
        if rest.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        while let Some((kind, body, after)) = next_message(rest) {
            match kind {
                DONE => return check_dump_end(body),
                ERROR => return Err(dump_error(body)),
                _ => take(body),
            }
            rest = after;
        }
    }
}

/// A list may also end with an error in its last word.
fn check_dump_end(body: &[u8]) -> io::Result<()> {
    let number = body.first_chunk().map_or(0, |number| i32::from_ne_bytes(*number));
    if number < 0 { Err(dump_error(body)) } else { Ok(()) }
}

/// The error of a list. A kernel without lists of this kind reports one, which must not count as an empty list.
fn dump_error(body: &[u8]) -> io::Error {
    let number = body
        .first_chunk()
        .map_or(libc::EIO, |number| i32::from_ne_bytes(*number));
    io::Error::from_raw_os_error(number.saturating_neg())
}

/// The kind and the content of the next message, and what follows it.
fn next_message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::try_from(u32_at(bytes, 0)?).ok()?;
    let body = bytes.get(HEADER_BYTES..length)?;
    let after = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((u16_at(bytes, 4)?, body, after))
}

/// What waits in unix sockets. The kernel counts it for the sender; once that one is closed nothing does, so the most that
/// such a queue may hold is counted instead.
#[derive(Debug, Default)]
struct UnixQueues {
    sockets: u64,
    sent: u64,
    /// Streams whose sender is gone, and connections that are not accepted yet.
    left_streams: u64,
    /// Datagram sockets that receive from any sender.
    open_datagrams: u64,
}

impl UnixQueues {
    fn add_answer(&mut self, answer: &[u8]) {
        const ITSELF: usize = 16;
        const PEER: u16 = 2;
        const QUEUE: u16 = 4;
        const MEMORY: u16 = 5;
        const DATAGRAM: u8 = 2;
        const ESTABLISHED: u8 = 1;
        self.sockets += 1;
        let (kind, state) = (answer.get(1).copied(), answer.get(2).copied());
        let (mut peer, mut queued) = (0, 0);
        for (name, value) in attributes(answer.get(ITSELF..).unwrap_or_default()) {
            match name {
                PEER => peer = u32_at(value, 0).unwrap_or(0),
                QUEUE => queued = u64::from(u32_at(value, 0).unwrap_or(0)),
                // What it has sent and no process has read counts for the sender.
                MEMORY => {
                    self.sent = self
                        .sent
                        .saturating_add(memory_word(value, SEND_MEMORY) + memory_word(value, OPTION_MEMORY));
                }
                _ => {}
            }
        }
        match (peer, state, kind) {
            (_, Some(LISTENING), _) => self.left_streams += queued,
            (0, _, Some(DATAGRAM)) => self.open_datagrams += 1,
            (0, Some(ESTABLISHED), _) => self.left_streams += 1,
            _ => {}
        }
    }

    fn unknown_bytes(&self) -> u64 {
        let streams = self
            .left_streams
            .saturating_sub(MAX_UNCOUNTED_QUEUES)
            .saturating_mul(MAX_QUEUE_BYTES);
        let datagrams = self.open_datagrams.saturating_sub(MAX_UNCOUNTED_QUEUES);
        let datagrams = datagrams.saturating_mul(MAX_QUEUED_DATAGRAMS * MAX_QUEUE_BYTES);
        streams.saturating_add(datagrams)
    }
}

/// The length of the kernel's report on an internet socket; attributes follow it.
const INTERNET_SOCKET: usize = 72;

/// Whether a process has the socket open: the remains of a closed connection have no number and are no socket.
fn is_open(answer: &[u8]) -> bool {
    const NUMBER: usize = INTERNET_SOCKET - 4;
    u32_at(answer, NUMBER).is_some_and(|number| number != 0)
}

/// What the kernel keeps for an internet socket beside its buffers.
fn overhead(answer: &[u8]) -> u64 {
    const STATE: usize = 1;
    const TIME_WAIT: u8 = 6;
    if answer.get(STATE) == Some(&TIME_WAIT) {
        CLOSED_CONNECTION_BYTES
    } else {
        SOCKET_OVERHEAD_BYTES
    }
}

fn internet_bytes(answer: &[u8]) -> u64 {
    const MEMORY: u16 = 7;
    let found = attributes(answer.get(INTERNET_SOCKET..).unwrap_or_default()).find(|(name, _)| *name == MEMORY);
    let Some((_, value)) = found else { return 0 };
    let others: u64 = [RECEIVE_MEMORY, FORWARD_ALLOCATED, OPTION_MEMORY, BACKLOG]
        .map(|word| memory_word(value, word))
        .iter()
        .sum();
    // Data that waits to be sent is either included in the sent data or reported separately.
    others + memory_word(value, SEND_MEMORY).max(memory_word(value, SEND_QUEUED))
}

/// Indexes into the kernel's report on a socket's memory.
const RECEIVE_MEMORY: usize = 0;
const SEND_MEMORY: usize = 2;
const FORWARD_ALLOCATED: usize = 4;
const SEND_QUEUED: usize = 5;
/// Filters and other options that were set for it.
const OPTION_MEMORY: usize = 6;
const BACKLOG: usize = 7;

fn memory_word(value: &[u8], word: usize) -> u64 {
    u64::from(u32_at(value, word * 4).unwrap_or(0))
}

fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        let value = bytes.get(ATTRIBUTE_HEADER_BYTES..length)?;
        let name = u16_at(bytes, 2)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((name, value))
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_ne_bytes(*word))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

#[cfg(test)]
mod tests;
