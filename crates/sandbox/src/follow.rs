//! Follows a running execution: sends the job, receives output and calls, and checks limits.

use std::time::Duration;

use ringfence_wire::PipeStream;
use tokio::time;

use crate::call_exchange::CallExchange;
use crate::call_port::ToolCall;
use crate::clock::WallClock;
use crate::execution::{ExecutionError, ExecutionTask, OutputSink, PreparedChild, StandardStream, Stop};
use crate::feed::InputFeed;
use crate::pipe::{ChildHandler, PipeError, PipeProgress};
use crate::sandbox::Sandbox;
use crate::suspend::SuspendCheck;
use crate::verdict::{ExecutionLimit, Verdict, Violation};

/// How often the host checks limits that the kernel does not enforce.
const TICK_INTERVAL: Duration = Duration::from_millis(50);
/// Output is cut at the limit; a program that writes this many times the limit is flooding.
const FLOOD_FACTOR: u64 = 16;
/// After this many turns of its loop an execution yields to the runtime.
const TURNS_PER_YIELD: u32 = 16;
/// How many violations are listed; the rest is only counted.
const MAX_VIOLATIONS: usize = 32;

/// What the host observed of a run, before it judges the end.
#[derive(Debug)]
pub(crate) struct ObservedRun {
    pub(crate) verdict: Verdict,
    pub(crate) value: Vec<u8>,
    pub(crate) output_bytes: (u64, u64),
    pub(crate) wall: Duration,
    pub(crate) violations: ViolationLog,
    pub(crate) unanswered: Vec<u32>,
}

/// Receives what the child sends.
struct ChildOutput<'a> {
    sink: &'a mut dyn OutputSink,
    max_output: u64,
    output_bytes: (u64, u64),
    value: Vec<u8>,
    exchange: CallExchange,
}

impl ChildOutput<'_> {
    fn floods(&self) -> bool {
        self.output_bytes.0.max(self.output_bytes.1) > self.max_output.saturating_mul(FLOOD_FACTOR)
    }
}

impl ChildHandler for ChildOutput<'_> {
    fn on_output(&mut self, stream: PipeStream, bytes: &[u8]) {
        let (output, written) = match stream {
            PipeStream::Value => return self.value.extend_from_slice(bytes),
            PipeStream::Stderr => (StandardStream::Stderr, &mut self.output_bytes.1),
            PipeStream::Stdout
            | PipeStream::Source
            | PipeStream::Stdin
            | PipeStream::CallBodies
            | PipeStream::ReplyBodies => (StandardStream::Stdout, &mut self.output_bytes.0),
        };
        let room = usize::try_from(self.max_output.saturating_sub(*written)).unwrap_or(usize::MAX);
        *written += bytes.len() as u64;
        let part = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        if !part.is_empty() {
            self.sink.on_output(output, part);
        }
    }

    fn on_call(&mut self, asked: ToolCall) {
        self.exchange.queue_call(asked);
    }

    fn on_unrepeatable(&mut self, why: &str) {
        self.sink.on_unrepeatable(why);
    }

    fn is_full(&self) -> bool {
        self.exchange.is_full()
    }
}

/// A handler for a child that has no job yet and so nothing to send.
pub(crate) struct IgnoreChild;

impl ChildHandler for IgnoreChild {
    fn on_output(&mut self, _stream: PipeStream, _bytes: &[u8]) {}

    fn on_call(&mut self, _asked: ToolCall) {}

    fn on_unrepeatable(&mut self, _why: &str) {}

    fn is_full(&self) -> bool {
        false
    }
}

#[derive(Debug, Default)]
pub(crate) struct ViolationLog {
    pub(crate) listed: Vec<Violation>,
    pub(crate) more: u64,
}

