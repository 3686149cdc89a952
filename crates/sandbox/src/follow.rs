//! Follows a running execution: sends the job, receives output and calls, and checks limits.

use std::time::Duration;

use ringfence_jail::cgroup::Leaf;
use ringfence_jail::{Stopped, SyscallListener};
use ringfence_wire::Stream;
use tokio::io::unix::AsyncFd;
use tokio::time;

use crate::clock::Clock;
use crate::door::Asked;
use crate::exchange::Exchange;
use crate::execution::{Output, Prepared, RunError, Stop, Task, Words};
use crate::feed::Feed;
use crate::hold::Hold;
use crate::pipe::{PipeError, Progress, Receiver};
use crate::running::Sandbox;
use crate::verdict::{Limit, Verdict, Violation};
use crate::watch::Watch;

/// How often the host checks limits that the kernel does not enforce.
const TICK: Duration = Duration::from_millis(50);
/// Output is cut at the limit; a program that writes this many times the limit is flooding.
const FLOOD: u64 = 16;
/// After this many turns of its loop an execution yields to the runtime.
const TURNS: u32 = 16;
/// How many violations are listed; the rest is only counted.
const MOST_VIOLATIONS: usize = 32;

/// What the host observed of a run, before it judges the end.
#[derive(Debug)]
pub(crate) struct Followed {
    pub(crate) verdict: Verdict,
    pub(crate) value: Vec<u8>,
    pub(crate) written: (u64, u64),
    pub(crate) wall: Duration,
    pub(crate) violations: Violations,
    pub(crate) watched: Watch,
    pub(crate) unanswered: Vec<u32>,
}

/// Receives what the child sends.
struct Taken<'a> {
    words: &'a mut dyn Words,
    most: u64,
    written: (u64, u64),
    value: Vec<u8>,
    exchange: Exchange,
}

impl Taken<'_> {
    fn floods(&self) -> bool {
        self.written.0.max(self.written.1) > self.most.saturating_mul(FLOOD)
    }
}

impl Receiver for Taken<'_> {
    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        let (output, written) = match stream {
            Stream::Value => return self.value.extend_from_slice(bytes),
            Stream::Stderr => (Output::Stderr, &mut self.written.1),
            Stream::Stdout | Stream::Source | Stream::Stdin | Stream::Asked | Stream::Answered => {
                (Output::Stdout, &mut self.written.0)
            }
        };
        let room = usize::try_from(self.most.saturating_sub(*written)).unwrap_or(usize::MAX);
        *written += bytes.len() as u64;
        let part = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        if !part.is_empty() {
            self.words.take(output, part);
        }
    }

    fn asked(&mut self, asked: Asked) {
        self.exchange.take(asked);
    }

    fn unrepeatable(&mut self, why: &str) {
        self.words.unrepeatable(why);
    }

    fn is_full(&self) -> bool {
        self.exchange.is_full()
    }
}

/// A handler for a child that has no job yet and so nothing to send.
pub(crate) struct Nobody;

impl Receiver for Nobody {
    fn output(&mut self, _stream: Stream, _bytes: &[u8]) {}

    fn asked(&mut self, _asked: Asked) {}

    fn unrepeatable(&mut self, _why: &str) {}

    fn is_full(&self) -> bool {
        false
    }
}

#[derive(Debug, Default)]
pub(crate) struct Violations {
    pub(crate) listed: Vec<Violation>,
    pub(crate) more: u64,
}

/// Sends the job and follows the execution to its end.
pub(crate) async fn follow(
    sandbox: &Sandbox,
    prepared: &mut Prepared,
    mut task: Task,
    words: &mut dyn Words,
    stop: &mut Stop,
) -> Result<Followed, RunError> {
    let limits = &sandbox.spec.limits;
    let wall = task.wall.map_or(limits.wall, |wall| wall.min(limits.wall));
    let hold = Hold::new(task.door.as_ref());
    let taken = Taken {
        words,
        most: limits.output.get(),
        written: (0, 0),
        value: Vec::new(),
        exchange: Exchange::new(task.door.take()),
    };
    let feed = Feed::begin(&mut prepared.pipe, sandbox, task)?;
    let mut course = Course {
        sandbox,
        taken,
        feed,
        hold,
        clock: Clock::start(wall, sandbox.lifetime_left(), limits.cpu.as_millis()),
        watched: Watch::new(sandbox),
        violations: Violations::default(),
    };
    let verdict = match course.run(prepared, stop).await {
        // Invalid data on the pipe is an attack or a crash: the execution is over either way, and that is its result.
        Err(RunError::Pipe(error)) if error.is_the_childs() => {
            tracing::warn!(%error, "an execution broke the protocol");
            course.taken.value.clear();
            Verdict::Died
        }
        verdict => verdict?,
    };
    prepared.pipe.end_tunnels();
    if !prepared.leaf.as_ref().is_some_and(Leaf::counts_memory) {
        // The last check of its processes, while they still exist.
        course.watched.note_processes(sandbox);
    }
    Ok(Followed {
        verdict,
        value: course.taken.value,
        written: course.taken.written,
        wall: course.clock.counted(),
        violations: course.violations,
        watched: course.watched,
        unanswered: course.taken.exchange.into_unanswered(),
    })
}

