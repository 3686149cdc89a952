//! Prints the output of a running program on a separate thread, so that a slow or stuck reader does not delay the limits.

use std::io::{self, Write};
use std::sync::mpsc;
use std::thread;

use ringfence_engine::{OutputObserver, ProgramStream};

use super::{Printer, escape::Escaper, write_fault};
use crate::fault::CliFault;
use crate::signals::{CancelReason, Interrupt};

/// Queues output for the printing thread. The policy's output limit bounds the queue.
#[derive(Debug)]
pub(crate) struct LiveOutput {
    pieces: mpsc::Sender<(ProgramStream, Vec<u8>)>,
    thread: thread::JoinHandle<PrintedOutput>,
}

/// The result of the printing thread.
#[derive(Debug, Default)]
struct PrintedOutput {
    failed: Option<io::Error>,
    /// Whether standard output ended in the middle of a line.
    open_line: bool,
}

impl LiveOutput {
    pub(crate) fn start(printer: &Printer, interrupt: Interrupt) -> Result<LiveOutput, CliFault> {
        let (pieces, inbox) = mpsc::channel();
        let escapers = StreamEscapers {
            stdout: printer.stdout_is_terminal().then(Escaper::default),
            stderr: printer.stderr_is_terminal().then(Escaper::default),
        };
        let print = move || print_pieces(&inbox, escapers, &interrupt);
        let thread = thread::Builder::new().name("output".to_owned()).spawn(print);
        let thread =
            thread.map_err(|error| CliFault::internal("start.thread", format!("cannot start a thread: {error}")))?;
        Ok(LiveOutput { pieces, thread })
    }

    /// Waits until everything is printed; returns whether standard output ended in the middle of a line.
    pub(crate) fn finish(self) -> Result<bool, CliFault> {
        drop(self.pieces);
        let printed = self
            .thread
            .join()
            .map_err(|_| CliFault::internal("output.write", "the output was lost"))?;
        match printed.failed {
            Some(error) => Err(write_fault(&error)),
            None => Ok(printed.open_line),
        }
    }
}

impl OutputObserver for LiveOutput {
    fn on_output(&mut self, stream: ProgramStream, bytes: &[u8]) {
        // The send fails only if the thread ended because the reader is gone.
        let _ = self.pieces.send((stream, bytes.to_vec()));
    }
}

/// What makes output harmless to a terminal, for the streams that are one.
struct StreamEscapers {
    stdout: Option<Escaper>,
    stderr: Option<Escaper>,
}

fn print_pieces(
    inbox: &mpsc::Receiver<(ProgramStream, Vec<u8>)>,
    mut escapers: StreamEscapers,
    interrupt: &Interrupt,
) -> PrintedOutput {
    let mut printed = PrintedOutput::default();
    while let Ok((stream, bytes)) = inbox.recv() {
        let result = match stream {
            ProgramStream::Stdout => {
                printed.open_line = bytes.last() != Some(&b'\n');
                write_piece(&mut io::stdout().lock(), escapers.stdout.as_mut(), &bytes)
            }
            // A failed write to standard error is ignored.
            ProgramStream::Stderr => write_piece(&mut io::stderr().lock(), escapers.stderr.as_mut(), &bytes).or(Ok(())),
        };
        if let Err(error) = result {
            interrupt.request(CancelReason::ReaderGone);
            printed.failed = Some(error);
            return printed;
        }
    }
    let rest = escapers.stdout.map(|mut escaper| escaper.finish()).unwrap_or_default();
    printed.failed = write_bytes(&mut io::stdout().lock(), rest.as_bytes()).err();
    let rest = escapers.stderr.map(|mut escaper| escaper.finish()).unwrap_or_default();
    let _ = write_bytes(&mut io::stderr().lock(), rest.as_bytes());
    printed
}

fn write_piece(to: &mut impl Write, escaper: Option<&mut Escaper>, bytes: &[u8]) -> io::Result<()> {
    match escaper {
        Some(escaper) => write_bytes(to, escaper.escape(bytes).as_bytes()),
        None => write_bytes(to, bytes),
    }
}

fn write_bytes(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}
