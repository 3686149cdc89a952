//! A connection of a program in the sandbox, as whoever stands behind the door has it: a stream of bytes both ways.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use ringfence_wire::{MAX_PAYLOAD, TunnelId, WINDOW};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

/// So much may wait between a writer and the pipe: several frames, so that neither waits for the other at each of them.
const AHEAD: usize = 4 * MAX_PAYLOAD;

/// What was read is reported in pieces of at least this size: less would not be granted again.
const REPORT: usize = WINDOW as usize / 2;

/// One connection of a program. What is written arrives in the program, and the other way round, with the pace of whoever is
/// slower. Shutting it down tells the program that no more comes; dropping it without that is a reset inside. When the
/// execution is over it is at its end if the program had ended it, and reset if not.
#[derive(Debug)]
pub struct Tunnel {
    line: Arc<Line>,
    /// What came and was taken over: `reading[at..]` is still to be read.
    reading: Vec<u8>,
    at: usize,
    /// Bytes that were read and not yet reported.
    unreported: usize,
}

/// What a tunnel and the pipe share.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) tunnel: TunnelId,
    lanes: Mutex<Lanes>,
    board: Arc<Board>,
}

/// The lines that the pipe should look at.
#[derive(Debug, Default)]
pub(crate) struct Board {
    stirred: Mutex<Vec<Arc<Line>>>,
    bell: Notify,
}

#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts of two sides, each of which comes true once and independently of the others"
)]
pub(crate) struct Lanes {
    /// From the program, not yet taken over by the reader.
    arrived: Vec<u8>,
    /// Bytes that were read and that the pipe does not know of yet.
    pub(crate) read: usize,
    /// The program sends no more.
    pub(crate) program_ended: bool,
    reader: Option<Waker>,
    /// To the program, not yet taken over by the pipe.
    pub(crate) leaving: Vec<u8>,
    /// Nothing more will be written.
    pub(crate) shut: bool,
    writer: Option<Waker>,
    /// Nobody holds the tunnel any more.
    pub(crate) dropped: bool,
    /// Nothing comes from the program or goes to it any more.
    pub(crate) closed: bool,
    /// The pipe has nothing to do with it any more.
    over: bool,
    /// It is among those that the pipe will look at.
    stirred: bool,
}

/// None of these holders can leave anything half done, so a panic of one spoils nothing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Board {
    /// The lines that were stirred since the last time.
    pub(crate) fn take(&self) -> Vec<Arc<Line>> {
        std::mem::take(&mut *lock(&self.stirred))
    }

    /// Waits until there are some.
    pub(crate) async fn stirs(&self) {
        self.bell.notified().await;
    }
}

impl Line {
    pub(crate) fn new(tunnel: TunnelId, board: &Arc<Board>) -> Arc<Line> {
        Arc::new(Line {
            tunnel,
            lanes: Mutex::default(),
            board: Arc::clone(board),
        })
    }

    pub(crate) fn lanes(&self) -> MutexGuard<'_, Lanes> {
        lock(&self.lanes)
    }

    /// Bytes of the program came.
    pub(crate) fn arrive(&self, bytes: &[u8]) {
        let mut lanes = self.lanes();
        if !lanes.dropped {
            lanes.arrived.extend_from_slice(bytes);
            lanes.wake_reader();
        }
    }

    /// The program sends no more.
    pub(crate) fn end(&self) {
        let mut lanes = self.lanes();
        lanes.program_ended = true;
        lanes.wake_reader();
    }

    /// The program neither sends nor takes any more.
    pub(crate) fn close(&self) {
        let mut lanes = self.lanes();
        lanes.closed = true;
        lanes.leaving = Vec::new();
        lanes.wake_reader();
        lanes.wake_writer();
    }

    /// The pipe has nothing to do with it any more.
    pub(crate) fn finish(&self) {
        let mut lanes = self.lanes();
        lanes.over = true;
        lanes.closed = true;
        lanes.leaving = Vec::new();
        lanes.wake_reader();
        lanes.wake_writer();
    }

    /// Lets the pipe look at it.
    fn stir(self: &Arc<Self>, lanes: &mut Lanes) {
        if lanes.over || std::mem::replace(&mut lanes.stirred, true) {
            return;
        }
        lock(&self.board.stirred).push(Arc::clone(self));
        self.board.bell.notify_one();
    }
}

impl Lanes {
    /// The pipe looks at it now.
    pub(crate) fn settle(&mut self) {
        self.stirred = false;
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

impl Tunnel {
    pub(crate) fn new(line: Arc<Line>) -> Tunnel {
        Tunnel {
            line,
            reading: Vec::new(),
            at: 0,
            unreported: 0,
        }
    }

    /// Gives as much as is there and fits.
    fn give(&mut self, into: &mut ReadBuf<'_>) {
        let left = self.reading.get(self.at..).unwrap_or_default();
        let part = left.get(..into.remaining().min(left.len())).unwrap_or_default();
        into.put_slice(part);
        let count = part.len();
        self.at += count;
        self.unreported += count;
        if self.unreported >= REPORT {
            let line = Arc::clone(&self.line);
            self.report(&line, &mut line.lanes());
        }
    }

    fn report(&mut self, line: &Arc<Line>, lanes: &mut Lanes) {
        lanes.read += std::mem::take(&mut self.unreported);
        if lanes.read >= REPORT {
            line.stir(lanes);
        }
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.at < this.reading.len() || into.remaining() == 0 {
            this.give(into);
            return Poll::Ready(Ok(()));
        }
        let line = Arc::clone(&this.line);
        let mut lanes = line.lanes();
        if lanes.arrived.is_empty() {
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
        std::mem::swap(&mut this.reading, &mut lanes.arrived);
        drop(lanes);
        this.give(into);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut lanes = self.line.lanes();
        if lanes.closed || lanes.shut {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let room = AHEAD.saturating_sub(lanes.leaving.len());
        if room == 0 && !bytes.is_empty() {
            lanes.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let part = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        lanes.leaving.extend_from_slice(part);
        self.line.stir(&mut lanes);
        Poll::Ready(Ok(part.len()))
    }

    /// What was written is on its way already.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut lanes = self.line.lanes();
        lanes.shut = true;
        self.line.stir(&mut lanes);
        Poll::Ready(Ok(()))
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        let mut lanes = self.line.lanes();
        lanes.dropped = true;
        lanes.arrived = Vec::new();
        self.line.stir(&mut lanes);
    }
}

#[cfg(test)]
mod tests;
