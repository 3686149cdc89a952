//! The host's end of a relayed stream: what comes over one stream looks to the rest of this crate like the control socket of a
//! first process that takes each execution's pipe as a descriptor.
//!
//! One task carries everything between the stream and these sockets. It ends when either side is gone.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use ringfence_jail::socket::{self, PairKind};
use ringfence_wire::{Inbound, InboundItem, Relay, RelayError, WorkerCommand, decode};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, Interest};

/// The most bytes that are read at a time.
const CHUNK_BYTES: usize = 64 * 1024;
/// More than the largest order with its header.
const MAX_ORDER_BYTES: usize = 8 * 1024;

/// Starts to relay over `stream`; returns the control socket of the first process at its other end.
pub(crate) fn spawn_relay(stream: impl AsyncRead + AsyncWrite + Send + 'static) -> io::Result<OwnedFd> {
    let (ours, theirs) = socket::pair(PairKind::Packet)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    let relay = HostRelay {
        control: watch_descriptor(ours)?,
        relay: Relay::new(),
        pipe: None,
    };
    tokio::spawn(async move {
        if let Err(error) = relay.run(stream).await {
            // The control socket closes, which the sandbox's owner notices.
            tracing::debug!(%error, "the stream of a sandbox has ended");
        }
    });
    Ok(theirs)
}

struct HostRelay {
    control: AsyncFd<OwnedFd>,
    relay: Relay,
    /// The child's end of the pipe of the current execution.
    pipe: Option<AsyncFd<UnixStream>>,
}

/// What the relay can go on with.
enum RelayEvent {
    FromStream(usize),
    ToStream(usize),
    Order(usize, Vec<OwnedFd>),
    FromPipe(io::Result<usize>),
    ToPipe(io::Result<usize>),
}

impl HostRelay {
    async fn run(mut self, stream: impl AsyncRead + AsyncWrite) -> io::Result<()> {
        let (mut from_stream, mut to_stream) = tokio::io::split(Box::pin(stream));
        let mut arrived = vec![0; CHUNK_BYTES];
        let (mut order, mut piece) = (vec![0; MAX_ORDER_BYTES], vec![0; CHUNK_BYTES]);
        loop {
            let sends = self.relay.has_pending();
            let room = self.relay.pipe_room().min(CHUNK_BYTES);
            let has_incoming = !self.relay.pipe_bytes().is_empty();
            let event = tokio::select! {
                count = from_stream.read(&mut arrived) => RelayEvent::FromStream(count?),
                count = to_stream.write(self.relay.chunk()), if sends => RelayEvent::ToStream(count?),
                received = receive_packet(&self.control, &mut order) => {
                    let (length, descriptors) = received?;
                    RelayEvent::Order(length, descriptors)
                }
                read = read_pipe(self.pipe.as_ref(), piece.get_mut(..room).unwrap_or_default()), if room > 0 => {
                    RelayEvent::FromPipe(read)
                }
                written = write_pipe(self.pipe.as_ref(), self.relay.pipe_bytes()), if has_incoming => {
                    RelayEvent::ToPipe(written)
                }
            };
            match event {
                RelayEvent::FromStream(0) | RelayEvent::Order(0, _) => return Ok(()),
                RelayEvent::FromStream(count) => {
                    self.relay.push(arrived.get(..count).unwrap_or_default());
                    self.pass_reports()?;
                }
                RelayEvent::ToStream(count) => self.relay.advance(count),
                RelayEvent::Order(length, descriptors) => {
                    self.pass_order(order.get(..length).unwrap_or_default(), descriptors)?;
                }
                RelayEvent::FromPipe(Ok(count)) if count > 0 => {
                    self.relay.queue_pipe(piece.get(..count).unwrap_or_default());
                }
                RelayEvent::ToPipe(Ok(count)) => self.relay.mark_written(count),
                // The execution is given up.
                RelayEvent::FromPipe(_) | RelayEvent::ToPipe(Err(_)) => self.close_pipe(),
            }
            if self.relay.is_pipe_over() {
                self.close_pipe();
            }
        }
    }

    /// Passes an order on. One that prepares an execution brings the child's end of its pipe.
    fn pass_order(&mut self, packet: &[u8], descriptors: Vec<OwnedFd>) -> io::Result<()> {
        if let Some(end) = descriptors.into_iter().next() {
            let number = prepared_number(packet).ok_or(io::ErrorKind::InvalidData)?;
            let end = UnixStream::from(end);
            end.set_nonblocking(true)?;
            self.pipe = Some(watch_descriptor(end)?);
            self.relay.open_pipe(number).map_err(broken)?;
        }
        self.relay.queue_packet(packet).map_err(broken)
    }

    fn pass_reports(&mut self) -> io::Result<()> {
        while let Some(report) = self.relay.next_packet().map_err(broken)? {
            // There is one report for each order, so the socket always has capacity for it.
            socket::send(self.control.get_ref().as_fd(), &report, &[])?;
        }
        Ok(())
    }

    fn close_pipe(&mut self) {
        self.pipe = None;
        self.relay.close_pipe();
    }
}

/// The number of the execution that an order prepares.
fn prepared_number(packet: &[u8]) -> Option<u32> {
    let mut inbound = Inbound::control_only();
    inbound.push(packet);
    match inbound.next() {
        Ok(Some(InboundItem::Control(bytes))) => match decode(bytes) {
            Ok(WorkerCommand::Prepare(preparation)) => Some(preparation.number),
            _ => None,
        },
        _ => None,
    }
}

async fn receive_packet(control: &AsyncFd<OwnedFd>, packet: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    control
        .async_io(Interest::READABLE, |socket| socket::receive(socket.as_fd(), packet))
        .await
}

async fn read_pipe(pipe: Option<&AsyncFd<UnixStream>>, space: &mut [u8]) -> io::Result<usize> {
    match pipe {
        Some(pipe) => pipe.async_io(Interest::READABLE, |mut socket| socket.read(space)).await,
        None => std::future::pending().await,
    }
}

async fn write_pipe(pipe: Option<&AsyncFd<UnixStream>>, bytes: &[u8]) -> io::Result<usize> {
    match pipe {
        Some(pipe) => {
            pipe.async_io(Interest::WRITABLE, |mut socket| socket.write(bytes))
                .await
        }
        None => std::future::pending().await,
    }
}

#[expect(
    deprecated,
    reason = "the constructors that replace it are unsafe; these descriptors never change their number"
)]
fn watch_descriptor<T: std::os::fd::AsRawFd>(descriptor: T) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(descriptor, Interest::READABLE.add(Interest::WRITABLE))
}

fn broken(error: RelayError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests;
