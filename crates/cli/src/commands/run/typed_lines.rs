//! Reads lines from the terminal in such a way that a line typed before a question cannot answer it.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::mpsc;

/// The most bytes of one line that are read; no valid answer is longer.
const MAX_LINE_BYTES: usize = 4096;

/// The most lines that wait for a question; further lines are discarded.
const MAX_LINES: usize = 16;

/// Reads the terminal on a separate thread that ends with the program, because a read from a terminal cannot be
/// cancelled.
pub(super) struct TypedLines {
    lines: mpsc::Receiver<String>,
    /// Locked while a line is read and forwarded, and while typed lines are discarded.
    reading: Arc<Mutex<()>>,
}

impl TypedLines {
    pub(super) fn start() -> TypedLines {
        let (sender, lines) = mpsc::channel(MAX_LINES);
        let reading = Arc::new(Mutex::new(()));
        let guard = Arc::clone(&reading);
        thread::spawn(move || {
            // The thread ends when the terminal is gone; `ringfence approvals` can still answer.
            while let Ok(true) = forward_line(&guard, &sender) {}
        });
        TypedLines { lines, reading }
    }

    /// Discards everything typed so far, read or not.
    pub(super) fn discard_typed(&mut self) {
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        // A flush fails only if the terminal is gone, and then no line arrives.
        let _ = tcflush(io::stdin(), QueueSelector::IFlush);
        while self.lines.try_recv().is_ok() {}
    }

    /// The next line; pending forever once the terminal is gone.
    pub(super) async fn next_line(&mut self) -> String {
        match self.lines.recv().await {
            Some(line) => line,
            None => std::future::pending().await,
        }
    }
}

/// Waits for a line and forwards it; returns `false` at the end of input or when the receiver is gone.
fn forward_line(reading: &Mutex<()>, sender: &mpsc::Sender<String>) -> io::Result<bool> {
    let stdin = io::stdin();
    is_readable(&stdin, None)?;
    let _reading = reading.lock().unwrap_or_else(PoisonError::into_inner);
    // The line may have been discarded meanwhile; a read would then block with the lock held.
    if !is_readable(&stdin, Some(&Timespec::default()))? {
        return Ok(true);
    }
    let mut bytes = [0; MAX_LINE_BYTES];
    let read = rustix::io::read(&stdin, &mut bytes)?;
    if read == 0 {
        return Ok(false);
    }
    let line = String::from_utf8_lossy(&bytes[..read]).into_owned();
    // The next question discards lines that nobody received.
    Ok(!matches!(
        sender.try_send(line),
        Err(mpsc::error::TrySendError::Closed(_))
    ))
}

fn is_readable(stdin: &io::Stdin, timeout: Option<&Timespec>) -> io::Result<bool> {
    loop {
        match poll(&mut [PollFd::new(stdin, PollFlags::IN)], timeout) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
