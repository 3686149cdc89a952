//! Prints the output of a running program on a separate thread, so that a slow or stuck reader does not delay the limits.

use std::io::{self, Write};
use std::sync::mpsc;
use std::thread;

use ringfence_engine::{Live, Stream};

use super::{Printer, escape::Escaper, unwritten};
use crate::fault::Fault;
use crate::signals::{Interrupt, Wish};

/// Queues output for the printing thread. The policy's output limit bounds the queue.
#[derive(Debug)]
pub(crate) struct Screen {
    pieces: mpsc::Sender<(Stream, Vec<u8>)>,
    thread: thread::JoinHandle<Printed>,
}

/// The result of the printing thread.
#[derive(Debug, Default)]
struct Printed {
    failed: Option<io::Error>,
    /// Whether standard output ended in the middle of a line.
    open_line: bool,
}

impl Screen {
    pub(crate) fn start(printer: &Printer, interrupt: Interrupt) -> Result<Screen, Fault> {
        let (pieces, inbox) = mpsc::channel();
        let terminals = (printer.stdout_is_terminal(), printer.stderr_is_terminal());
        let print = move || print(&inbox, terminals, &interrupt);
        let thread = thread::Builder::new().name("output".to_owned()).spawn(print);
        let thread = thread.map_err(|error| Fault::ours("start.thread", format!("cannot start a thread: {error}")))?;
        Ok(Screen { pieces, thread })
    }

    /// Waits until everything is printed; returns whether standard output ended in the middle of a line.
    pub(crate) fn finish(self) -> Result<bool, Fault> {
        drop(self.pieces);
        let printed = self
            .thread
            .join()
            .map_err(|_| Fault::ours("output.write", "the output was lost"))?;
        match printed.failed {
            Some(error) => Err(unwritten(&error)),
            None => Ok(printed.open_line),
        }
    }
}

impl Live for Screen {
    fn see(&mut self, stream: Stream, bytes: &[u8]) {
        // The send fails only if the thread ended because the reader is gone.
        let _ = self.pieces.send((stream, bytes.to_vec()));
    }
}

fn print(inbox: &mpsc::Receiver<(Stream, Vec<u8>)>, terminals: (bool, bool), interrupt: &Interrupt) -> Printed {
    let mut printed = Printed::default();
    let mut escapers = (terminals.0.then(Escaper::default), terminals.1.then(Escaper::default));
    while let Ok((stream, bytes)) = inbox.recv() {
        let result = match stream {
            Stream::Stdout => {
                printed.open_line = bytes.last() != Some(&b'\n');
                put(&mut io::stdout().lock(), escapers.0.as_mut(), &bytes)
            }
            // A failed write to standard error is ignored.
            Stream::Stderr => put(&mut io::stderr().lock(), escapers.1.as_mut(), &bytes).or(Ok(())),
        };
        if let Err(error) = result {
            interrupt.wish(Wish::ReaderGone);
            printed.failed = Some(error);
            return printed;
        }
    }
    let rest = escapers.0.map(|mut escaper| escaper.finish()).unwrap_or_default();
    printed.failed = write(&mut io::stdout().lock(), rest.as_bytes()).err();
    let rest = escapers.1.map(|mut escaper| escaper.finish()).unwrap_or_default();
    let _ = write(&mut io::stderr().lock(), rest.as_bytes());
    printed
}

fn put(to: &mut impl Write, escaper: Option<&mut Escaper>, bytes: &[u8]) -> io::Result<()> {
    match escaper {
        Some(escaper) => write(to, escaper.escape(bytes).as_bytes()),
        None => write(to, bytes),
    }
}

fn write(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}
