//! A connection of a program in the sandbox, as the caller's handler sees it: a stream of bytes in both directions.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use ringfence_wire::{MAX_PAYLOAD, STREAM_WINDOW, TunnelId};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

/// Bytes that may wait between a writer and the pipe: several frames, so that neither waits for the other at each of them.
const BUFFER_CAPACITY: usize = 4 * MAX_PAYLOAD;

/// Read bytes are reported in amounts of at least this size: fewer would not be granted again.
const REPORT_BYTES: usize = STREAM_WINDOW as usize / 2;

/// One connection of a program. Bytes flow in both directions at the pace of the slower side. Shutting the tunnel down tells
/// the program that no more comes; dropping it without that is a reset inside. When the execution is over, the tunnel is at
/// its end if the program had ended it, and reset if not.
#[derive(Debug)]
pub struct ProgramTunnel {
    channel: Arc<TunnelChannel>,
    /// Received bytes that the reader took over: `reading[at..]` is unread.
    reading: Vec<u8>,
    at: usize,
    /// Bytes that were read and not reported yet.
    unreported: usize,
}

/// The channel between a tunnel and the pipe.
#[derive(Debug)]
pub(crate) struct TunnelChannel {
    pub(crate) tunnel: TunnelId,
    buffers: Mutex<TunnelBuffers>,
    notifier: Arc<TunnelNotifier>,
}

/// The channels with work for the pipe.
#[derive(Debug, Default)]
pub(crate) struct TunnelNotifier {
    pending: Mutex<Vec<Arc<TunnelChannel>>>,
    notify: Notify,
}

#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts of two sides, each of which comes true once and independently of the others"
)]
pub(crate) struct TunnelBuffers {
    /// Bytes from the program that the reader has not taken over.
    incoming: Vec<u8>,
    /// Bytes that were read and that the pipe does not know of yet.
    pub(crate) read: usize,
    /// Whether the program sends no more.
    pub(crate) program_ended: bool,
    reader: Option<Waker>,
    /// Bytes to the program that the pipe has not taken over.
    pub(crate) outgoing: Vec<u8>,
    /// Whether the holder writes no more.
    pub(crate) shut: bool,
    writer: Option<Waker>,
    /// Whether the tunnel has been dropped.
    pub(crate) dropped: bool,
    /// Whether the connection is closed in both directions.
    pub(crate) closed: bool,
    /// Whether the pipe has released the channel.
    over: bool,
    /// Whether the channel is among those with work for the pipe.
    is_pending: bool,
}

/// No holder of the lock can leave a value half changed, so a panic spoils nothing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TunnelNotifier {
    /// Removes and returns the channels with pending work.
    pub(crate) fn take_pending(&self) -> Vec<Arc<TunnelChannel>> {
        std::mem::take(&mut *lock(&self.pending))
    }

    /// Waits until a channel has pending work.
    pub(crate) async fn wait_for_pending(&self) {
        self.notify.notified().await;
    }
}

impl TunnelChannel {
    pub(crate) fn new(tunnel: TunnelId, board: &Arc<TunnelNotifier>) -> Arc<TunnelChannel> {
        Arc::new(TunnelChannel {
            tunnel,
            buffers: Mutex::default(),
            notifier: Arc::clone(board),
        })
    }

