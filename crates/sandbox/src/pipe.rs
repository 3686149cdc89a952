//! The host's end of an execution's pipe. Everything that arrives on it is untrusted until `wire` has parsed it.

use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use ringfence_wire::{
    Answer, Bodies, Body, Calls, ChildTurn, Emit, Emits, FromChild, Inbound, Item, JobKind, Letters, MessageError,
    OutOfTurn, Outbound, Outcome, ProtocolError, Return, SendError, Side, Stream, ToChild, Tracing, decode,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;

use crate::door::{Answered, Ask, Asked, Refusal};
use crate::issued::Issued;
use crate::tunnel::Tunnel;
use crate::tunnels::Tunnels;

/// How many replies wait here; further ones stay in the call port until the child has read.
const ANSWERS_WAITING: usize = 256;
const ANSWER_BYTES_WAITING: usize = 1 << 20;

/// Why the pipe failed. A socket error and [`PipeError::Send`] are this machine's faults; any other error is the sandbox's.
#[derive(Debug, thiserror::Error)]
pub enum PipeError {
    /// The socket of the pipe failed.
    #[error("cannot use the pipe of an execution")]
    Socket(#[source] io::Error),
    /// The sandbox sent an invalid frame.
    #[error("the sandbox broke the protocol")]
    Protocol(#[from] ProtocolError),
    /// The sandbox sent an invalid message.
    #[error("the sandbox sent a message that makes no sense")]
    Message(#[from] MessageError),
    /// The sandbox sent a message that its state does not allow.
    #[error("the sandbox spoke out of turn")]
    Turn(#[from] OutOfTurn),
    /// The sandbox sent arguments of a call that are not text.
    #[error("the sandbox sent a call that is not text")]
    NotText,
    /// A message of the host cannot be sent.
    #[error("the job cannot be sent")]
    Send(#[from] SendError),
}

/// Whether the pipe has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The child may send more.
    Open,
    /// The child has sent everything, or the pipe is closed.
    Over,
}

/// Receives what the child sends.
pub(crate) trait Receiver {
    fn output(&mut self, stream: Stream, bytes: &[u8]);
    fn asked(&mut self, asked: Asked);
    /// The child reports that it cannot be replayed.
    fn unrepeatable(&mut self, why: &str);
    /// Whether the handler should receive nothing more for now.
    fn is_full(&self) -> bool;
}

/// What a program waits for, as the child reports it; untrusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waits {
    /// Number of calls without a reply.
    pub(crate) open: u32,
    /// When its next timer is due, in ticks of its clock.
    pub(crate) due: Option<u64>,
    /// Whether the program has made a call since this report.
    pub(crate) past: bool,
}

impl PipeError {
    /// Whether the child broke the protocol, as opposed to a failure of this machine.
    pub(crate) fn is_the_childs(&self) -> bool {
        match self {
            PipeError::Protocol(_) | PipeError::Message(_) | PipeError::Turn(_) | PipeError::NotText => true,
            PipeError::Socket(_) | PipeError::Send(_) => false,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Pipe {
    /// Watched for readability only: watching for writability would wake the host for each message that the child reads.
    socket: AsyncFd<UnixStream>,
    /// Watched for writability, while the socket is full.
    full: Option<AsyncFd<UnixStream>>,
    inbound: Inbound,
    outbound: Outbound,
    turn: ChildTurn,
    calls: Calls,
    /// Calls whose bodies have not arrived completely.
    bodies: Bodies<Asked>,
    answers: Letters<ToChild>,
    issued: Issued,
    outcome: Option<Outcome>,
    tracing: Tracing,
    /// The trace that has arrived since the last call; it belongs to the next call or to the end.
    trace: Vec<u8>,
    waits: Option<Waits>,
    unrepeatable: Option<String>,
    emits: Emits,
    /// Files that the program emits; untrusted.
    emitted: Vec<Emit>,
    tunnels: Option<Tunnels>,
    /// Bytes of calls that arrived while too many were open; the child is granted as many when there are fewer.
    withheld: usize,
    /// The child does not read any more: nothing is sent to it.
    deaf: bool,
}

const FROM_CHILD: [Stream; 3] = [Stream::Stdout, Stream::Stderr, Stream::Value];

impl Pipe {
    pub(crate) fn new(end: OwnedFd) -> Result<Pipe, PipeError> {
        let socket = UnixStream::from(end);
        socket.set_nonblocking(true).map_err(PipeError::Socket)?;
        Ok(Pipe {
            socket: watched(socket, Interest::READABLE)?,
            full: None,
            inbound: Inbound::execution(Side::Host),
            outbound: Outbound::execution(Side::Host),
            turn: ChildTurn::New,
            calls: Calls::default(),
            bodies: Bodies::new(),
            answers: Letters::new(Stream::Answered),
            issued: Issued::default(),
            outcome: None,
            tracing: Tracing::new(0),
            trace: Vec::new(),
            waits: None,
            unrepeatable: None,
            emits: Emits::none(),
            emitted: Vec::new(),
            tunnels: None,
            withheld: 0,
            deaf: false,
        })
    }

    /// Whether the child is ready for its job.
    pub(crate) fn is_ready(&self) -> bool {
        self.turn == ChildTurn::Ready
    }

    /// How the child reports its end.
    pub(crate) fn take_outcome(&mut self) -> Option<Outcome> {
        self.outcome.take()
    }

    /// The refusal that the host sent for a call.
    pub(crate) fn take_issued(&mut self, call: u32) -> Option<Refusal> {
        self.issued.take(call)
    }

    pub(crate) fn give(&mut self, message: &ToChild) -> Result<(), PipeError> {
        if let ToChild::Job(job) = message {
            self.turn.give()?;
            self.tracing = Tracing::new(job.kind.trace_bytes());
            if matches!(job.kind, JobKind::Code { .. }) {
                self.emits = Emits::of_code();
            }
        }
        Ok(self.outbound.control(message)?)
    }

    /// Queues as much of `bytes` as fits and returns that number.
    pub(crate) fn offer(&mut self, stream: Stream, bytes: &[u8]) -> Result<usize, PipeError> {
        Ok(self.outbound.data(stream, bytes)?)
    }

    pub(crate) fn room(&self, stream: Stream) -> usize {
        self.outbound.room(stream)
    }

    pub(crate) fn end(&mut self, stream: Stream) -> Result<(), PipeError> {
        Ok(self.outbound.end(stream)?)
    }

    /// Queues the reply to a call; a reply to no open call is dropped.
    pub(crate) fn answer(&mut self, answered: Answered) {
        let Answered { number, answer } = answered;
        if self.calls.answer(number).is_err() {
            tracing::warn!(number, "an answer to no call");
            return;
        }
        let body = answer.and_then(|text| Body::of(text).map_err(|_| too_large()));
        let (answer, rest) = match body {
            Ok((body, rest)) => (Answer::Result(body), rest),
            Err(refusal) => {
                self.issued.note(number, &refusal);
                (Answer::Refused(refusal.into()), Vec::new())
            }
        };
        self.answers.push(ToChild::Return(Return { number, answer }), rest);
    }

    /// Queries whether the program waits, unless a query is open already.
    pub(crate) fn look(&mut self) -> Result<(), PipeError> {
        if self.tracing.look() {
            self.outbound.control(&ToChild::Look)?;
            self.send()?;
        }
        Ok(())
    }

    /// The report on the last query, if it has arrived.
    pub(crate) fn take_waits(&mut self) -> Option<Waits> {
        self.waits.take()
    }

    /// Number of calls without a reply, including those whose bodies are incomplete.
    pub(crate) fn unanswered(&self) -> usize {
        self.calls.unanswered()
    }

    /// Whether everything queued has been written to the child.
    pub(crate) fn is_flushed(&self) -> bool {
        self.answers.is_empty() && self.outbound.flushed()
    }

    /// Why the execution cannot be replayed.
    pub(crate) fn unrepeatable(&self) -> Option<&str> {
        self.unrepeatable.as_deref()
    }

    /// Removes and returns the trace since the last call.
    pub(crate) fn take_trace(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.trace)
    }

    /// Removes and returns the emitted files.
    pub(crate) fn take_emitted(&mut self) -> Vec<Emit> {
        std::mem::take(&mut self.emitted)
    }

    /// Lets the program open connections, which are handed over as tunnels.
    pub(crate) fn allow_tunnels(&mut self, offered: mpsc::Sender<Tunnel>) {
        self.tunnels = Some(Tunnels::new(offered));
    }

    pub(crate) fn has_tunnels(&self) -> bool {
        self.tunnels.is_some()
    }

    /// Moves bytes between the pipe and the tunnels that have pending work.
    pub(crate) fn serve_tunnels(&mut self) {
        if let Some(tunnels) = &mut self.tunnels {
            tunnels.serve(&mut self.inbound, &mut self.outbound);
        }
    }

    /// Waits until a tunnel has pending work.
    pub(crate) async fn tunnels_stir(&self) {
        match &self.tunnels {
            Some(tunnels) => tunnels.stirs().await,
            None => std::future::pending().await,
        }
    }

    /// Closes all tunnels, because the execution is over.
    pub(crate) fn end_tunnels(&mut self) {
        self.tunnels = None;
    }

    /// Whether the pipe has capacity for more replies from the call port.
    pub(crate) fn takes_answers(&self) -> bool {
        self.answers.len() < ANSWERS_WAITING && self.answers.bytes() < ANSWER_BYTES_WAITING
    }

    pub(crate) fn wants_to_write(&self) -> bool {
        !self.deaf && self.outbound.pending()
    }

    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await.map(drop)
    }

    pub(crate) async fn writable(&self) -> io::Result<()> {
        match &self.full {
            Some(full) => full.writable().await.map(drop),
            // The socket is not known to be full.
            None => Ok(()),
        }
    }

    /// Writes what can be written now. A child that is gone is noticed when reading.
    pub(crate) fn send(&mut self) -> Result<(), PipeError> {
        while !self.deaf {
            self.answers.pump(&mut self.outbound)?;
            let chunk = self.outbound.chunk();
            if chunk.is_empty() {
                self.full = None;
                return Ok(());
            }
            match self.socket.get_ref().write(chunk) {
                Ok(count) => self.outbound.advance(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let copy = self.socket.get_ref().try_clone().map_err(PipeError::Socket)?;
                    // A new watch checks the socket again, so that no wakeup is missed.
                    self.full = Some(watched(copy, Interest::WRITABLE)?);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_gone(&error) => {
                    self.deaf = true;
                    return Ok(());
                }
                Err(error) => return Err(PipeError::Socket(error)),
            }
        }
        Ok(())
    }

    /// Reads and handles what is available now.
    pub(crate) fn receive(&mut self, receiver: &mut dyn Receiver) -> Result<Progress, PipeError> {
        loop {
            match read(&self.socket, self.inbound.space()) {
                Ok(Some(0)) => return Ok(Progress::Over),
                Ok(Some(count)) => {
                    self.inbound.filled(count);
                    self.take_items(receiver)?;
                    if self.is_over() {
                        return Ok(Progress::Over);
                    }
                    if receiver.is_full() {
                        return Ok(Progress::Open);
                    }
                }
                Ok(None) => return Ok(Progress::Open),
                Err(error) if is_gone(&error) => return Ok(Progress::Over),
                Err(error) => return Err(PipeError::Socket(error)),
            }
        }
    }

    /// Control frames overtake streams: the pipe is over after the outcome *and* the end of every stream.
    fn is_over(&self) -> bool {
        self.outcome.is_some() && FROM_CHILD.iter().all(|stream| self.inbound.ended(*stream))
    }

    fn hear(&mut self, message: FromChild, receiver: &mut dyn Receiver) -> Result<(), PipeError> {
        self.turn.hear(&message)?;
        self.tracing.hear(&message)?;
        match message {
            FromChild::Ready | FromChild::Started => {}
            FromChild::Done(outcome) => self.outcome = Some(outcome),
            FromChild::Call(call) => {
                self.calls.ask(call.number)?;
                if let Some(waits) = &mut self.waits {
                    waits.past = true;
                }
                self.trace.extend_from_slice(&call.trace);
                let mut asked = Asked {
                    number: call.number,
                    ask: Ask::from(call.ask),
                    body: String::new(),
                    trace: self.take_trace(),
                };
                match call.body {
                    Body::Inline(text) => {
                        asked.body = text.into_string();
                        receiver.asked(asked);
                    }
                    Body::Streamed { bytes } => self.bodies.announce(asked, bytes),
                }
            }
            FromChild::Open { tunnel } => {
                let tunnels = self.tunnels.as_mut().ok_or(OutOfTurn::Child)?;
                tunnels.open(tunnel, &mut self.inbound, &mut self.outbound)?;
            }
            FromChild::Emit(emit) => {
                self.emits.emit()?;
                self.emitted.push(emit);
            }
            FromChild::Trace(piece) => self.trace.extend_from_slice(&piece),
            FromChild::Waits { open, due } => {
                let past = false;
                self.waits = Some(Waits { open, due, past });
            }
            FromChild::Unrepeatable { why } => {
                receiver.unrepeatable(&why);
                self.unrepeatable = Some(why.into_string());
            }
        }
        Ok(())
    }

    fn take_items(&mut self, receiver: &mut dyn Receiver) -> Result<(), PipeError> {
        loop {
            let (stream, count) = match self.inbound.next()? {
                None => return Ok(()),
                Some(Item::Control(bytes)) => {
                    let message: FromChild = decode(bytes)?;
                    self.hear(message, receiver)?;
                    continue;
                }
                Some(Item::Data {
                    stream: stream @ Stream::Asked,
                    bytes,
                }) => {
                    let mut texts = Ok(());
                    self.bodies.take(bytes, |asked, body| match String::from_utf8(body) {
                        Ok(body) => receiver.asked(Asked { body, ..asked }),
                        Err(_) => texts = Err(PipeError::NotText),
                    })?;
                    texts?;
                    (stream, bytes.len())
                }
                Some(Item::Data { stream, bytes }) => {
                    receiver.output(stream, bytes);
                    (stream, bytes.len())
                }
                Some(Item::End { .. }) => continue,
                Some(Item::Tunnel { tunnel, carried }) => {
                    if let Some(tunnels) = &mut self.tunnels {
                        let heard = tunnels.hear(tunnel, carried, self.outbound.tunnels_mut());
                        heard.map_err(ProtocolError::from)?;
                    }
                    continue;
                }
                Some(Item::Credit(credit)) => {
                    self.outbound.credit(credit)?;
                    continue;
                }
            };
            if stream == Stream::Asked && receiver.is_full() {
                self.withheld += count;
            } else if let Some(credit) = self.inbound.consumed(stream, count) {
                self.outbound.grant(credit);
            }
        }
    }

    /// Grants the child credit for more calls.
    pub(crate) fn take_more_calls(&mut self) {
        let withheld = std::mem::take(&mut self.withheld);
        if withheld > 0
            && let Some(credit) = self.inbound.consumed(Stream::Asked, withheld)
        {
            self.outbound.grant(credit);
        }
    }
}

#[expect(
    deprecated,
    reason = "the constructors that replace it are unsafe; a socket never changes its number"
)]
fn watched(socket: UnixStream, interest: Interest) -> Result<AsyncFd<UnixStream>, PipeError> {
    AsyncFd::with_interest(socket, interest).map_err(PipeError::Socket)
}

/// Reads what is available, if anything. Fewer bytes than fit are all there was: a second try would cost one more system
/// call for every call.
fn read(socket: &AsyncFd<UnixStream>, space: &mut [u8]) -> io::Result<Option<usize>> {
    let mut taken = None;
    let read = socket.try_io(Interest::READABLE, |mut socket| match socket.read(space) {
        Ok(count) if count > 0 && count < space.len() => {
            taken = Some(count);
            Err(io::ErrorKind::WouldBlock.into())
        }
        read => read,
    });
    match read {
        Ok(count) => Ok(Some(count)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(taken),
        Err(error) => Err(error),
    }
}

fn too_large() -> Refusal {
    Refusal {
        code: "call.too_large".to_owned(),
        message: format!("the result is longer than {} MiB", ringfence_wire::BODY_CAP >> 20),
        rule: None,
        hint: Some("ask for less at a time: a page, a filter, fewer fields".to_owned()),
        retry_after_ms: None,
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

#[cfg(test)]
mod tests;
