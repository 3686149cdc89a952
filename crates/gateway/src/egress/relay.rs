//! Copies bytes both ways and counts them, until both sides are done, a limit is reached, nothing moves, or the
//! policy forbids it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::time::Instant;

use super::flow::{EgressFlow, FlowCut};
use super::rewind::ProxyStream;

/// Most time without any bytes in either direction.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_mins(5);
/// Capacity of the copy buffer in bytes.
const COPY_BUFFER_CAPACITY: usize = 64 * 1024;

/// Copies between the program's side and the far side.
pub(super) async fn relay(near: impl ProxyStream, far: impl ProxyStream, passage: &Arc<EgressFlow>) {
    let (mut near_read, mut near_write) = split(near);
    let (mut far_read, mut far_write) = split(far);
    let moved = AtomicU64::new(0);
    let out = copy(&mut near_read, &mut far_write, &moved, |bytes| passage.count_out(bytes));
    let back = copy(&mut far_read, &mut near_write, &moved, |bytes| {
        passage.count_back(bytes)
    });
    let both = async { tokio::try_join!(out, back).map(drop) };
    tokio::select! {
        biased;
        () = passage.wait_until_closed() => passage.set_fault("net.denied"),
        ended = both => {
            // A side that breaks off is done; its error is not recorded.
            if let Err(RelayError::Io) = ended {
                tracing::debug!("a relayed connection broke off");
            }
        }
        () = wait_until_idle(&moved) => passage.set_fault("net.idle"),
    }
}

/// Why copying ended before both ends did.
enum RelayError {
    Cut,
    Io,
}

impl From<FlowCut> for RelayError {
    fn from(_: FlowCut) -> RelayError {
        RelayError::Cut
    }
}

impl From<std::io::Error> for RelayError {
    fn from(_: std::io::Error) -> RelayError {
        RelayError::Io
    }
}

async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    moved: &AtomicU64,
    count: impl Fn(usize) -> Result<(), FlowCut>,
) -> Result<(), RelayError> {
    let mut buffer = vec![0; COPY_BUFFER_CAPACITY];
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

/// Returns when nothing has moved for [`IDLE_TIMEOUT`].
async fn wait_until_idle(moved: &AtomicU64) {
    let mut last = moved.load(Ordering::Relaxed);
    let mut since = Instant::now();
    loop {
        tokio::time::sleep(IDLE_TIMEOUT / 10).await;
        let now = moved.load(Ordering::Relaxed);
        if now != last {
            (last, since) = (now, Instant::now());
        } else if since.elapsed() >= IDLE_TIMEOUT {
            return;
        }
    }
}
