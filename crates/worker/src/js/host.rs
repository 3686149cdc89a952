//! The state that the engine's native functions share: the output, the timers, the program's text.
use std::{
    cell::{Cell, OnceCell, RefCell},
    path::PathBuf,
    rc::Rc,
};

use ringfence_wire::CallTarget;

use super::{
    EngineHost, JsProgram, ReplayInput, ScriptLanguage,
    event_loop::{RejectionTracker, TimerQueue},
    positions::{self, MappedStack, SourceMap},
    random::RandomBytes,
    replay::ReplayLog,
    transpile,
};
use crate::emit::EmitLog;

/// The Rust side of one engine. The program's part is set once, when its run begins.
pub(super) struct NativeState {
    pub(super) workspace: PathBuf,
    pub(super) memory_limit: Option<usize>,
    pub(super) timers: RefCell<TimerQueue>,
    pub(super) rejections: RefCell<RejectionTracker>,
    pub(super) recall: RefCell<ReplayLog>,
    pub(super) emitted: RefCell<EmitLog>,
    random: Cell<u64>,
    pub(super) random_bytes: RefCell<RandomBytes>,
    diverged: Cell<bool>,
    run: OnceCell<JsRun>,
}

struct JsRun {
    outside: Rc<RefCell<dyn EngineHost>>,
    source: String,
    file: String,
    language: ScriptLanguage,
    positions: OnceCell<SourceMap>,
}

/// The two streams that a program writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConsoleStream {
    Stdout,
    Stderr,
}

impl NativeState {
    pub(super) fn new(workspace: PathBuf, memory_limit: Option<usize>) -> Self {
        NativeState {
            workspace,
            memory_limit,
            timers: RefCell::default(),
            rejections: RefCell::default(),
            recall: RefCell::new(ReplayLog::new(&ReplayInput::default())),
            emitted: RefCell::default(),
            random: Cell::new(1),
            random_bytes: RefCell::default(),
            diverged: Cell::new(false),
            run: OnceCell::new(),
        }
    }

    pub(super) fn begin(
        &self,
        program: &JsProgram<'_>,
        language: ScriptLanguage,
        outside: Rc<RefCell<dyn EngineHost>>,
    ) {
        *self.recall.borrow_mut() = ReplayLog::new(&program.replay);
        self.random.set(spread_seed(program.replay.seed));
        *self.random_bytes.borrow_mut() = RandomBytes::new(program.replay.seed);
        let run = JsRun {
            outside,
            source: program.source.to_owned(),
            file: program.file_name.replace('\0', ""),
            language,
            positions: OnceCell::new(),
        };
        // A run consumes the engine, so a second one cannot begin.
        let first = self.run.set(run).is_ok();
        debug_assert!(first, "an engine runs one program");
    }

    pub(super) fn print(&self, stream: ConsoleStream, text: &str) {
        if self.has_diverged() {
            return;
        }
        if let Some(run) = self.run.get() {
            let mut output = run.outside.borrow_mut();
            match stream {
                ConsoleStream::Stdout => output.stdout(text.as_bytes()),
                ConsoleStream::Stderr => output.stderr(text.as_bytes()),
            }
        }
    }

    /// The host that answers the program's calls; `None` before the run begins.
    pub(super) fn engine_host(&self) -> Option<&Rc<RefCell<dyn EngineHost>>> {
        self.run.get().map(|run| &run.outside)
    }

    /// An engine's stack, mapped to the original source.
    pub(super) fn map_stack(&self, stack: &str) -> MappedStack {
        match self.run.get() {
            Some(run) => positions::map_stack(stack, &run.file, || run.positions()),
            None => MappedStack::default(),
        }
    }

    pub(super) fn file(&self) -> &str {
        self.run.get().map_or("", |run| &run.file)
    }

    /// Makes a call; `None` if it cannot be sent.
    pub(super) fn call(&self, ask: CallTarget, body: String) -> Option<u32> {
        if self.has_diverged() {
            return None;
        }
        self.send_trace();
        let number = self.engine_host()?.borrow_mut().call(ask, body)?;
        self.recall.borrow_mut().note_call(number);
        Some(number)
    }

    /// Reads the program's clock with a resolution of `grain` ticks.
    pub(super) fn read_clock(&self, grain: u64) -> u64 {
        let mut recall = self.recall.borrow_mut();
        let ticks = recall.read_clock(grain);
        self.diverged.set(recall.has_diverged());
        let much = recall.is_chunk_full();
        drop(recall);
        if much {
            self.send_trace();
        }
        ticks
    }

    /// Hands the recorded trace on to the host.
    pub(super) fn send_trace(&self) {
        let recorded = self.recall.borrow_mut().take_recorded();
        if let Some(outside) = self.engine_host().filter(|_| !recorded.is_empty()) {
            outside.borrow_mut().trace(&recorded);
        }
    }

    /// Whether the program did something other than its trace says. Nothing that it does from then on has an effect.
    pub(super) fn has_diverged(&self) -> bool {
        self.diverged.get()
    }

    /// A number in [0, 1), drawn from the seed: the same numbers come when the program is run again. Not for keys.
    pub(super) fn random(&self) -> f64 {
        let mut state = self.random.get();
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.random.set(state);
        let bits = state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 12;
        f64::from_bits(0x3FF0_0000_0000_0000 | bits) - 1.0
    }
}

impl JsRun {
    fn positions(&self) -> &SourceMap {
        self.positions
            .get_or_init(|| transpile::source_map(&self.source, &self.file, self.language))
    }
}

/// Spreads the seed over all bits, and returns a state that is not 0.
fn spread_seed(seed: u64) -> u64 {
    let mut state = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (state ^ (state >> 31)).max(1)
}