/// Sends the job and follows the execution to its end.
pub(crate) async fn follow_execution(
    sandbox: &mut Sandbox,
    prepared: &mut PreparedChild,
    mut task: ExecutionTask,
    words: &mut dyn OutputSink,
    stop: &mut Stop,
) -> Result<ObservedRun, ExecutionError> {
    let limits = &sandbox.spec.limits;
    let wall = task.wall.map_or(limits.wall, |wall| wall.min(limits.wall));
    let hold = SuspendCheck::new(task.call_port.as_ref());
    let taken = ChildOutput {
        sink: words,
        max_output: limits.output.get(),
        output_bytes: (0, 0),
        value: Vec::new(),
        exchange: CallExchange::new(task.call_port.take()),
    };
    let feed = InputFeed::begin(&mut prepared.pipe, sandbox, task)?;
    let clock = WallClock::start(wall, sandbox.lifetime_left(), limits.cpu.as_millis());
    sandbox.inner.begin_watch();
    let mut course = FollowedExecution {
        sandbox,
        output: taken,
        feed,
        suspend_check: hold,
        clock,
        violations: ViolationLog::default(),
    };
    let verdict = match course.run(prepared, stop).await {
        // Invalid data on the pipe is an attack or a crash: the execution is over either way, and that is its result.
        Err(ExecutionError::Pipe(error)) if error.is_child_fault() => {
            tracing::warn!(%error, "an execution broke the protocol");
            course.output.value.clear();
            Verdict::Died
        }
        verdict => verdict?,
    };
    prepared.pipe.end_tunnels();
    if !course.sandbox.inner.counts_memory() {
        // The last check of its processes, while they still exist.
        course.sandbox.inner.note_processes();
    }
    Ok(ObservedRun {
        verdict,
        value: course.output.value,
        output_bytes: course.output.output_bytes,
        wall: course.clock.counted_time(),
        violations: course.violations,
        unanswered: course.output.exchange.into_unanswered(),
    })
}

/// The state of an execution while the host follows it.
struct FollowedExecution<'a> {
    sandbox: &'a mut Sandbox,
    output: ChildOutput<'a>,
    feed: InputFeed,
    suspend_check: SuspendCheck,
    clock: WallClock,
    violations: ViolationLog,
}

impl FollowedExecution<'_> {
    async fn run(&mut self, prepared: &mut PreparedChild, stop: &mut Stop) -> Result<Verdict, ExecutionError> {
        let deadline = self.clock.sleep();
        tokio::pin!(deadline);
        let mut tick = time::interval_at(time::Instant::now() + TICK_INTERVAL, TICK_INTERVAL);
        tick.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
        let mut turns = 0u32;
        loop {
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(TURNS_PER_YIELD) {
                // A branch that is always ready must not starve the clock and the sockets.
                tokio::task::yield_now().await;
            }
            let pipe = &mut prepared.pipe;
            let taken = &mut self.output;
            taken.exchange.send_waiting(pipe);
            if !taken.exchange.is_full() {
                pipe.grant_more_calls();
            }
            self.clock.set_waiting(taken.exchange.is_pending());
            self.feed.send_pending(pipe)?;
            pipe.serve_tunnels();
            pipe.send()?;
            if let Some(released) = self.suspend_check.poll(pipe, &taken.exchange)? {
                return Ok(released);
            }
            tokio::select! {
                // In this order, a requested end is never late because of a flood.
                biased;
                () = stop.cancelled() => return Ok(stop.verdict()),
                () = &mut deadline => {
                    if let Some(limit) = self.sandbox.inner.check_limits()? {
                        return Ok(Verdict::Limit(limit));
                    }
                    self.clock.update_cpu(self.sandbox.inner.cpu_time());
                    if self.clock.is_over() {
                        return Ok(Verdict::Limit(ExecutionLimit::Wall));
                    }
                    deadline.set(self.clock.sleep());
                }
                _ = tick.tick() => {
                    if let Some(limit) = self.sandbox.inner.check_limits()? {
                        return Ok(Verdict::Limit(limit));
                    }
                    self.clock.update_cpu(self.sandbox.inner.cpu_time());
                }
                refused = self.sandbox.inner.next_violation() => self.violations.add(refused?, taken.sink),
                event = taken.exchange.next_event(pipe), if taken.exchange.has_pending_events(pipe) => {
                    taken.exchange.handle_event(event, pipe);
                }
                // When replies wait for the child to read, its messages must be read as well, else neither side would
                // continue.
                readable = pipe.readable(), if !taken.exchange.is_full() || !pipe.can_take_replies() => {
                    readable.map_err(PipeError::Socket)?;
                    let progress = pipe.receive(taken)?;
                    if taken.floods() {
                        return Ok(Verdict::Limit(ExecutionLimit::Output));
                    }
                    if progress == PipeProgress::Over {
                        return Ok(Verdict::Finished);
                    }
                }
                writable = pipe.writable(), if pipe.wants_to_write() => writable.map_err(PipeError::Socket)?,
                () = self.suspend_check.wait_for_change() => {}
                () = pipe.wait_for_tunnels(), if pipe.has_tunnels() => {}
                piece = self.feed.next_stdin(), if self.feed.wants_stdin(pipe) => self.feed.push_stdin(piece),
            }
        }
    }
}

impl ViolationLog {
    fn add(&mut self, violation: Violation, words: &mut dyn OutputSink) {
        if self.listed.len() >= MAX_VIOLATIONS {
            self.more += 1;
            return;
        }
        words.on_violation(&violation);
        self.listed.push(violation);
    }
}