    pub(crate) fn lock_buffers(&self) -> MutexGuard<'_, TunnelBuffers> {
        lock(&self.buffers)
    }

    /// Appends bytes that came from the program.
    pub(crate) fn push_incoming(&self, bytes: &[u8]) {
        let mut lanes = self.lock_buffers();
        if !lanes.dropped {
            lanes.incoming.extend_from_slice(bytes);
            lanes.wake_reader();
        }
    }

    /// Records that the program sends no more.
    pub(crate) fn end_incoming(&self) {
        let mut lanes = self.lock_buffers();
        lanes.program_ended = true;
        lanes.wake_reader();
    }

    /// Records that the program neither sends nor receives any more.
    pub(crate) fn close_by_program(&self) {
        let mut lanes = self.lock_buffers();
        lanes.closed = true;
        lanes.outgoing = Vec::new();
        lanes.wake_reader();
        lanes.wake_writer();
    }

    /// Records that the pipe has nothing more to do with the channel.
    pub(crate) fn release(&self) {
        let mut lanes = self.lock_buffers();
        lanes.over = true;
        lanes.closed = true;
        lanes.outgoing = Vec::new();
        lanes.wake_reader();
        lanes.wake_writer();
    }

    /// Notifies the pipe that the channel has pending work.
    fn notify_pipe(self: &Arc<Self>, lanes: &mut TunnelBuffers) {
        if lanes.over || std::mem::replace(&mut lanes.is_pending, true) {
            return;
        }
        lock(&self.notifier.pending).push(Arc::clone(self));
        self.notifier.notify.notify_one();
    }
}

impl TunnelBuffers {
    /// Marks the pending work as being served.
    pub(crate) fn clear_pending(&mut self) {
        self.is_pending = false;
    }

    fn wake_reader(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    pub(crate) fn wake_writer(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }
}

impl ProgramTunnel {
    pub(crate) fn new(channel: Arc<TunnelChannel>) -> ProgramTunnel {
        ProgramTunnel {
            channel,
            reading: Vec::new(),
            at: 0,
            unreported: 0,
        }
    }

    /// Copies as many received bytes as are there and fit.
    fn copy_incoming(&mut self, into: &mut ReadBuf<'_>) {
        let left = self.reading.get(self.at..).unwrap_or_default();
        let part = left.get(..into.remaining().min(left.len())).unwrap_or_default();
        into.put_slice(part);
        let count = part.len();
        self.at += count;
        self.unreported += count;
        if self.unreported >= REPORT_BYTES {
            let line = Arc::clone(&self.channel);
            self.report_read(&line, &mut line.lock_buffers());
        }
    }

    fn report_read(&mut self, line: &Arc<TunnelChannel>, lanes: &mut TunnelBuffers) {
        lanes.read += std::mem::take(&mut self.unreported);
        if lanes.read >= REPORT_BYTES {
            line.notify_pipe(lanes);
        }
    }
}

impl AsyncRead for ProgramTunnel {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.at < this.reading.len() || into.remaining() == 0 {
            this.copy_incoming(into);
            return Poll::Ready(Ok(()));
        }
        let line = Arc::clone(&this.channel);
        let mut lanes = line.lock_buffers();
        if lanes.incoming.is_empty() {
            if lanes.program_ended {
                return Poll::Ready(Ok(()));
            }
            if lanes.closed {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            lanes.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        this.reading.clear();
        this.at = 0;
        std::mem::swap(&mut this.reading, &mut lanes.incoming);
        drop(lanes);
        this.copy_incoming(into);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ProgramTunnel {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut lanes = self.channel.lock_buffers();
        if lanes.closed || lanes.shut {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let room = BUFFER_CAPACITY.saturating_sub(lanes.outgoing.len());
        if room == 0 && !bytes.is_empty() {
            lanes.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let part = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        lanes.outgoing.extend_from_slice(part);
        self.channel.notify_pipe(&mut lanes);
        Poll::Ready(Ok(part.len()))
    }

    /// Written bytes are already on their way.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut lanes = self.channel.lock_buffers();
        lanes.shut = true;
        self.channel.notify_pipe(&mut lanes);
        Poll::Ready(Ok(()))
    }
}

impl Drop for ProgramTunnel {
    fn drop(&mut self) {
        let mut lanes = self.channel.lock_buffers();
        lanes.dropped = true;
        lanes.incoming = Vec::new();
        self.channel.notify_pipe(&mut lanes);
    }
}

#[cfg(test)]
mod tests;
