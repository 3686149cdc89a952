//! A host for Python programs: answers their calls in its own order and time, and keeps what is needed to run them again.
use std::collections::HashMap;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use super::{
    BTreeMap, Forked, FrameBuffer, PythonFrame, PythonJob, PythonRemark, PythonResult, Read, Write, Zygote,
    append_return_frame, is_ready, wait_query_frame,
};
use crate::calls::CallAnswer;

/// A small random number generator with a seed, so that a failing program can be generated again.
#[derive(Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most
    }
}

/// Everything that is given to a program.
#[derive(Clone)]
pub(super) struct Start {
    pub(super) source: String,
    pub(super) seed: u64,
    pub(super) clock: u64,
    pub(super) trace: Vec<u8>,
}

/// A call, and the trace recorded before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Called {
    pub(super) what: String,
    pub(super) trace: Vec<u8>,
}

/// What a program did.
#[derive(Debug)]
pub(super) struct Did {
    pub(super) calls: Vec<Called>,
    pub(super) tail: Vec<u8>,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) result: Option<PythonResult>,
    pub(super) unrepeatable: Vec<String>,
    pub(super) waits: Vec<(u32, Option<u64>)>,
    pub(super) emitted: Vec<(String, Option<String>)>,
}

impl Did {
    pub(super) fn whats(&self) -> Vec<&str> {
        self.calls.iter().map(|call| call.what.as_str()).collect()
    }

    /// The trace up to this number of calls, or the whole trace if there are no more.
    pub(super) fn trace(&self, calls: usize) -> Vec<u8> {
        let mut trace: Vec<u8> = self.calls[..calls].iter().flat_map(|call| call.trace.clone()).collect();
        if calls == self.calls.len() {
            trace.extend(&self.tail);
        }
        trace
    }
}

/// The behavior of the host in a test.
pub(super) struct Host {
    pub(super) dice: Dice,
    /// The most milliseconds that it takes to answer.
    pub(super) patience: u64,
    /// Calls it never answers.
    pub(super) silent: fn(&str) -> bool,
    /// How often it sends a wait query, and how many it sends at most.
    pub(super) looks: Option<(Duration, usize)>,
    /// How long a program may be silent before it is ended.
    pub(super) idle: Duration,
}

impl Host {
    pub(super) fn quick(seed: u64) -> Host {
        Host {
            dice: Dice::new(seed),
            patience: 3,
            silent: |_| false,
            looks: None,
            idle: Duration::from_secs(10),
        }
    }
}

/// The answer is a function of the call alone, as if it came from a recording.
fn answer(what: &str) -> CallAnswer {
    if what.contains("refuse") {
        return Err(ringfence_wire::CallFailure {
            code: ringfence_wire::BoundedText::truncated("policy.denied"),
            message: ringfence_wire::BoundedText::truncated("no"),
            rule: None,
            hint: None,
            retry_after_ms: (!what.contains("for_good")).then_some(1500),
        });
    }
    let sum = what
        .bytes()
        .fold(7_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    Ok(format!("{{\"sum\":{sum}}}"))
}

/// Runs a program to its end, or until it has been idle for too long.
pub(super) fn run(zygote: &Zygote, start: &Start, host: Host) -> Did {
    let workspace = tempfile::tempdir().unwrap();
    let mut child = zygote.fork(&[], &[]);
    let mut frames = FrameBuffer::new(64 << 20);
    assert!(is_ready(&frames.read_frame(&mut child.stream).unwrap().unwrap()));
    let job = PythonJob {
        source: &start.source,
        file_name: "program.py",
        args: &[],
        input: None,
        env: &BTreeMap::new(),
        workspace: workspace.path(),
        deps: workspace.path(),
        seed: start.seed,
        clock: start.clock,
        trace: &start.trace,
        network: false,
    };
    child.stream.write_all(&job.to_frame().unwrap()).unwrap();
    let mut did = follow(&mut child, frames, host);
    if did.result.is_none() {
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(child.pid).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
    }
    child.stdout.read_to_string(&mut did.stdout).unwrap();
    child.stderr.read_to_string(&mut did.stderr).unwrap();
    zygote.reap(child.pid);
    let place = workspace.path().to_str().unwrap();
    did.stdout = did.stdout.replace(place, "/workspace");
    did
}

fn follow(child: &mut Forked, mut frames: FrameBuffer, mut host: Host) -> Did {
    let mut did = Did {
        calls: Vec::new(),
        tail: Vec::new(),
        stdout: String::new(),
        stderr: String::new(),
        result: None,
        unrepeatable: Vec::new(),
        waits: Vec::new(),
        emitted: Vec::new(),
    };
    let mut due: HashMap<u64, (Instant, String)> = HashMap::new();
    let mut last = Instant::now();
    let mut looked = (Instant::now(), 0);
    child.stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let mut chunk = vec![0; 64 * 1024];
    while last.elapsed() < host.idle {
        match child.stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => {
                frames.feed(&chunk[..count]);
                last = Instant::now();
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => panic!("{error}"),
        }
        while let Some(frame) = frames.next_frame().unwrap() {
            if let Some((number, what)) = hear(&mut did, &frame)
                && !(host.silent)(&what)
            {
                let delay = Duration::from_micros(host.dice.below(host.patience * 1000 + 1));
                due.insert(number, (Instant::now() + delay, what));
            }
        }
        if did.result.is_some() {
            break;
        }
        let mut out = Vec::new();
        let now = Instant::now();
        let mut ready: Vec<u64> = due
            .iter()
            .filter(|(_, (at, _))| *at <= now)
            .map(|(number, _)| *number)
            .collect();
        ready.sort_by_key(|number| due[number].0);
        for number in ready {
            let (_, what) = due.remove(&number).unwrap();
            append_return_frame(number, u32::try_from(number).ok(), &answer(&what), &mut out);
        }
        if let Some((every, most)) = host.looks
            && looked.0.elapsed() > every
            && looked.1 < most
        {
            looked = (now, looked.1 + 1);
            wait_query_frame(&mut out);
        }
        if child.stream.write_all(&out).is_err() {
            break;
        }
    }
    did
}

fn hear(did: &mut Did, frame: &[u8]) -> Option<(u64, String)> {
    match PythonFrame::read(frame).unwrap() {
        PythonFrame::Call(call) => {
            let what = format!("{}.{}{}", call.server, call.tool, call.body);
            let mut trace = std::mem::take(&mut did.tail);
            trace.extend(call.trace);
            did.calls.push(Called {
                what: what.clone(),
                trace,
            });
            return Some((call.call, what));
        }
        PythonFrame::Remark(PythonRemark::Trace(piece)) => did.tail.extend(piece),
        PythonFrame::Remark(PythonRemark::Waits { open, due }) => did.waits.push((open, due)),
        PythonFrame::Remark(PythonRemark::Unrepeatable(why)) => did.unrepeatable.push(why),
        PythonFrame::Remark(PythonRemark::Emit { path, media_type }) => did.emitted.push((path, media_type)),
        PythonFrame::Result(result) => did.result = Some(result),
    }
    None
}
