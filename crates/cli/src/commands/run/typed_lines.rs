//! What a person types at the terminal, such that nothing typed before a question can answer it.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::mpsc;

/// The most of one line that is read; no answer is longer.
const MAX_LINE: usize = 4096;

/// The most lines that wait for a question; what is typed beyond is dropped.
const MAX_LINES: usize = 16;

/// Reads the terminal on a thread of its own, which ends with the program: a terminal cannot be waited for otherwise.
pub(super) struct TypedLines {
    lines: mpsc::Receiver<String>,
    /// Held while a line is read and passed on, and while everything typed so far is dropped.
    reading: Arc<Mutex<()>>,
}

impl TypedLines {
    pub(super) fn start() -> TypedLines {
        let (sender, lines) = mpsc::channel(MAX_LINES);
        let reading = Arc::new(Mutex::new(()));
        let guard = Arc::clone(&reading);
        thread::spawn(move || {
            // A terminal that is gone answers nothing: the inbox still can.
            while let Ok(true) = pass_line_on(&guard, &sender) {}
        });
        TypedLines { lines, reading }
    }

    /// Drops everything that was typed so far, read or not.
    pub(super) fn drop_typed(&mut self) {
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        // What cannot be flushed is no terminal any more: it answers nothing.
        let _ = tcflush(io::stdin(), QueueSelector::IFlush);
        while self.lines.try_recv().is_ok() {}
    }

    /// The next line; never, once the terminal is gone.
    pub(super) async fn next(&mut self) -> String {
        match self.lines.recv().await {
            Some(line) => line,
            None => std::future::pending().await,
        }
    }
}

/// Waits for a line and passes it on; `false` once there is nothing more to read or nobody to pass it to.
fn pass_line_on(reading: &Mutex<()>, sender: &mpsc::Sender<String>) -> io::Result<bool> {
    let stdin = io::stdin();
    is_readable(&stdin, None)?;
    let _reading = reading.lock().unwrap_or_else(PoisonError::into_inner);
    // It may have been dropped meanwhile; reading would then wait with the lock held.
    if !is_readable(&stdin, Some(&Timespec::default()))? {
        return Ok(true);
    }
    let mut bytes = [0; MAX_LINE];
    let read = rustix::io::read(&stdin, &mut bytes)?;
    if read == 0 {
        return Ok(false);
    }
    let line = String::from_utf8_lossy(&bytes[..read]).into_owned();
    // Lines that nobody takes are dropped at the next question anyway.
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
