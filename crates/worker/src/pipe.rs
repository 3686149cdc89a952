//! The child's end of its execution's pipe, for a process with one thread.
//!
//! A host that is gone ends the process: nobody is left to work for.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use ringfence_jail::inside::{self, Interest};
use ringfence_wire::{FromChild, Inbound, Item, Job, Message, Outbound, ProtocolError, Side, Stream, ToChild, decode};

/// Exit codes that only the host's debugger ever sees: it hears the pipe close.
const HOST_GONE: i32 = 70;
const HOST_BROKEN: i32 = 71;
const CANCELLED: i32 = 130;

/// The pipe.
#[derive(Debug)]
pub(crate) struct Pipe {
    socket: UnixStream,
    inbound: Inbound,
    outbound: Outbound,
    job: Option<Job>,
    source: Vec<u8>,
    /// What came for the program's standard input and was not yet taken.
    stdin: Vec<u8>,
}

impl Pipe {
    /// Takes over the child's end.
    pub(crate) fn new(end: OwnedFd) -> io::Result<Pipe> {
        let socket = UnixStream::from(end);
        socket.set_nonblocking(true)?;
        Ok(Pipe {
            socket,
            inbound: Inbound::execution(Side::Child),
            outbound: Outbound::execution(Side::Child),
            job: None,
            source: Vec::new(),
            stdin: Vec::new(),
        })
    }

    /// Waits for the job and its whole source.
    pub(crate) fn job(&mut self) -> (Job, String) {
        loop {
            if let Some(job) = &self.job {
                let wanted = usize::try_from(job.kind.source_bytes()).unwrap_or(usize::MAX);
                let complete = wanted == 0 || self.inbound.ended(Stream::Source);
                if complete && let Some(job) = self.job.take() {
                    let source = String::from_utf8_lossy(&std::mem::take(&mut self.source)).into_owned();
                    return (job, source);
                }
            }
            self.wait();
            self.receive();
        }
    }

    /// Tells the host something with whatever is sent next.
    pub(crate) fn tell_along(&mut self, message: &FromChild) {
        self.queue(message);
    }

    /// Sends `bytes` with whatever is sent next, as far as there is room for them to wait.
    pub(crate) fn write_along(&mut self, stream: Stream, bytes: &[u8]) {
        let taken = self.offer(stream, bytes);
        self.write(stream, bytes.get(taken..).unwrap_or_default());
    }

    /// Tells the host something, before any stream.
    pub(crate) fn tell(&mut self, message: &FromChild) {
        self.queue(message);
        self.send();
    }

    /// Sends all of `bytes`, waiting for the host's credit as often as it takes.
    pub(crate) fn write(&mut self, stream: Stream, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let taken = self.offer(stream, bytes);
            bytes = bytes.get(taken..).unwrap_or_default();
            self.send();
            if !bytes.is_empty() {
                self.wait();
                self.receive();
                self.send();
            }
        }
    }

    /// Ends a stream.
    pub(crate) fn end(&mut self, stream: Stream) {
        if self.outbound.end(stream).is_err() {
            inside::leave(HOST_BROKEN);
        }
    }

    /// Waits until everything has left.
    pub(crate) fn flush(&mut self) {
        self.send();
        while !self.outbound.flushed() {
            self.wait();
            self.receive();
            self.send();
        }
    }

    /// What the pipe waits for.
    pub(crate) fn interest(&self) -> Interest {
        if self.outbound.pending() {
            Interest::ReadAndWrite
        } else {
            Interest::Read
        }
    }

    /// Queues what fits of `bytes`; says how much that was.
    pub(crate) fn offer(&mut self, stream: Stream, bytes: &[u8]) -> usize {
        self.outbound
            .data(stream, bytes)
            .unwrap_or_else(|_| inside::leave(HOST_BROKEN))
    }

    /// How many bytes [`Self::offer`] would take now.
    pub(crate) fn room(&self, stream: Stream) -> usize {
        self.outbound.room(stream)
    }

    /// Writes what can be written without waiting.
    pub(crate) fn send(&mut self) {
        loop {
            let chunk = self.outbound.chunk();
            if chunk.is_empty() {
                return;
            }
            match self.socket.write(chunk) {
                Ok(count) => self.outbound.advance(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => inside::leave(HOST_GONE),
            }
        }
    }

    /// Reads what is there without waiting.
    pub(crate) fn receive(&mut self) {
        loop {
            match self.socket.read(self.inbound.space()) {
                Ok(0) => inside::leave(HOST_GONE),
                Ok(count) => {
                    self.inbound.filled(count);
                    if self.take_items().is_err() {
                        inside::leave(HOST_BROKEN);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => inside::leave(HOST_GONE),
            }
        }
    }

    /// What waits for the program's standard input.
    pub(crate) fn stdin(&self) -> &[u8] {
        &self.stdin
    }

    /// Says that the program took `count` bytes of it.
    pub(crate) fn stdin_taken(&mut self, count: usize) {
        self.stdin.drain(..count.min(self.stdin.len()));
        if let Some(credit) = self.inbound.consumed(Stream::Stdin, count) {
            self.outbound.grant(credit);
        }
    }

    /// Whether no more standard input will come.
    pub(crate) fn stdin_ended(&self) -> bool {
        self.inbound.ended(Stream::Stdin)
    }

    fn wait(&self) {
        if inside::poll([Some((self.socket.as_fd(), self.interest()))]).is_err() {
            inside::leave(HOST_GONE);
        }
    }

    fn queue<M: Message>(&mut self, message: &M) {
        if self.outbound.control(message).is_err() {
            inside::leave(HOST_BROKEN);
        }
    }

    fn take_items(&mut self) -> Result<(), ProtocolError> {
        loop {
            let consumed = match self.inbound.next()? {
                None => return Ok(()),
                Some(Item::Control(bytes)) => {
                    match decode::<ToChild>(bytes) {
                        Ok(ToChild::Job(job)) => self.job = Some(job),
                        Ok(ToChild::Cancel) => inside::leave(CANCELLED),
                        Err(_) => inside::leave(HOST_BROKEN),
                    }
                    None
                }
                Some(Item::Data {
                    stream: Stream::Source,
                    bytes,
                }) => {
                    self.source.extend_from_slice(bytes);
                    Some((Stream::Source, bytes.len()))
                }
                Some(Item::Data { bytes, .. }) => {
                    self.stdin.extend_from_slice(bytes);
                    None
                }
                Some(Item::End { .. }) => None,
                Some(Item::Credit(credit)) => {
                    self.outbound.credit(credit)?;
                    None
                }
            };
            if let Some((stream, count)) = consumed
                && let Some(credit) = self.inbound.consumed(stream, count)
            {
                self.outbound.grant(credit);
            }
        }
    }
}

impl AsFd for Pipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
