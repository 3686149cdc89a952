//! The child's end of its execution's pipe, for a process with one thread.
//!
//! The process exits when the host is gone, because its work has no use then.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use ringfence_jail::inside::{self, Interest, Readiness};
use ringfence_wire::{
    CallTarget, ControlMessage, EmittedFile, FromChild, Inbound, InboundItem, Job, Outbound, PipeSide, PipeStream,
    ToChild, TunnelEvent, TunnelId, decode,
};

use crate::calls::{CallAnswer, ProgramCalls};
use crate::tunnels::TunnelListener;

/// Exit codes for a debugger only: the host just sees that the pipe closes.
const HOST_GONE: i32 = 70;
const HOST_BROKEN: i32 = 71;
const CANCELLED: i32 = 130;

/// Calls are sent once this many are queued, while the program goes on making them.
const MAX_BATCHED_CALLS: usize = 32;

/// The pipe of one execution, with the program's calls and tunnels.
#[derive(Debug)]
pub(crate) struct ChildPipe {
    socket: UnixStream,
    inbound: Inbound,
    outbound: Outbound,
    job: Option<Job>,
    source: Vec<u8>,
    /// Bytes received for the program's standard input that it has not taken yet.
    stdin: Vec<u8>,
    calls: ProgramCalls,
    /// The host has asked whether the program waits, and has no answer yet.
    wait_query_open: bool,
    tunnels: Option<TunnelListener>,
}

/// A job with everything that follows it on the source stream.
#[derive(Debug)]
pub(crate) struct ReceivedJob {
    pub(crate) job: Job,
    pub(crate) source: String,
    /// The argument of the function that the program defines, as JSON text.
    pub(crate) input: Option<String>,
    /// What reached the program in an earlier run; empty for the first run.
    pub(crate) trace: Vec<u8>,
}

/// Splits `bytes` after `after` bytes, and returns the rest.
fn split_tail(bytes: &mut Vec<u8>, after: u64) -> Vec<u8> {
    let length = usize::try_from(after).unwrap_or(usize::MAX);
    bytes.split_off(length.min(bytes.len()))
}

/// The stream or tunnel of the received bytes, and how many of them are consumed.
enum ConsumedBytes {
    Nothing,
    OfStream(PipeStream, usize),
    OfTunnel(TunnelId, usize),
}

impl ChildPipe {
    /// Makes the pipe from the child's end of the socket.
    pub(crate) fn new(end: OwnedFd) -> io::Result<ChildPipe> {
        let socket = UnixStream::from(end);
        socket.set_nonblocking(true)?;
        Ok(ChildPipe {
            socket,
            inbound: Inbound::execution(PipeSide::Child),
            outbound: Outbound::execution(PipeSide::Child),
            job: None,
            source: Vec::new(),
            stdin: Vec::new(),
            calls: ProgramCalls::new(),
            wait_query_open: false,
            tunnels: None,
        })
    }

    /// Waits for the job with its whole source, input and trace.
    pub(crate) fn wait_for_job(&mut self) -> ReceivedJob {
        loop {
            if let Some(job) = &self.job {
                let input = job.kind.input_bytes();
                let wanted = job.kind.source_bytes() + input.unwrap_or_default() + job.kind.trace_bytes();
                let complete = wanted == 0 || self.inbound.has_ended(PipeStream::Source);
                if complete && let Some(job) = self.job.take() {
                    let mut source = std::mem::take(&mut self.source);
                    let mut input_and_trace = split_tail(&mut source, job.kind.source_bytes());
                    let trace = split_tail(&mut input_and_trace, input.unwrap_or_default());
                    let input = input.map(|_| String::from_utf8_lossy(&input_and_trace).into_owned());
                    self.calls.note_given_trace(trace.len() as u64);
                    let source = String::from_utf8_lossy(&source).into_owned();
                    return ReceivedJob {
                        job,
                        source,
                        input,
                        trace,
                    };
                }
            }
            self.wait_until_ready();
            self.receive();
            // Grants the host credit for what came.
            self.send();
        }
    }

