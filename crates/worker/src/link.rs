//! The first process's connection to the host: a socket of whole packets that bring descriptors with them, or one stream that
//! carries everything, over which this process relays the pipe of the execution.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use ringfence_jail::inside::{self, Interest, Readiness};
use ringfence_jail::socket::{self, PairKind};
use ringfence_wire::{Relay, RelayError};

/// The most bytes that are read at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// The connection to the host.
#[derive(Debug)]
pub(crate) enum HostLink {
    /// A socket: each order brings its pipe as a descriptor.
    Socket(OwnedFd),
    /// A stream, whose relay makes the pipes.
    Stream(Box<RelayedLink>),
    /// Closed, in a child of the first process.
    Closed,
}

impl HostLink {
    /// The connection over standard input and output, which nobody else uses from here on.
    pub(crate) fn over_standard_streams() -> io::Result<HostLink> {
        let null = File::options().read(true).write(true).open("/dev/null")?;
        // The copies have numbers above those of the standard streams, and no program inherits them.
        let input = inside::adopt_descriptor(0)?.try_clone()?;
        let output = inside::adopt_descriptor(1)?.try_clone()?;
        for number in 0..=2 {
            inside::dup_onto(null.as_fd(), number)?;
        }
        Ok(HostLink::Stream(Box::new(RelayedLink::new(input, output)?)))
    }

