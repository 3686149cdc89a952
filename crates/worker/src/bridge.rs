//! Connects a Python process with the host: forwards its calls, returns their answers, and ends with its result.
//!
//! The frames of the process are hostile: an invalid one ends the execution. The child never blocks on a write to the
//! process, so neither side can keep the other from reading.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use ringfence_jail::inside::{Interest, Readiness};
use ringfence_wire::{BoundedText, CallFailure, CallTarget, EmittedFile, MAX_BODY_BYTES};

use crate::emit::{self, EmitLog};
use crate::pipe::ChildPipe;
use crate::python::{
    FrameBuffer, PythonCall, PythonFrame, PythonRemark, PythonResult, append_return_frame, wait_query_frame,
};
use crate::relay::{RelayProgress, RelayedProcess};

/// The most bytes that are read at a time.
const CHUNK_BYTES: usize = 64 * 1024;
/// The child stops reading from the process while this many of its calls are queued.
const MAX_WAITING_CALLS: usize = 1024;

/// The connection to one Python process.
#[derive(Debug)]
pub(crate) struct PythonBridge {
    stream: UnixStream,
    frames: FrameBuffer,
    /// The process's own number of each open call, by the child's number.
    numbers: HashMap<u32, u64>,
    outgoing: Vec<u8>,
    written: usize,
    chunk: Vec<u8>,
    /// The process has a wait query and has not answered it.
    wait_query_open: bool,
    emitted: EmitLog,
    result: Option<PythonResult>,
}

impl PythonBridge {
    pub(crate) fn new(stream: UnixStream, frames: FrameBuffer) -> io::Result<PythonBridge> {
        stream.set_nonblocking(true)?;
        Ok(PythonBridge {
            stream,
            frames,
            numbers: HashMap::new(),
            outgoing: Vec::new(),
            written: 0,
            chunk: vec![0; CHUNK_BYTES],
            wait_query_open: false,
            emitted: EmitLog::default(),
            result: None,
        })
    }

    /// The result that the process sent, or `None` if it ended without one.
    pub(crate) fn into_result(self) -> Option<PythonResult> {
        self.result
    }

