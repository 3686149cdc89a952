//! The host's end of an execution's pipe. Everything that arrives on it is untrusted until `wire` has parsed it.

use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use ringfence_wire::{
    BodyReceiver, BodySender, CallBody, CallReply, CallResponse, ChildState, EmitQuota, EmittedFile, FromChild,
    Inbound, InboundItem, JobKind, JobOutcome, MessageError, OpenCalls, Outbound, OutboundError, PipeSide, PipeStream,
    ProtocolError, ProtocolViolation, ToChild, TraceMonitor, decode,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;

use crate::call_port::{ToolCall, ToolCallKind, ToolRefusal, ToolReply};
use crate::issued_refusals::IssuedRefusals;
use crate::tunnel::ProgramTunnel;
use crate::tunnels::OpenTunnels;

/// How many replies wait here; further ones stay in the call port until the child has read.
const MAX_WAITING_REPLIES: usize = 256;
const MAX_WAITING_REPLY_BYTES: usize = 1 << 20;

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
    Turn(#[from] ProtocolViolation),
    /// The sandbox sent arguments of a call that are not text.
    #[error("the sandbox sent a call that is not text")]
    NotText,
    /// A message of the host cannot be sent.
    #[error("the job cannot be sent")]
    Send(#[from] OutboundError),
}

/// Whether the pipe has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PipeProgress {
    /// The child may send more.
    Open,
    /// The child has sent everything, or the pipe is closed.
    Over,
}

/// Receives what the child sends.
pub(crate) trait ChildHandler {
    fn on_output(&mut self, stream: PipeStream, bytes: &[u8]);
    fn on_call(&mut self, asked: ToolCall);
    /// The child reports that it cannot be replayed.
    fn on_unrepeatable(&mut self, why: &str);
    /// Whether the handler should receive nothing more for now.
    fn is_full(&self) -> bool;
}

/// What a program waits for, as the child reports it; untrusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitReport {
    /// Number of calls without a reply.
    pub(crate) open: u32,
    /// When its next timer is due, in ticks of its clock.
    pub(crate) due: Option<u64>,
    /// Whether the program has made a call since this report.
    pub(crate) is_stale: bool,
}

impl PipeError {
    /// Whether the child broke the protocol, as opposed to a failure of this machine.
    pub(crate) fn is_child_fault(&self) -> bool {
        match self {
            PipeError::Protocol(_) | PipeError::Message(_) | PipeError::Turn(_) | PipeError::NotText => true,
            PipeError::Socket(_) | PipeError::Send(_) => false,
        }
    }
}

#[derive(Debug)]
pub(crate) struct HostPipe {
    /// Watched for readability only: watching for writability would wake the host for each message that the child reads.
    socket: AsyncFd<UnixStream>,
    /// Watched for writability, while the socket is full.
    full: Option<AsyncFd<UnixStream>>,
    inbound: Inbound,
    outbound: Outbound,
    turn: ChildState,
    calls: OpenCalls,
    /// Calls whose bodies have not arrived completely.
    bodies: BodyReceiver<ToolCall>,
    replies: BodySender<ToChild>,
    issued: IssuedRefusals,
    outcome: Option<JobOutcome>,
    tracing: TraceMonitor,
    /// The trace that has arrived since the last call; it belongs to the next call or to the end.
    trace: Vec<u8>,
    waits: Option<WaitReport>,
    unrepeatable: Option<String>,
    emits: EmitQuota,
    /// Files that the program emits; untrusted.
    emitted: Vec<EmittedFile>,
    tunnels: Option<OpenTunnels>,
    /// Bytes of calls that arrived while too many were open; the child is granted as many when there are fewer.
    withheld: usize,
    /// The child does not read any more: nothing is sent to it.
    child_gone: bool,
}

const CHILD_STREAMS: [PipeStream; 3] = [PipeStream::Stdout, PipeStream::Stderr, PipeStream::Value];

impl HostPipe {
    pub(crate) fn new(end: OwnedFd) -> Result<HostPipe, PipeError> {
        let socket = UnixStream::from(end);
        socket.set_nonblocking(true).map_err(PipeError::Socket)?;
        Ok(HostPipe {
            socket: async_socket(socket, Interest::READABLE)?,
            full: None,
            inbound: Inbound::execution(PipeSide::Host),
            outbound: Outbound::execution(PipeSide::Host),
            turn: ChildState::New,
            calls: OpenCalls::default(),
            bodies: BodyReceiver::new(),
            replies: BodySender::new(PipeStream::ReplyBodies),
            issued: IssuedRefusals::default(),
            outcome: None,
            tracing: TraceMonitor::new(0),
            trace: Vec::new(),
            waits: None,
            unrepeatable: None,
            emits: EmitQuota::none(),
            emitted: Vec::new(),
            tunnels: None,
            withheld: 0,
            child_gone: false,
        })
    }

    /// Whether the child is ready for its job.
    pub(crate) fn is_ready(&self) -> bool {
        self.turn == ChildState::Ready
    }

    /// How the child reports its end.
    pub(crate) fn take_outcome(&mut self) -> Option<JobOutcome> {
        self.outcome.take()
    }

