//! The host's end of an execution's pipe. Everything that comes out of it is hostile until `wire` has parsed it.

use std::io;
use std::os::fd::OwnedFd;

use ringfence_wire::{
    ChildTurn, FromChild, Inbound, Item, MessageError, OutOfTurn, Outbound, Outcome, ProtocolError, SendError, Side,
    Stream, ToChild, decode,
};
use tokio::net::UnixStream;

/// What went wrong on the pipe. Anything but [`PipeError::Send`] is the sandbox's doing.
#[derive(Debug, thiserror::Error)]
pub enum PipeError {
    /// The socket.
    #[error("cannot use the pipe of an execution")]
    Socket(#[source] io::Error),
    /// A frame that is not one.
    #[error("the sandbox broke the protocol")]
    Protocol(#[from] ProtocolError),
    /// A message that is not one.
    #[error("the sandbox sent a message that makes no sense")]
    Message(#[from] MessageError),
    /// A message at the wrong time.
    #[error("the sandbox spoke out of turn")]
    Turn(#[from] OutOfTurn),
    /// Something of ours that cannot be sent.
    #[error("the job cannot be sent")]
    Send(#[from] SendError),
}

/// What a turn of the pipe brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More may come.
    Open,
    /// Said and sent all there is, or closed.
    Over,
}

/// Who takes what the child sends.
pub(crate) trait Receiver {
    fn output(&mut self, stream: Stream, bytes: &[u8]);
}

#[derive(Debug)]
pub(crate) struct Pipe {
    socket: UnixStream,
    inbound: Inbound,
    outbound: Outbound,
    turn: ChildTurn,
    outcome: Option<Outcome>,
    /// The child does not read any more: nothing is owed to it.
    deaf: bool,
}

const FROM_CHILD: [Stream; 3] = [Stream::Stdout, Stream::Stderr, Stream::Value];

impl Pipe {
    pub(crate) fn new(end: OwnedFd) -> Result<Pipe, PipeError> {
        let socket = std::os::unix::net::UnixStream::from(end);
        socket.set_nonblocking(true).map_err(PipeError::Socket)?;
        Ok(Pipe {
            socket: UnixStream::from_std(socket).map_err(PipeError::Socket)?,
            inbound: Inbound::execution(Side::Host),
            outbound: Outbound::execution(Side::Host),
            turn: ChildTurn::New,
            outcome: None,
            deaf: false,
        })
    }

    /// Whether the child waits for its job.
    pub(crate) fn is_ready(&self) -> bool {
        self.turn == ChildTurn::Ready
    }

    /// How the child says it ended.
    pub(crate) fn take_outcome(&mut self) -> Option<Outcome> {
        self.outcome.take()
    }

    pub(crate) fn give(&mut self, message: &ToChild) -> Result<(), PipeError> {
        if matches!(message, ToChild::Job(_)) {
            self.turn.give()?;
        }
        Ok(self.outbound.control(message)?)
    }

    /// Queues what fits of `bytes`; says how much that was.
    pub(crate) fn offer(&mut self, stream: Stream, bytes: &[u8]) -> Result<usize, PipeError> {
        Ok(self.outbound.data(stream, bytes)?)
    }

    pub(crate) fn room(&self, stream: Stream) -> usize {
        self.outbound.room(stream)
    }

    pub(crate) fn end(&mut self, stream: Stream) -> Result<(), PipeError> {
        Ok(self.outbound.end(stream)?)
    }

    pub(crate) fn wants_to_write(&self) -> bool {
        !self.deaf && self.outbound.pending()
    }

    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await
    }

    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.socket.writable().await
    }

    /// Writes what can be written now. A child that is gone is noticed by reading.
    pub(crate) fn send(&mut self) -> Result<(), PipeError> {
        while !self.deaf {
            let chunk = self.outbound.chunk();
            if chunk.is_empty() {
                return Ok(());
            }
            match self.socket.try_write(chunk) {
                Ok(count) => self.outbound.advance(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if is_gone(&error) => {
                    self.deaf = true;
                    return Ok(());
                }
                Err(error) => return Err(PipeError::Socket(error)),
            }
        }
        Ok(())
    }

    /// Reads what is there now.
    pub(crate) fn receive(&mut self, receiver: &mut dyn Receiver) -> Result<Progress, PipeError> {
        loop {
            match self.socket.try_read(self.inbound.space()) {
                Ok(0) => return Ok(Progress::Over),
                Ok(count) => {
                    self.inbound.filled(count);
                    self.take_items(receiver)?;
                    if self.is_over() {
                        return Ok(Progress::Over);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Progress::Open),
                Err(error) if is_gone(&error) => return Ok(Progress::Over),
                Err(error) => return Err(PipeError::Socket(error)),
            }
        }
    }

    /// Control frames overtake streams: the end is the outcome *and* the end of every stream.
    fn is_over(&self) -> bool {
        self.outcome.is_some() && FROM_CHILD.iter().all(|stream| self.inbound.ended(*stream))
    }

    fn take_items(&mut self, receiver: &mut dyn Receiver) -> Result<(), PipeError> {
        loop {
            let (stream, count) = match self.inbound.next()? {
                None => return Ok(()),
                Some(Item::Control(bytes)) => {
                    let message: FromChild = decode(bytes)?;
                    self.turn.hear(&message)?;
                    match message {
                        FromChild::Ready | FromChild::Started => {}
                        FromChild::Done(outcome) => self.outcome = Some(outcome),
                    }
                    continue;
                }
                Some(Item::Data { stream, bytes }) => {
                    receiver.output(stream, bytes);
                    (stream, bytes.len())
                }
                Some(Item::End { .. }) => continue,
                Some(Item::Credit(credit)) => {
                    self.outbound.credit(credit)?;
                    continue;
                }
            };
            if let Some(credit) = self.inbound.consumed(stream, count) {
                self.outbound.grant(credit);
            }
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}