    /// Queues a message, which leaves with the next write.
    pub(crate) fn queue_message(&mut self, message: &FromChild) {
        self.encode_message(message);
    }

    /// Queues `bytes`, which leave with the next write. Waits for the host's credit only for what does not fit the queue.
    pub(crate) fn queue_stream_bytes(&mut self, stream: PipeStream, bytes: &[u8]) {
        let taken = self.queue_bytes(stream, bytes);
        self.write_stream(stream, bytes.get(taken..).unwrap_or_default());
    }

    /// Queues a message before all streams and writes it.
    pub(crate) fn send_message(&mut self, message: &FromChild) {
        self.encode_message(message);
        self.send();
    }

    /// Sends all of `bytes`, and waits for the host's credit as often as needed.
    pub(crate) fn write_stream(&mut self, stream: PipeStream, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let taken = self.queue_bytes(stream, bytes);
            bytes = bytes.get(taken..).unwrap_or_default();
            self.send();
            if !bytes.is_empty() {
                self.wait_until_ready();
                self.receive();
                self.send();
            }
        }
    }

    /// Ends a stream after its queued bytes.
    pub(crate) fn end_stream(&mut self, stream: PipeStream) {
        if self.outbound.end_stream(stream).is_err() {
            inside::exit_now(HOST_BROKEN);
        }
    }

    /// Waits until everything queued is written.
    pub(crate) fn flush(&mut self) {
        self.send();
        while !self.outbound.is_flushed() {
            self.wait_until_ready();
            self.receive();
            self.send();
        }
    }

    /// Makes a call. Returns its number, or `None` if its arguments are longer than may be sent. Calls are batched:
    /// they leave together, or when the program pauses.
    pub(crate) fn call(&mut self, ask: CallTarget, body: String) -> Option<u32> {
        let number = self.calls.make_call(ask, body)?;
        if self.calls.unsent() >= MAX_BATCHED_CALLS {
            self.send();
        }
        Some(number)
    }

    /// Sends the batched calls.
    pub(crate) fn send_calls(&mut self) {
        if self.calls.unsent() > 0 {
            self.send();
        }
    }

    /// How many messages of the program's calls are queued.
    pub(crate) fn unsent_calls(&self) -> usize {
        self.calls.unsent()
    }

    /// Takes the next answer that has arrived.
    pub(crate) fn take_answer(&mut self) -> Option<(u32, CallAnswer)> {
        self.calls.take_answer()
    }

    /// Records more of what reached the program, so that it can be run again. The record leaves with the next call,
    /// wait or end.
    pub(crate) fn record_trace(&mut self, bytes: &[u8]) {
        self.calls.record_trace(bytes);
    }

    /// Sends the message that a file is to go out. This happens at once, so that it counts even if the program is killed next.
    pub(crate) fn emit(&mut self, emit: EmittedFile) {
        self.calls.emit(emit);
        self.send();
    }

    /// Marks the execution as unrepeatable. Only the first call has an effect.
    pub(crate) fn mark_unrepeatable(&mut self, why: &str) {
        self.calls.mark_unrepeatable(why);
    }

    /// Whether the host has asked for the next wait.
    pub(crate) fn is_wait_queried(&self) -> bool {
        self.wait_query_open
    }

    /// Reports a wait of the program, if the host has asked for it and all calls have left. `due` is when the program's
    /// next timer fires, in ticks of its clock.
    pub(crate) fn report_wait(&mut self, due: Option<u64>) {
        if !self.wait_query_open {
            return;
        }
        self.calls.send_trace();
        self.send();
        if self.calls.unsent() == 0 && self.outbound.can_queue_message() {
            self.wait_query_open = false;
            let open = self.calls.unanswered();
            self.send_message(&FromChild::Waits { open, due });
        }
    }

    /// Waits for the next answer, at most to `until`. `due` is the same time in ticks of the program's clock.
    pub(crate) fn wait_for_answer(&mut self, until: Option<Instant>, due: Option<u64>) -> Option<(u32, CallAnswer)> {
        loop {
            if let Some(answer) = self.calls.take_answer() {
                return Some(answer);
            }
            self.send();
            self.report_wait(due);
            let waits = [Some((self.socket.as_fd(), self.interest()))];
            let ready = match until {
                None => inside::poll(waits),
                Some(until) => inside::poll_within(waits, until.saturating_duration_since(Instant::now())),
            };
            match ready {
                Ok([ready]) if ready.read || ready.write => self.receive(),
                Ok(_) if until.is_none() => {}
                Ok(_) => return None,
                Err(_) => inside::exit_now(HOST_GONE),
            }
        }
    }

    /// Drops the calls that were not sent, once the program is over, and sends its whole trace before the outcome.
    pub(crate) fn abandon_calls(&mut self) {
        self.calls.abandon();
        if self.calls.send_queued(&mut self.outbound).is_err() {
            inside::exit_now(HOST_BROKEN);
        }
        while self.calls.unsent() > 0 {
            self.send();
            self.wait_until_ready();
            self.receive();
        }
    }

    /// Starts to accept the program's connections on `port`.
    pub(crate) fn listen(&mut self, port: u16) -> io::Result<()> {
        self.tunnels = Some(TunnelListener::listen(port)?);
        Ok(())
    }

    /// Adds the program's connections to the poll list.
    pub(crate) fn add_tunnel_interests<'a>(&'a self, list: &mut Vec<Option<(BorrowedFd<'a>, Interest)>>) {
        if let Some(tunnels) = &self.tunnels {
            tunnels.add_interests(&self.inbound, &self.outbound, list);
        }
    }

    /// Whether the program can make connections.
    pub(crate) fn has_tunnels(&self) -> bool {
        self.tunnels.is_some()
    }

    /// Serves the connections that are ready, in the order of the poll list.
    pub(crate) fn serve_tunnels(&mut self, ready: &[Readiness]) {
        if let Some(tunnels) = &mut self.tunnels {
            tunnels.serve_ready(ready, &mut self.inbound, &mut self.outbound);
        }
    }

    /// Ends the connections, once the program is over. Its final output leaves as far as that is possible at once.
    pub(crate) fn end_tunnels(&mut self) {
        let Some(mut tunnels) = self.tunnels.take() else {
            return;
        };
        tunnels.drain_final_output(&mut self.inbound, &mut self.outbound);
        self.send();
        while self.outbound.has_pending() {
            self.wait_until_ready();
            self.receive();
            self.send();
        }
        for tunnel in tunnels.unfinished_tunnels() {
            self.outbound.tunnels_mut().reset(tunnel);
        }
    }

    /// What to poll the socket for.
    pub(crate) fn interest(&self) -> Interest {
        if self.outbound.has_pending() {
            Interest::ReadAndWrite
        } else {
            Interest::Read
        }
    }

    /// Queues as many of `bytes` as fit, and returns how many.
    pub(crate) fn queue_bytes(&mut self, stream: PipeStream, bytes: &[u8]) -> usize {
        self.outbound
            .queue_data(stream, bytes)
            .unwrap_or_else(|_| inside::exit_now(HOST_BROKEN))
    }

    /// How many bytes [`Self::queue_bytes`] would queue now.
    pub(crate) fn room(&self, stream: PipeStream) -> usize {
        self.outbound.available_capacity(stream)
    }

    /// Writes as much as possible without waiting.
    pub(crate) fn send(&mut self) {
        loop {
            if self.calls.send_queued(&mut self.outbound).is_err() {
                inside::exit_now(HOST_BROKEN);
            }
            let chunk = self.outbound.chunk();
            if chunk.is_empty() {
                return;
            }
            match self.socket.write(chunk) {
                Ok(count) => self.outbound.advance(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => inside::exit_now(HOST_GONE),
            }
        }
    }

    /// Reads as much as possible without waiting.
    pub(crate) fn receive(&mut self) {
        loop {
            let space = self.inbound.read_buffer();
            let room = space.len();
            match self.socket.read(space) {
                Ok(0) => inside::exit_now(HOST_GONE),
                Ok(count) => {
                    self.inbound.advance(count);
                    if self.handle_items().is_err() {
                        inside::exit_now(HOST_BROKEN);
                    }
                    // The socket has no more; another read would be one more system call for every answer.
                    if count < room {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => inside::exit_now(HOST_GONE),
            }
        }
    }

    /// The bytes for the program's standard input that it has not taken.
    pub(crate) fn stdin(&self) -> &[u8] {
        &self.stdin
    }

    /// Marks `count` bytes of standard input as taken by the program.
    pub(crate) fn consume_stdin(&mut self, count: usize) {
        self.stdin.drain(..count.min(self.stdin.len()));
        if let Some(credit) = self.inbound.mark_consumed(PipeStream::Stdin, count) {
            self.outbound.queue_grant(credit);
        }
    }

    /// Whether the host has ended the standard input.
    pub(crate) fn stdin_ended(&self) -> bool {
        self.inbound.has_ended(PipeStream::Stdin)
    }

    fn wait_until_ready(&self) {
        if inside::poll([Some((self.socket.as_fd(), self.interest()))]).is_err() {
            inside::exit_now(HOST_GONE);
        }
    }

    fn encode_message<M: ControlMessage>(&mut self, message: &M) {
        if self.outbound.queue_message(message).is_err() {
            inside::exit_now(HOST_BROKEN);
        }
    }

    /// Handles every received item. An error means that the host broke the protocol.
    fn handle_items(&mut self) -> Result<(), ()> {
        loop {
            let gone = match self.inbound.next().map_err(drop)? {
                None => return Ok(()),
                Some(InboundItem::Control(bytes)) => {
                    match decode::<ToChild>(bytes) {
                        Ok(ToChild::Job(job)) => self.job = Some(job),
                        Ok(ToChild::Cancel) => inside::exit_now(CANCELLED),
                        Ok(ToChild::Look) => self.wait_query_open = true,
                        Ok(ToChild::Return(returned)) => self.calls.handle_return(returned).map_err(drop)?,
                        Err(_) => return Err(()),
                    }
                    ConsumedBytes::Nothing
                }
                Some(InboundItem::Data {
                    stream: PipeStream::Source,
                    bytes,
                }) => {
                    self.source.extend_from_slice(bytes);
                    ConsumedBytes::OfStream(PipeStream::Source, bytes.len())
                }
                Some(InboundItem::Data {
                    stream: stream @ PipeStream::ReplyBodies,
                    bytes,
                }) => {
                    self.calls.take_body_bytes(bytes).map_err(drop)?;
                    ConsumedBytes::OfStream(stream, bytes.len())
                }
                Some(InboundItem::Data { bytes, .. }) => {
                    self.stdin.extend_from_slice(bytes);
                    ConsumedBytes::Nothing
                }
                Some(InboundItem::End { .. }) => ConsumedBytes::Nothing,
                Some(InboundItem::Credit(credit)) => {
                    self.outbound.add_credit(credit).map_err(drop)?;
                    ConsumedBytes::Nothing
                }
                Some(InboundItem::Tunnel { tunnel, carried }) => {
                    let heard = match (&mut self.tunnels, carried) {
                        (Some(tunnels), carried) => tunnels.handle_event(tunnel, carried, &mut self.outbound),
                        (None, TunnelEvent::Credit(grant)) => {
                            self.outbound.tunnels_mut().add_credit(tunnel, grant).map(|()| 0)
                        }
                        (None, _) => Ok(0),
                    };
                    ConsumedBytes::OfTunnel(tunnel, heard.map_err(drop)?)
                }
            };
            match gone {
                ConsumedBytes::OfStream(stream, count) => {
                    if let Some(credit) = self.inbound.mark_consumed(stream, count) {
                        self.outbound.queue_grant(credit);
                    }
                }
                ConsumedBytes::OfTunnel(tunnel, count) if count > 0 => {
                    if let Some(grant) = self.inbound.tunnels_mut().mark_consumed(tunnel, count) {
                        self.outbound.tunnels_mut().queue_grant(tunnel, grant);
                    }
                }
                ConsumedBytes::OfTunnel(..) | ConsumedBytes::Nothing => {}
            }
        }
    }
}

impl AsFd for ChildPipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