    /// The refusal that the host sent for a call.
    pub(crate) fn take_issued(&mut self, call: u32) -> Option<ToolRefusal> {
        self.issued.remove(call)
    }

    pub(crate) fn queue_message(&mut self, message: &ToChild) -> Result<(), PipeError> {
        if let ToChild::Job(job) = message {
            self.turn.send_job()?;
            self.tracing = TraceMonitor::new(job.kind.trace_bytes());
            if matches!(job.kind, JobKind::Code { .. }) {
                self.emits = EmitQuota::for_code();
            }
        }
        Ok(self.outbound.queue_message(message)?)
    }

    /// Queues as much of `bytes` as fits and returns that number.
    pub(crate) fn queue_bytes(&mut self, stream: PipeStream, bytes: &[u8]) -> Result<usize, PipeError> {
        Ok(self.outbound.queue_data(stream, bytes)?)
    }

    pub(crate) fn room(&self, stream: PipeStream) -> usize {
        self.outbound.available_capacity(stream)
    }

    pub(crate) fn end_stream(&mut self, stream: PipeStream) -> Result<(), PipeError> {
        Ok(self.outbound.end_stream(stream)?)
    }

    /// Queues the reply to a call; a reply to no open call is dropped.
    pub(crate) fn queue_reply(&mut self, answered: ToolReply) {
        let ToolReply { number, answer } = answered;
        if self.calls.on_response(number).is_err() {
            tracing::warn!(number, "an answer to no call");
            return;
        }
        let body = answer.and_then(|text| CallBody::from_text(text).map_err(|_| too_large_refusal()));
        let (answer, rest) = match body {
            Ok((body, rest)) => (CallReply::Result(body), rest),
            Err(refusal) => {
                self.issued.note(number, &refusal);
                (CallReply::Refused(refusal.into()), Vec::new())
            }
        };
        self.replies
            .push(ToChild::Return(CallResponse { number, answer }), rest);
    }

    /// Queries whether the program waits, unless a query is open already.
    pub(crate) fn query_waits(&mut self) -> Result<(), PipeError> {
        if self.tracing.begin_wait_query() {
            self.outbound.queue_message(&ToChild::Look)?;
            self.send()?;
        }
        Ok(())
    }

    /// The report on the last query, if it has arrived.
    pub(crate) fn take_wait_report(&mut self) -> Option<WaitReport> {
        self.waits.take()
    }

    /// Number of calls without a reply, including those whose bodies are incomplete.
    pub(crate) fn unanswered(&self) -> usize {
        self.calls.unanswered()
    }

