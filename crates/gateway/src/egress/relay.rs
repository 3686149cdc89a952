//! Copies bytes both ways and counts them, until both sides are done, a limit is reached, nothing moves, or the
//! policy forbids it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::time::Instant;

use super::passage::{Cut, Passage};
use super::rewind::Stream;

/// Most time without any bytes in either direction.
pub(super) const IDLE: Duration = Duration::from_mins(5);
/// Capacity of the copy buffer in bytes.
const CHUNK: usize = 64 * 1024;

/// Copies between the program's side and the far side.
pub(super) async fn relay(near: impl Stream, far: impl Stream, passage: &Arc<Passage>) {
    let (mut near_read, mut near_write) = split(near);
    let (mut far_read, mut far_write) = split(far);
    let moved = AtomicU64::new(0);
    let out = copy(&mut near_read, &mut far_write, &moved, |bytes| passage.out(bytes));
    let back = copy(&mut far_read, &mut near_write, &moved, |bytes| passage.back(bytes));
    let both = async { tokio::try_join!(out, back).map(drop) };
    tokio::select! {
        biased;
        () = passage.closed() => passage.fault("net.denied"),
        ended = both => {
            // A side that breaks off is simply done; its error is not recorded.
            if let Err(Broken::Io) = ended {
                tracing::debug!("a relayed connection broke off");
            }
        }
        () = idle(&moved) => passage.fault("net.idle"),
    }
}

/// Why copying ended before both ends did.
enum Broken {
    Cut,
    Io,
}

impl From<Cut> for Broken {
    fn from(_: Cut) -> Broken {
        Broken::Cut
    }
}

impl From<std::io::Error> for Broken {
    fn from(_: std::io::Error) -> Broken {
        Broken::Io
    }
}

async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    moved: &AtomicU64,
    count: impl Fn(usize) -> Result<(), Cut>,
) -> Result<(), Broken> {
    let mut buffer = vec![0; CHUNK];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            to.shutdown().await?;
            return Ok(());
        }
        count(length)?;
        to.write_all(&buffer[..length]).await?;
        to.flush().await?;
        moved.fetch_add(length as u64, Ordering::Relaxed);
    }
}

/// Returns when nothing has moved for [`IDLE`].
async fn idle(moved: &AtomicU64) {
    let mut last = moved.load(Ordering::Relaxed);
    let mut since = Instant::now();
    loop {
        tokio::time::sleep(IDLE / 10).await;
        let now = moved.load(Ordering::Relaxed);
        if now != last {
            (last, since) = (now, Instant::now());
        } else if since.elapsed() >= IDLE {
            return;
        }
    }
}
