//! Entry points for fuzzing the proxy's parsers: plain functions over bytes that panic only if an invariant is
//! broken. The tests run them on seeded inputs, and any fuzzer can.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

use super::guard::HeadGuard;
use super::sniff::{SniffedProtocol, TlsHello, classify};
use super::{head, socks};

/// Input that arrives in pieces of this length; writes are discarded.
struct PiecewiseInput<'a> {
    rest: &'a [u8],
    length: usize,
}

impl AsyncRead for PiecewiseInput<'_> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let length = self.length.min(self.rest.len()).min(into.remaining());
        let (piece, rest) = self.rest.split_at(length);
        into.put_slice(piece);
        self.rest = rest;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for PiecewiseInput<'_> {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Checks requests of a program: the output of the guard does not depend on how the input is split, a head has one
/// end, and a parsed host is canonical.
///
/// # Panics
/// When an invariant is broken.
pub fn fuzz_head(bytes: &[u8]) {
    let [cut, input @ ..] = bytes else { return };
    if let Ok(head) = head::parse_head(input) {
        assert_eq!(head::find_end(input, 0), Some(input.len()), "one head has one end");
        if let Ok((host, _)) = head::parse_authority(&head.target) {
            assert_eq!(
                host.to_string().parse().as_ref(),
                Ok(&host),
                "what is judged is what is dialled"
            );
        }
    }
    let whole = guarded(input, usize::MAX);
    let pieces = guarded(input, usize::from(*cut) + 1);
    assert_eq!(whole, pieces, "how it is cut changes nothing");
}

/// Returns the output of the guard, and whether it refused a head.
fn guarded(input: &[u8], length: usize) -> (Vec<u8>, bool) {
    thread_local! {
        static RUNTIME: Option<tokio::runtime::Runtime> =
            tokio::runtime::Builder::new_current_thread().enable_time().build().ok();
    }
    RUNTIME.with(|runtime| {
        let Some(runtime) = runtime else {
            return (Vec::new(), false);
        };
        let _entered = runtime.enter();
        let (mut guard, fault) = HeadGuard::new(PiecewiseInput { rest: input, length });
        let mut out = Vec::new();
        let mut buffer = [0; 512];
        // A read that would block means that a reply is due or the input is over.
        while let Some(Ok(read @ 1..)) = guard.read(&mut buffer).now_or_never() {
            out.extend_from_slice(&buffer[..read]);
        }
        (out, fault.is_set())
    })
}

/// Checks a SOCKS5 greeting and request: the result does not depend on how the input is split, and a host fits its
/// length.
///
/// # Panics
/// When an invariant is broken.
pub fn fuzz_socks(bytes: &[u8]) {
    let [cut, input @ ..] = bytes else { return };
    let shake = |length| {
        let mut stream = PiecewiseInput { rest: input, length };
        let Some(wish) = socks::handshake(&mut stream).now_or_never() else {
            panic!("bytes in memory are always there");
        };
        wish.map_err(|error| error.reply())
    };
    let whole = shake(usize::MAX);
    assert_eq!(whole, shake(usize::from(*cut) + 1), "how it is cut changes nothing");
    if let Ok(wish) = whole {
        assert!(wish.host.len() <= 255, "{wish:?}");
    }
}

/// Checks the first bytes in a tunnel: once the protocol is clear, more bytes do not change it.
///
/// # Panics
/// When an invariant is broken.
pub fn fuzz_tunnel(bytes: &[u8]) {
    let [cut, input @ ..] = bytes else { return };
    let whole = classify(input);
    let part = classify(&input[..usize::from(*cut).min(input.len())]);
    if let Some(part) = part {
        assert_eq!(whole, Some(part), "the first bytes decide");
    }
    if let Some(SniffedProtocol::Tls(TlsHello { name: Some(name), .. })) = whole {
        assert!(name.is_ascii() && !name.contains('\0'), "{name:?}");
    }
}

#[cfg(test)]
mod tests;