    /// Whether everything queued has been written to the child.
    pub(crate) fn is_flushed(&self) -> bool {
        self.replies.is_empty() && self.outbound.is_flushed()
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
    pub(crate) fn take_emitted(&mut self) -> Vec<EmittedFile> {
        std::mem::take(&mut self.emitted)
    }

    /// Lets the program open connections, which are handed over as tunnels.
    pub(crate) fn allow_tunnels(&mut self, offered: mpsc::Sender<ProgramTunnel>) {
        self.tunnels = Some(OpenTunnels::new(offered));
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
    pub(crate) async fn wait_for_tunnels(&self) {
        match &self.tunnels {
            Some(tunnels) => tunnels.wait_for_work().await,
            None => std::future::pending().await,
        }
    }

    /// Closes all tunnels, because the execution is over.
    pub(crate) fn end_tunnels(&mut self) {
        self.tunnels = None;
    }

    /// Whether the pipe has capacity for more replies from the call port.
    pub(crate) fn can_take_replies(&self) -> bool {
        self.replies.len() < MAX_WAITING_REPLIES && self.replies.queued_bytes() < MAX_WAITING_REPLY_BYTES
    }

    pub(crate) fn wants_to_write(&self) -> bool {
        !self.child_gone && self.outbound.has_pending()
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
        while !self.child_gone {
            self.replies.send_some(&mut self.outbound)?;
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
                    self.full = Some(async_socket(copy, Interest::WRITABLE)?);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_disconnect(&error) => {
                    self.child_gone = true;
                    return Ok(());
                }
                Err(error) => return Err(PipeError::Socket(error)),
            }
        }
        Ok(())
    }

    /// Reads and handles what is available now.
    pub(crate) fn receive(&mut self, receiver: &mut dyn ChildHandler) -> Result<PipeProgress, PipeError> {
        loop {
            match try_read(&self.socket, self.inbound.read_buffer()) {
                Ok(Some(0)) => return Ok(PipeProgress::Over),
                Ok(Some(count)) => {
                    self.inbound.advance(count);
                    self.handle_items(receiver)?;
                    if self.is_over() {
                        return Ok(PipeProgress::Over);
                    }
                    if receiver.is_full() {
                        return Ok(PipeProgress::Open);
                    }
                }
                Ok(None) => return Ok(PipeProgress::Open),
                Err(error) if is_disconnect(&error) => return Ok(PipeProgress::Over),
                Err(error) => return Err(PipeError::Socket(error)),
            }
        }
    }

    /// Control frames overtake streams: the pipe is over after the outcome *and* the end of every stream.
    fn is_over(&self) -> bool {
        self.outcome.is_some() && CHILD_STREAMS.iter().all(|stream| self.inbound.has_ended(*stream))
    }

    fn handle_message(&mut self, message: FromChild, receiver: &mut dyn ChildHandler) -> Result<(), PipeError> {
        self.turn.on_message(&message)?;
        self.tracing.on_message(&message)?;
        match message {
            FromChild::Ready | FromChild::Started => {}
            FromChild::Done(outcome) => self.outcome = Some(outcome),
            FromChild::Call(call) => {
                self.calls.on_call(call.number)?;
                if let Some(waits) = &mut self.waits {
                    waits.is_stale = true;
                }
                self.trace.extend_from_slice(&call.trace);
                let mut asked = ToolCall {
                    number: call.number,
                    ask: ToolCallKind::from(call.ask),
                    body: String::new(),
                    trace: self.take_trace(),
                };
                match call.body {
                    CallBody::Inline(text) => {
                        asked.body = text.into_string();
                        receiver.on_call(asked);
                    }
                    CallBody::Streamed { bytes } => self.bodies.announce(asked, bytes),
                }
            }
            FromChild::Open { tunnel } => {
                let tunnels = self.tunnels.as_mut().ok_or(ProtocolViolation::Child)?;
                tunnels.open(tunnel, &mut self.inbound, &mut self.outbound)?;
            }
            FromChild::Emit(emit) => {
                self.emits.count_file()?;
                self.emitted.push(emit);
            }
            FromChild::Trace(piece) => self.trace.extend_from_slice(&piece),
            FromChild::Waits { open, due } => {
                let past = false;
                self.waits = Some(WaitReport {
                    open,
                    due,
                    is_stale: past,
                });
            }
            FromChild::Unrepeatable { why } => {
                receiver.on_unrepeatable(&why);
                self.unrepeatable = Some(why.into_string());
            }
        }
        Ok(())
    }

    fn handle_items(&mut self, receiver: &mut dyn ChildHandler) -> Result<(), PipeError> {
        loop {
            let (stream, count) = match self.inbound.next()? {
                None => return Ok(()),
                Some(InboundItem::Control(bytes)) => {
                    let message: FromChild = decode(bytes)?;
                    self.handle_message(message, receiver)?;
                    continue;
                }
                Some(InboundItem::Data {
                    stream: stream @ PipeStream::CallBodies,
                    bytes,
                }) => {
                    let mut texts = Ok(());
                    self.bodies
                        .receive(bytes, |asked, body| match String::from_utf8(body) {
                            Ok(body) => receiver.on_call(ToolCall { body, ..asked }),
                            Err(_) => texts = Err(PipeError::NotText),
                        })?;
                    texts?;
                    (stream, bytes.len())
                }
                Some(InboundItem::Data { stream, bytes }) => {
                    receiver.on_output(stream, bytes);
                    (stream, bytes.len())
                }
                Some(InboundItem::End { .. }) => continue,
                Some(InboundItem::Tunnel { tunnel, carried }) => {
                    if let Some(tunnels) = &mut self.tunnels {
                        let heard = tunnels.handle_event(tunnel, carried, self.outbound.tunnels_mut());
                        heard.map_err(ProtocolError::from)?;
                    }
                    continue;
                }
                Some(InboundItem::Credit(credit)) => {
                    self.outbound.add_credit(credit)?;
                    continue;
                }
            };
            if stream == PipeStream::CallBodies && receiver.is_full() {
                self.withheld += count;
            } else if let Some(credit) = self.inbound.mark_consumed(stream, count) {
                self.outbound.queue_grant(credit);
            }
        }
    }

    /// Grants the child credit for more calls.
    pub(crate) fn grant_more_calls(&mut self) {
        let withheld = std::mem::take(&mut self.withheld);
        if withheld > 0
            && let Some(credit) = self.inbound.mark_consumed(PipeStream::CallBodies, withheld)
        {
            self.outbound.queue_grant(credit);
        }
    }
}

#[expect(
    deprecated,
    reason = "the constructors that replace it are unsafe; a socket never changes its number"
)]
fn async_socket(socket: UnixStream, interest: Interest) -> Result<AsyncFd<UnixStream>, PipeError> {
    AsyncFd::with_interest(socket, interest).map_err(PipeError::Socket)
}

/// Reads what is available, if anything. Fewer bytes than fit are all there was: a second try would cost one more system
/// call for every call.
fn try_read(socket: &AsyncFd<UnixStream>, space: &mut [u8]) -> io::Result<Option<usize>> {
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

fn too_large_refusal() -> ToolRefusal {
    ToolRefusal {
        code: "call.too_large".to_owned(),
        message: format!("the result is longer than {} MiB", ringfence_wire::MAX_BODY_BYTES >> 20),
        rule: None,
        hint: Some("ask for less at a time: a page, a filter, fewer fields".to_owned()),
        retry_after_ms: None,
    }
}

fn is_disconnect(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

#[cfg(test)]
mod tests;
