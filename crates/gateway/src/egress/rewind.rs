//! A stream whose first bytes can be read again.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

use super::write_passthrough::writes_through;

/// A stream that either side of the proxy can use.
pub(super) trait ProxyStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> ProxyStream for S {}

/// Reads `read` first, then the rest of `stream`.
#[derive(Debug)]
pub(super) struct RewindStream<S> {
    pub(super) read: BytesMut,
    pub(super) stream: S,
}

impl<S: ProxyStream> RewindStream<S> {
    pub(super) fn new(stream: S) -> RewindStream<S> {
        RewindStream {
            read: BytesMut::new(),
            stream,
        }
    }

    /// Reads more of the stream behind `read`. Returns the number of bytes, 0 at its end.
    pub(super) async fn read_more(&mut self) -> io::Result<usize> {
        self.read.reserve(4096);
        self.stream.read_buf(&mut self.read).await
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for RewindStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.read.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, into);
        }
        let length = self.read.len().min(into.remaining());
        into.put_slice(&self.read[..length]);
        self.read.advance(length);
        if self.read.is_empty() {
            self.read = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

writes_through!(RewindStream, stream);
