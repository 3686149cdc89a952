//! The standard streams of a long-running program, such as a tool server, as byte streams for its client.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{mpsc, watch};

use crate::execution::{OutputSink, StandardStream};

/// Bytes that a program may write ahead of its readers before it is ended as a flood.
const MAX_UNREAD_BYTES: usize = 64 << 20;

type UnreadBytes = Arc<AtomicUsize>;

/// The output of a program on its way to its readers. A program that writes too far ahead of them is ended.
#[derive(Debug)]
pub struct OutputStreams {
    stdout: mpsc::UnboundedSender<Vec<u8>>,
    stderr: mpsc::UnboundedSender<Vec<u8>>,
    ahead: UnreadBytes,
    switch: watch::Sender<bool>,
}

impl OutputStreams {
    /// The output streams of one program and their readers: standard output, standard error. `switch` ends the program.
    pub fn new(switch: watch::Sender<bool>) -> (OutputStreams, OutputReader, OutputReader) {
        let (stdout, said) = mpsc::unbounded_channel();
        let (stderr, noted) = mpsc::unbounded_channel();
        let ahead = UnreadBytes::default();
        let readers = [said, noted].map(|pieces| OutputReader::new(pieces, Arc::clone(&ahead)));
        let [said, noted] = readers;
        let streams = OutputStreams {
            stdout,
            stderr,
            ahead,
            switch,
        };
        (streams, said, noted)
    }
}

impl OutputSink for OutputStreams {
    fn on_output(&mut self, output: StandardStream, bytes: &[u8]) {
        if self.ahead.fetch_add(bytes.len(), Ordering::AcqRel) > MAX_UNREAD_BYTES {
            self.switch.send_replace(true);
            return;
        }
        let to = match output {
            StandardStream::Stdout => &self.stdout,
            StandardStream::Stderr => &self.stderr,
        };
        // Bytes are dropped when their reader is gone.
        if to.send(bytes.to_vec()).is_err() {
            self.ahead.fetch_sub(bytes.len(), Ordering::AcqRel);
        }
    }
}

/// The reading end of a program's output.
#[derive(Debug)]
pub struct OutputReader {
    pieces: mpsc::UnboundedReceiver<Vec<u8>>,
    rest: Vec<u8>,
    read: usize,
    ahead: UnreadBytes,
}

impl OutputReader {
    fn new(pieces: mpsc::UnboundedReceiver<Vec<u8>>, ahead: UnreadBytes) -> OutputReader {
        OutputReader {
            pieces,
            rest: Vec::new(),
            read: 0,
            ahead,
        }
    }
}

impl AsyncRead for OutputReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.read == this.rest.len() {
            match this.pieces.poll_recv(context) {
                Poll::Ready(Some(piece)) => (this.rest, this.read) = (piece, 0),
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Pending => return Poll::Pending,
            }
        }
        let rest = this.rest.get(this.read..).unwrap_or_default();
        let part = rest.get(..rest.len().min(buffer.remaining())).unwrap_or_default();
        buffer.put_slice(part);
        this.read += part.len();
        this.ahead.fetch_sub(part.len(), Ordering::AcqRel);
        Poll::Ready(Ok(()))
    }
}

/// The writing end of a program's standard input.
#[derive(Debug)]
pub struct InputWriter {
    pieces: tokio_util::sync::PollSender<Vec<u8>>,
}

impl InputWriter {
    /// A writer for the sender of a task's standard input.
    pub fn new(pieces: mpsc::Sender<Vec<u8>>) -> InputWriter {
        InputWriter {
            pieces: tokio_util::sync::PollSender::new(pieces),
        }
    }
}

fn closed_error<T>(_: T) -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

impl AsyncWrite for InputWriter {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.pieces.poll_reserve(context) {
            Poll::Ready(Ok(())) => {
                self.pieces.send_item(bytes.to_vec()).map_err(closed_error)?;
                Poll::Ready(Ok(bytes.len()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(closed_error(error))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pieces.close();
        Poll::Ready(Ok(()))
    }
}