    /// Waits for the next order and copies it into `packet`. Returns its length, which is 0 when the host is gone, and the
    /// descriptors that came with it.
    pub(crate) fn receive(&mut self, packet: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        match self {
            HostLink::Socket(control) => socket::receive(control.as_fd(), packet),
            HostLink::Stream(link) => Ok((link.receive(packet)?, Vec::new())),
            HostLink::Closed => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Sends a report.
    pub(crate) fn send(&mut self, report: &[u8]) -> io::Result<()> {
        match self {
            HostLink::Socket(control) => socket::send(control.as_fd(), report, &[]).map(drop),
            HostLink::Stream(link) => link.send(report),
            HostLink::Closed => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Whether an order waits, now or within `patience`.
    pub(crate) fn has_order(&mut self, patience: Duration) -> io::Result<bool> {
        match self {
            HostLink::Socket(control) => inside::is_readable(control.as_fd(), patience),
            HostLink::Stream(link) => link.has_order(patience),
            HostLink::Closed => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// The child's end of a pipe that this process relays; an error where pipes come with the orders.
    pub(crate) fn open_pipe(&mut self, execution: u32) -> io::Result<OwnedFd> {
        match self {
            HostLink::Stream(link) => link.open_pipe(execution),
            HostLink::Socket(_) | HostLink::Closed => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Closes what belongs to the first process, in a child of it.
    pub(crate) fn close(&mut self) {
        *self = HostLink::Closed;
    }
}

/// One stream that carries everything.
#[derive(Debug)]
pub(crate) struct RelayedLink {
    input: File,
    output: File,
    relay: Relay,
    /// Orders that have arrived and were not taken.
    orders: VecDeque<Vec<u8>>,
    /// This process's end of the execution's pipe.
    pipe: Option<UnixStream>,
    buffer: Vec<u8>,
}

/// Whether the host is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkProgress {
    Open,
    HostGone,
}

impl RelayedLink {
    fn new(input: OwnedFd, output: OwnedFd) -> io::Result<RelayedLink> {
        Ok(RelayedLink {
            input: nonblocking(input)?,
            output: nonblocking(output)?,
            relay: Relay::new(),
            orders: VecDeque::new(),
            pipe: None,
            buffer: vec![0; CHUNK_BYTES],
        })
    }

    fn receive(&mut self, packet: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(order) = self.orders.pop_front() {
                let room = packet.get_mut(..order.len()).ok_or(io::ErrorKind::InvalidData)?;
                room.copy_from_slice(&order);
                return Ok(order.len());
            }
            if self.relay_once(None)? == LinkProgress::HostGone {
                return Ok(0);
            }
        }
    }

    /// Sends a report, after the bytes of the pipe that are under way.
    fn send(&mut self, report: &[u8]) -> io::Result<()> {
        self.relay.queue_packet(report).map_err(broken)?;
        self.write_stream()
    }

    fn has_order(&mut self, patience: Duration) -> io::Result<bool> {
        if self.orders.is_empty() {
            // The end of the host is seen again by whoever waits for an order.
            self.relay_once(Some(patience))?;
        }
        Ok(!self.orders.is_empty())
    }

    fn open_pipe(&mut self, execution: u32) -> io::Result<OwnedFd> {
        let (ours, theirs) = socket::pair(PairKind::Stream)?;
        let ours = UnixStream::from(ours);
        ours.set_nonblocking(true)?;
        self.relay.open_pipe(execution).map_err(broken)?;
        self.pipe = Some(ours);
        Ok(theirs)
    }

    /// Waits until the stream or the pipe is ready, at most for `patience`, and carries what is there.
    fn relay_once(&mut self, patience: Option<Duration>) -> io::Result<LinkProgress> {
        let [input, output, pipe] = self.wait_until_ready(patience)?;
        if pipe.read {
            self.read_pipe();
        }
        if pipe.write {
            self.write_pipe();
        }
        let progress = if input.read {
            self.read_stream()?
        } else {
            LinkProgress::Open
        };
        if output.write {
            self.write_some()?;
        }
        Ok(progress)
    }

    fn wait_until_ready(&mut self, patience: Option<Duration>) -> io::Result<[Readiness; 3]> {
        let sends = self.relay.has_pending();
        let interest = match (self.relay.pipe_room() > 0, self.relay.pipe_bytes().is_empty()) {
            (true, true) => Some(Interest::Read),
            (true, false) => Some(Interest::ReadAndWrite),
            (false, false) => Some(Interest::Write),
            (false, true) => None,
        };
        let pipe = self.pipe.as_ref();
        let descriptors = [
            Some((self.input.as_fd(), Interest::Read)),
            sends.then_some((self.output.as_fd(), Interest::Write)),
            pipe.and_then(|pipe| Some((pipe.as_fd(), interest?))),
        ];
        match patience {
            None => inside::poll(descriptors),
            Some(patience) => inside::poll_within(descriptors, patience),
        }
    }

    fn read_stream(&mut self) -> io::Result<LinkProgress> {
        match self.input.read(&mut self.buffer) {
            Ok(0) => return Ok(LinkProgress::HostGone),
            Ok(count) => self.relay.push(self.buffer.get(..count).unwrap_or_default()),
            Err(error) if is_temporary(&error) => return Ok(LinkProgress::Open),
            Err(error) => return Err(error),
        }
        while let Some(order) = self.relay.next_packet().map_err(broken)? {
            self.orders.push_back(order);
        }
        self.write_pipe();
        Ok(LinkProgress::Open)
    }

    /// Writes to the stream what it takes now.
    fn write_some(&mut self) -> io::Result<()> {
        while self.relay.has_pending() {
            match self.output.write(self.relay.chunk()) {
                Ok(count) => self.relay.advance(count),
                Err(error) if is_temporary(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes everything that waits to the stream.
    fn write_stream(&mut self) -> io::Result<()> {
        self.write_some()?;
        while self.relay.has_pending() {
            // The stream is read meanwhile: the host may wait for that before it reads.
            if self.relay_once(None)? == LinkProgress::HostGone {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
        Ok(())
    }

    fn read_pipe(&mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        let room = self.relay.pipe_room().min(self.buffer.len());
        match pipe.read(self.buffer.get_mut(..room).unwrap_or_default()) {
            Ok(0) if room > 0 => self.close_pipe(),
            Ok(count) => self.relay.queue_pipe(self.buffer.get(..count).unwrap_or_default()),
            Err(error) if is_temporary(&error) => {}
            Err(_) => self.close_pipe(),
        }
    }

    fn write_pipe(&mut self) {
        while let Some(pipe) = &mut self.pipe
            && !self.relay.pipe_bytes().is_empty()
        {
            match pipe.write(self.relay.pipe_bytes()) {
                Ok(count) => self.relay.mark_written(count),
                Err(error) if is_temporary(&error) => return,
                // The child is gone. What it wrote before may still be read.
                Err(_) => self.relay.drop_incoming(),
            }
        }
        if self.relay.is_pipe_over() {
            self.close_pipe();
        }
    }

    /// Closes this end of the pipe: the child ends when it notices.
    fn close_pipe(&mut self) {
        self.pipe = None;
        self.relay.close_pipe();
    }
}

/// Makes reads and writes of a descriptor return at once. Any kind of descriptor takes the request of a socket.
fn nonblocking(descriptor: OwnedFd) -> io::Result<File> {
    let stream = UnixStream::from(descriptor);
    stream.set_nonblocking(true)?;
    Ok(File::from(OwnedFd::from(stream)))
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn broken(error: RelayError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests;
