//! Connects a Python process with the host: forwards its calls, returns their answers, and ends with its result.
//!
//! The frames of the process are hostile: an invalid one ends the execution. The child never blocks on a write to the
//! process, so neither side can keep the other from reading.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use ringfence_jail::inside::{Interest, Readiness};
use ringfence_wire::{Ask, BODY_CAP, Emit, Refusal, Text};

use crate::emit::{self, Emitted};
use crate::pipe::Pipe;
use crate::python::{Frames, PythonCall, PythonFrame, PythonResult, Remark, look_frame, return_frame};
use crate::relay::{Companion, Over};

/// The most bytes that are read at a time.
const CHUNK: usize = 64 * 1024;
/// The child stops reading from the process while this many of its calls are queued.
const CALLS_WAITING: usize = 1024;

/// The connection to one Python process.
#[derive(Debug)]
pub(crate) struct Bridge {
    stream: UnixStream,
    frames: Frames,
    /// The process's own number of each open call, by the child's number.
    numbers: HashMap<u32, u64>,
    outgoing: Vec<u8>,
    written: usize,
    chunk: Vec<u8>,
    /// The process has a wait query and has not answered it.
    asked: bool,
    emitted: Emitted,
    result: Option<PythonResult>,
}

impl Bridge {
    pub(crate) fn new(stream: UnixStream, frames: Frames) -> io::Result<Bridge> {
        stream.set_nonblocking(true)?;
        Ok(Bridge {
            stream,
            frames,
            numbers: HashMap::new(),
            outgoing: Vec::new(),
            written: 0,
            chunk: vec![0; CHUNK],
            asked: false,
            emitted: Emitted::default(),
            result: None,
        })
    }

    /// The result that the process sent, or `None` if it ended without one.
    pub(crate) fn into_result(self) -> Option<PythonResult> {
        self.result
    }

    fn listen(&mut self, pipe: &mut Pipe) -> Over {
        match self.stream.read(&mut self.chunk) {
            Ok(count @ 1..) => self.frames.feed(self.chunk.get(..count).unwrap_or_default()),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Over::No;
            }
            Ok(_) | Err(_) => return Over::Yes,
        }
        loop {
            let frame = match self.frames.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => return Over::No,
                Err(_) => return Over::Yes,
            };
            match PythonFrame::read(&frame) {
                Ok(PythonFrame::Call(call)) => self.call(pipe, &call),
                Ok(PythonFrame::Remark(remark)) => {
                    if self.hear(pipe, remark) == Over::Yes {
                        return Over::Yes;
                    }
                }
                Ok(PythonFrame::Result(result)) => {
                    self.result = Some(result);
                    return Over::Yes;
                }
                Err(_) => return Over::Yes,
            }
        }
    }

    fn call(&mut self, pipe: &mut Pipe, call: &PythonCall<'_>) {
        let ask = match call.ask.as_ref() {
            "search" => Ok(Ask::Search),
            "describe" => Ok(Ask::Describe),
            "list" => Ok(Ask::List),
            _ => match (Text::try_from(&*call.server), Text::try_from(&*call.tool)) {
                (Ok(server), Ok(tool)) => Ok(Ask::Tool { server, tool }),
                _ => Err(refusal("tool.unknown", "there is no tool with so long a name")),
            },
        };
        pipe.trace(&call.trace);
        let made = ask.and_then(|ask| {
            let long = || {
                refusal(
                    "call.too_large",
                    &format!("the arguments are longer than {} MiB", BODY_CAP >> 20),
                )
            };
            pipe.call(ask, call.body.get().to_owned()).ok_or_else(long)
        });
        match made {
            Ok(number) => {
                self.numbers.insert(number, call.call);
            }
            // The call was never made, so the host has no number for it.
            Err(refusal) => return_frame(call.call, None, &Err(refusal), &mut self.outgoing),
        }
    }

    fn hear(&mut self, pipe: &mut Pipe, remark: Remark) -> Over {
        match remark {
            Remark::Trace(piece) => pipe.trace(&piece),
            Remark::Unrepeatable(why) => pipe.unrepeatable(&why),
            Remark::Waits { open, due } => {
                // If an answer has gone out since, the process no longer waits, and gets the query again.
                let open = usize::try_from(open).unwrap_or(usize::MAX);
                if std::mem::take(&mut self.asked) && open == self.numbers.len() && self.outgoing.is_empty() {
                    pipe.waits(due);
                }
            }
            Remark::Emit { path, media_type } => return self.emit(pipe, &path, media_type.as_deref()),
        }
        Over::No
    }

    /// The process checks its files itself, so an invalid one does not come from our code and ends the execution.
    fn emit(&mut self, pipe: &mut Pipe, path: &str, media_type: Option<&str>) -> Over {
        let media_type = media_type.unwrap_or_else(|| emit::media_type(path));
        match Emit::new(path, media_type) {
            Ok(emit) if self.emitted.takes(&emit) => {
                if self.emitted.note(&emit) {
                    pipe.emit(emit);
                }
                Over::No
            }
            Ok(_) | Err(_) => Over::Yes,
        }
    }

    /// Sends the host's wait query to the process, once every call has left.
    fn look(&mut self, pipe: &Pipe) {
        if pipe.is_looked_at() && !self.asked && pipe.unsent_calls() == 0 {
            self.asked = true;
            look_frame(&mut self.outgoing);
        }
    }

    /// Writes as much as the process has capacity for.
    fn write(&mut self) -> Over {
        while self.written < self.outgoing.len() {
            match self.stream.write(self.outgoing.get(self.written..).unwrap_or_default()) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Over::No,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Over::Yes,
            }
        }
        self.outgoing.clear();
        self.written = 0;
        Over::No
    }
}

impl AsFd for Bridge {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Companion for Bridge {
    fn interest(&self, pipe: &Pipe) -> Option<Interest> {
        match (reads(pipe), self.written < self.outgoing.len()) {
            (true, true) => Some(Interest::ReadAndWrite),
            (true, false) => Some(Interest::Read),
            (false, true) => Some(Interest::Write),
            (false, false) => None,
        }
    }

    fn turn(&mut self, pipe: &mut Pipe, ready: Readiness) -> Over {
        if ready.read && reads(pipe) && self.listen(pipe) == Over::Yes {
            return Over::Yes;
        }
        while let Some((call, answer)) = pipe.take_answer() {
            if let Some(number) = self.numbers.remove(&call) {
                return_frame(number, Some(call), &answer, &mut self.outgoing);
            }
        }
        self.look(pipe);
        // The end of the process is noticed by reading, after the frames that it sent before.
        if self.write() == Over::Yes && !ready.read {
            return Over::Yes;
        }
        Over::No
    }
}

/// Whether the child may read more from the process.
fn reads(pipe: &Pipe) -> bool {
    pipe.unsent_calls() < CALLS_WAITING
}

fn refusal(code: &str, message: &str) -> Refusal {
    Refusal {
        code: Text::cut(code),
        message: Text::cut(message),
        rule: None,
        hint: None,
        retry_after_ms: None,
    }
}
