//! Relays the output of another process to the host, and the host's input to that process, until the process ends.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use ringfence_jail::inside::{self, Interest, Readiness};
use ringfence_wire::PipeStream;

use crate::pipe::ChildPipe;

/// The most bytes of one stream that are read at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// The pipes of the relayed process.
#[derive(Debug)]
pub(crate) struct ProcessRelay {
    stdin: Option<io::PipeWriter>,
    stdout: Option<io::PipeReader>,
    stderr: Option<io::PipeReader>,
    buffer: Vec<u8>,
}

/// Whether the relayed process has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RelayProgress {
    Running,
    /// The process has ended; the output that it wrote before is still relayed.
    Ended,
}

/// The relayed process, and the messages that it exchanges with the child itself.
pub(crate) trait RelayedProcess: AsFd {
    /// What to poll the descriptor for; `None` while the child cannot take more from it.
    fn interest(&self, pipe: &ChildPipe) -> Option<Interest>;

    /// Handles the descriptor if it is `ready`, and whatever came from the host.
    fn on_ready(&mut self, pipe: &mut ChildPipe, ready: Readiness) -> RelayProgress;
}

/// A process that only reports its end: its handle becomes readable, and the callback then checks for the exit.
#[derive(Debug)]
pub(crate) struct ExitHandle<S, F> {
    pub(crate) handle: S,
    pub(crate) check_exit: F,
}

impl<S: AsFd, F> AsFd for ExitHandle<S, F> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl<S: AsFd, F: FnMut() -> RelayProgress> RelayedProcess for ExitHandle<S, F> {
    fn interest(&self, _pipe: &ChildPipe) -> Option<Interest> {
        Some(Interest::Read)
    }

    fn on_ready(&mut self, _pipe: &mut ChildPipe, ready: Readiness) -> RelayProgress {
        if ready.read {
            (self.check_exit)()
        } else {
            RelayProgress::Running
        }
    }
}

impl ProcessRelay {
    /// Makes a relay between these pipes and the host.
    pub(crate) fn new(stdin: Option<io::PipeWriter>, stdout: io::PipeReader, stderr: io::PipeReader) -> ProcessRelay {
        ProcessRelay {
            stdin,
            stdout: Some(stdout),
            stderr: Some(stderr),
            buffer: vec![0; CHUNK_BYTES],
        }
    }

    /// Relays until the process ends, then relays what is left in the pipes and ends the streams.
    pub(crate) fn run(&mut self, pipe: &mut ChildPipe, companion: &mut impl RelayedProcess) -> io::Result<()> {
        loop {
            let (ready, connections) = self.wait_until_ready(pipe, companion)?;
            let [host, other, stdin, stdout, stderr] = ready;
            // This comes before the host's messages, which may close some of the connections.
            pipe.serve_tunnels(&connections);
            if host.read {
                pipe.receive();
            }
            if stdin.write {
                self.feed_stdin(pipe);
            }
            if stdout.read {
                self.carry_output(pipe, PipeStream::Stdout)?;
            }
            if stderr.read {
                self.carry_output(pipe, PipeStream::Stderr)?;
            }
            if companion.on_ready(pipe, other) == RelayProgress::Ended {
                break;
            }
            self.close_finished_stdin(pipe);
            pipe.send();
        }
        self.drain(pipe)
    }

    /// Waits until one of the five descriptors or of the program's connections is ready.
    fn wait_until_ready(
        &self,
        pipe: &ChildPipe,
        companion: &impl RelayedProcess,
    ) -> io::Result<([Readiness; 5], Vec<Readiness>)> {
        let room = |end: &Option<io::PipeReader>, stream| end.is_some() && pipe.room(stream) > 0;
        let stdout = self.stdout.as_ref().filter(|_| room(&self.stdout, PipeStream::Stdout));
        let stderr = self.stderr.as_ref().filter(|_| room(&self.stderr, PipeStream::Stderr));
        let stdin = self.stdin.as_ref().filter(|_| !pipe.stdin().is_empty());
        let five = [
            Some((pipe.as_fd(), pipe.interest())),
            companion.interest(pipe).map(|interest| (companion.as_fd(), interest)),
            stdin.map(|end| (end.as_fd(), Interest::Write)),
            stdout.map(|end| (end.as_fd(), Interest::Read)),
            stderr.map(|end| (end.as_fd(), Interest::Read)),
        ];
        if !pipe.has_tunnels() {
            return Ok((inside::poll(five)?, Vec::new()));
        }
        let mut all = five.to_vec();
        pipe.add_tunnel_interests(&mut all);
        let mut ready = inside::poll_list(&all)?;
        let connections = ready.split_off(five.len());
        let five = ready.try_into().map_err(|_| io::ErrorKind::InvalidData)?;
        Ok((five, connections))
    }

    /// A small write never blocks: the pipe is writable, so it has capacity for that much.
    fn feed_stdin(&mut self, pipe: &mut ChildPipe) {
        const ATOMIC: usize = 4096;
        let Some(stdin) = &mut self.stdin else { return };
        let part = pipe.stdin().len().min(ATOMIC);
        match stdin.write(pipe.stdin().get(..part).unwrap_or_default()) {
            Ok(count) => pipe.consume_stdin(count),
            // The program has closed its input: the rest is dropped.
            Err(_) => self.stdin = None,
        }
    }

    fn close_finished_stdin(&mut self, pipe: &mut ChildPipe) {
        if self.stdin.is_none() {
            pipe.consume_stdin(pipe.stdin().len());
        } else if pipe.stdin_ended() && pipe.stdin().is_empty() {
            self.stdin = None;
        }
    }

    fn carry_output(&mut self, pipe: &mut ChildPipe, stream: PipeStream) -> io::Result<()> {
        let end = if stream == PipeStream::Stdout {
            &mut self.stdout
        } else {
            &mut self.stderr
        };
        let Some(reader) = end else { return Ok(()) };
        let room = pipe.room(stream).min(CHUNK_BYTES);
        let count = reader.read(self.buffer.get_mut(..room).unwrap_or_default())?;
        if count == 0 && room > 0 {
            *end = None;
        }
        pipe.queue_bytes(stream, self.buffer.get(..count).unwrap_or_default());
        Ok(())
    }

    /// Relays what the process wrote before its end. A descendant that stays behind and writes on is not waited for.
    fn drain(&mut self, pipe: &mut ChildPipe) -> io::Result<()> {
        // More than the largest pipe that an ordinary user can have.
        const MAX_LEFTOVER_BYTES: usize = 2 << 20;
        self.stdin = None;
        pipe.end_tunnels();
        for stream in [PipeStream::Stdout, PipeStream::Stderr] {
            for _ in 0..MAX_LEFTOVER_BYTES / CHUNK_BYTES {
                let end = if stream == PipeStream::Stdout {
                    &self.stdout
                } else {
                    &self.stderr
                };
                let Some(reader) = end else { break };
                if !inside::is_readable(reader.as_fd(), Duration::ZERO)? {
                    break;
                }
                if pipe.room(stream) == 0 {
                    pipe.flush();
                }
                self.carry_output(pipe, stream)?;
            }
            pipe.end_stream(stream);
        }
        Ok(())
    }
}
