//! Standard input and output without an extra thread: clients pass pipes or sockets.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream as Socket;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;

/// A stream to read from.
pub(super) type StdinStream = Box<dyn AsyncRead + Send + Unpin>;
/// A stream to write to.
pub(super) type StdoutStream = Box<dyn AsyncWrite + Send + Unpin>;

/// Standard input and output, as sockets or pipes if possible, otherwise through a thread.
pub(super) fn standard_streams() -> (StdinStream, StdoutStream) {
    let sockets = socket(&io::stdin()).and_then(|read| Ok((read, socket(&io::stdout())?)));
    match sockets {
        Ok((read, write)) => (Box::new(read), Box::new(write)),
        Err(error) => {
            tracing::debug!(%error, "standard input and output are no sockets");
            let (read, write) = rmcp::transport::io::stdio_pipes();
            (Box::new(read), Box::new(write))
        }
    }
}

fn socket(stream: &impl AsFd) -> io::Result<UnixStream> {
    let file = File::from(stream.as_fd().try_clone_to_owned()?);
    if !file.metadata()?.file_type().is_socket() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let socket = Socket::from(OwnedFd::from(file));
    // A socket of another family has no such address.
    socket.local_addr()?;
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}

#[cfg(test)]
mod tests;