    fn read_frames(&mut self, pipe: &mut ChildPipe) -> RelayProgress {
        match self.stream.read(&mut self.chunk) {
            Ok(count @ 1..) => self.frames.feed(self.chunk.get(..count).unwrap_or_default()),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return RelayProgress::Running;
            }
            Ok(_) | Err(_) => return RelayProgress::Ended,
        }
        loop {
            let frame = match self.frames.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => return RelayProgress::Running,
                Err(_) => return RelayProgress::Ended,
            };
            match PythonFrame::read(&frame) {
                Ok(PythonFrame::Call(call)) => self.forward_call(pipe, &call),
                Ok(PythonFrame::Remark(remark)) => {
                    if self.handle_remark(pipe, remark) == RelayProgress::Ended {
                        return RelayProgress::Ended;
                    }
                }
                Ok(PythonFrame::Result(result)) => {
                    self.result = Some(result);
                    return RelayProgress::Ended;
                }
                Err(_) => return RelayProgress::Ended,
            }
        }
    }

    fn forward_call(&mut self, pipe: &mut ChildPipe, call: &PythonCall<'_>) {
        let ask = match call.ask.as_ref() {
            "search" => Ok(CallTarget::Search),
            "describe" => Ok(CallTarget::Describe),
            "list" => Ok(CallTarget::List),
            _ => match (BoundedText::try_from(&*call.server), BoundedText::try_from(&*call.tool)) {
                (Ok(server), Ok(tool)) => Ok(CallTarget::Tool { server, tool }),
                _ => Err(refusal("tool.unknown", "there is no tool with so long a name")),
            },
        };
        pipe.record_trace(&call.trace);
        let made = ask.and_then(|ask| {
            let long = || {
                refusal(
                    "call.too_large",
                    &format!("the arguments are longer than {} MiB", MAX_BODY_BYTES >> 20),
                )
            };
            pipe.call(ask, call.body.get().to_owned()).ok_or_else(long)
        });
        match made {
            Ok(number) => {
                self.numbers.insert(number, call.call);
            }
            // The call was never made, so the host has no number for it.
            Err(refusal) => append_return_frame(call.call, None, &Err(refusal), &mut self.outgoing),
        }
    }

    fn handle_remark(&mut self, pipe: &mut ChildPipe, remark: PythonRemark) -> RelayProgress {
        match remark {
            PythonRemark::Trace(piece) => pipe.record_trace(&piece),
            PythonRemark::Unrepeatable(why) => pipe.mark_unrepeatable(&why),
            PythonRemark::Waits { open, due } => {
                // If an answer has gone out since, the process no longer waits, and gets the query again.
                let open = usize::try_from(open).unwrap_or(usize::MAX);
                if std::mem::take(&mut self.wait_query_open) && open == self.numbers.len() && self.outgoing.is_empty() {
                    pipe.report_wait(due);
                }
            }
            PythonRemark::Emit { path, media_type } => return self.forward_emit(pipe, &path, media_type.as_deref()),
        }
        RelayProgress::Running
    }

    /// The process checks its files itself, so an invalid one does not come from our code and ends the execution.
    fn forward_emit(&mut self, pipe: &mut ChildPipe, path: &str, media_type: Option<&str>) -> RelayProgress {
        let media_type = media_type.unwrap_or_else(|| emit::media_type(path));
        match EmittedFile::new(path, media_type) {
            Ok(emit) if self.emitted.accepts(&emit) => {
                if self.emitted.add(&emit) {
                    pipe.emit(emit);
                }
                RelayProgress::Running
            }
            Ok(_) | Err(_) => RelayProgress::Ended,
        }
    }

    /// Sends the host's wait query to the process, once every call has left.
    fn send_wait_query(&mut self, pipe: &ChildPipe) {
        if pipe.is_wait_queried() && !self.wait_query_open && pipe.unsent_calls() == 0 {
            self.wait_query_open = true;
            wait_query_frame(&mut self.outgoing);
        }
    }

    /// Writes as much as the process has capacity for.
    fn flush(&mut self) -> RelayProgress {
        while self.written < self.outgoing.len() {
            match self.stream.write(self.outgoing.get(self.written..).unwrap_or_default()) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return RelayProgress::Running,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return RelayProgress::Ended,
            }
        }
        self.outgoing.clear();
        self.written = 0;
        RelayProgress::Running
    }
}

impl AsFd for PythonBridge {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl RelayedProcess for PythonBridge {
    fn interest(&self, pipe: &ChildPipe) -> Option<Interest> {
        match (may_read(pipe), self.written < self.outgoing.len()) {
            (true, true) => Some(Interest::ReadAndWrite),
            (true, false) => Some(Interest::Read),
            (false, true) => Some(Interest::Write),
            (false, false) => None,
        }
    }

    fn on_ready(&mut self, pipe: &mut ChildPipe, ready: Readiness) -> RelayProgress {
        if ready.read && may_read(pipe) && self.read_frames(pipe) == RelayProgress::Ended {
            return RelayProgress::Ended;
        }
        while let Some((call, answer)) = pipe.take_answer() {
            if let Some(number) = self.numbers.remove(&call) {
                append_return_frame(number, Some(call), &answer, &mut self.outgoing);
            }
        }
        self.send_wait_query(pipe);
        // The end of the process is noticed by reading, after the frames that it sent before.
        if self.flush() == RelayProgress::Ended && !ready.read {
            return RelayProgress::Ended;
        }
        RelayProgress::Running
    }
}

/// Whether the child may read more from the process.
fn may_read(pipe: &ChildPipe) -> bool {
    pipe.unsent_calls() < MAX_WAITING_CALLS
}

fn refusal(code: &str, message: &str) -> CallFailure {
    CallFailure {
        code: BoundedText::truncated(code),
        message: BoundedText::truncated(message),
        rule: None,
        hint: None,
        retry_after_ms: None,
    }
}