/// The state of an execution while the host follows it.
struct Course<'a> {
    sandbox: &'a Sandbox,
    taken: Taken<'a>,
    feed: Feed,
    hold: Hold,
    clock: Clock,
    watched: Watch,
    violations: Violations,
}

impl Course<'_> {
    async fn run(&mut self, prepared: &mut Prepared, stop: &mut Stop) -> Result<Verdict, RunError> {
        let deadline = self.clock.sleep();
        tokio::pin!(deadline);
        let mut tick = time::interval_at(time::Instant::now() + TICK, TICK);
        tick.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
        let mut turns = 0u32;
        loop {
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(TURNS) {
                // A branch that is always ready must not starve the clock and the sockets.
                tokio::task::yield_now().await;
            }
            let Prepared { pipe, leaf, .. } = &mut *prepared;
            let taken = &mut self.taken;
            taken.exchange.hand_over(pipe);
            if !taken.exchange.is_full() {
                pipe.take_more_calls();
            }
            self.clock.waits(taken.exchange.is_pending());
            self.feed.pump(pipe)?;
            pipe.serve_tunnels();
            pipe.send()?;
            if let Some(released) = self.hold.turn(pipe, &taken.exchange)? {
                return Ok(released);
            }
            tokio::select! {
                // In this order, a requested end is never late because of a flood.
                biased;
                () = stop.pulled() => return Ok(stop.verdict()),
                () = &mut deadline => {
                    if let Some(limit) = self.watched.look(self.sandbox, leaf.as_ref())? {
                        return Ok(Verdict::Limit(limit));
                    }
                    self.clock.look(self.watched.cpu());
                    if self.clock.is_over() {
                        return Ok(Verdict::Limit(Limit::Wall));
                    }
                    deadline.set(self.clock.sleep());
                }
                _ = tick.tick() => {
                    if let Some(limit) = self.watched.look(self.sandbox, leaf.as_ref())? {
                        return Ok(Verdict::Limit(limit));
                    }
                    self.clock.look(self.watched.cpu());
                }
                stopped = next_stopped(&self.sandbox.listener) => self.violations.note(stopped?, taken.words),
                event = taken.exchange.next(pipe), if taken.exchange.expects(pipe) => {
                    taken.exchange.act(event, pipe);
                }
                // When replies wait for the child to read, its messages must be read as well, else neither side would
                // continue.
                readable = pipe.readable(), if !taken.exchange.is_full() || !pipe.takes_answers() => {
                    readable.map_err(PipeError::Socket)?;
                    let progress = pipe.receive(taken)?;
                    if taken.floods() {
                        return Ok(Verdict::Limit(Limit::Output));
                    }
                    if progress == Progress::Over {
                        return Ok(Verdict::Finished);
                    }
                }
                writable = pipe.writable(), if pipe.wants_to_write() => writable.map_err(PipeError::Socket)?,
                () = self.hold.stirs() => {}
                () = pipe.tunnels_stir(), if pipe.has_tunnels() => {}
                piece = self.feed.next_piece(), if self.feed.wants_a_piece(pipe) => self.feed.take(piece),
            }
        }
    }
}

async fn next_stopped(listener: &AsyncFd<SyscallListener>) -> Result<Stopped, RunError> {
    loop {
        let mut guard = listener.readable().await.map_err(RunError::Watch)?;
        match guard.get_inner().refuse_next().map_err(RunError::Watch)? {
            Some(stopped) => return Ok(stopped),
            None => guard.clear_ready(),
        }
    }
}

impl Violations {
    fn note(&mut self, stopped: Stopped, words: &mut dyn Words) {
        if self.listed.len() >= MOST_VIOLATIONS {
            self.more += 1;
            return;
        }
        let detail = stopped
            .name()
            .map_or_else(|| format!("system call {}", stopped.number), str::to_owned);
        let violation = Violation {
            kind: "syscall",
            detail,
            rule: "proc.syscalls",
        };
        words.tried(&violation);
        self.listed.push(violation);
    }
}
