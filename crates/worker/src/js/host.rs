//! The state that the engine's native functions share: the output, the timers, the program's text.
use std::{
    cell::{Cell, OnceCell, RefCell},
    path::PathBuf,
    rc::Rc,
};

use ringfence_wire::Ask;

use super::{
    Again, Language, Outside, Program,
    chance::RandomBytes,
    event_loop::{Rejections, Timers},
    positions::{self, Positions, Trace},
    recall::Recall,
    transpile,
};
use crate::emit::Emitted;

/// The Rust side of one engine. The program's part is set once, when its run begins.
pub(super) struct Host {
    pub(super) workspace: PathBuf,
    pub(super) memory_limit: Option<usize>,
    pub(super) timers: RefCell<Timers>,
    pub(super) rejections: RefCell<Rejections>,
    pub(super) recall: RefCell<Recall>,
    pub(super) emitted: RefCell<Emitted>,
    random: Cell<u64>,
    pub(super) random_bytes: RefCell<RandomBytes>,
    diverged: Cell<bool>,
    run: OnceCell<Run>,
}

struct Run {
    outside: Rc<RefCell<dyn Outside>>,
    source: String,
    file: String,
    language: Language,
    positions: OnceCell<Positions>,
}

/// The two streams that a program writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

impl Host {
    pub(super) fn new(workspace: PathBuf, memory_limit: Option<usize>) -> Self {
        Host {
            workspace,
            memory_limit,
            timers: RefCell::default(),
            rejections: RefCell::default(),
            recall: RefCell::new(Recall::new(&Again::default())),
            emitted: RefCell::default(),
            random: Cell::new(1),
            random_bytes: RefCell::default(),
            diverged: Cell::new(false),
            run: OnceCell::new(),
        }
    }

    pub(super) fn begin(&self, program: &Program<'_>, language: Language, outside: Rc<RefCell<dyn Outside>>) {
        *self.recall.borrow_mut() = Recall::new(&program.again);
        self.random.set(start(program.again.seed));
        *self.random_bytes.borrow_mut() = RandomBytes::new(program.again.seed);
        let run = Run {
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

    pub(super) fn print(&self, stream: Stream, text: &str) {
        if self.has_diverged() {
            return;
        }
        if let Some(run) = self.run.get() {
            let mut output = run.outside.borrow_mut();
            match stream {
                Stream::Stdout => output.stdout(text.as_bytes()),
                Stream::Stderr => output.stderr(text.as_bytes()),
            }
        }
    }

    /// The host that answers the program's calls; `None` before the run begins.
    pub(super) fn outside(&self) -> Option<&Rc<RefCell<dyn Outside>>> {
        self.run.get().map(|run| &run.outside)
    }

    /// An engine's stack, mapped to the original source.
    pub(super) fn trace(&self, stack: &str) -> Trace {
        match self.run.get() {
            Some(run) => positions::trace(stack, &run.file, || run.positions()),
            None => Trace::default(),
        }
    }

    pub(super) fn file(&self) -> &str {
        self.run.get().map_or("", |run| &run.file)
    }

    /// Makes a call; `None` if it cannot be sent.
    pub(super) fn call(&self, ask: Ask, body: String) -> Option<u32> {
        if self.has_diverged() {
            return None;
        }
        self.pass_on_trace();
        let number = self.outside()?.borrow_mut().call(ask, body)?;
        self.recall.borrow_mut().calls(number);
        Some(number)
    }

    /// Reads the program's clock with a resolution of `grain` ticks.
    pub(super) fn clock(&self, grain: u64) -> u64 {
        let mut recall = self.recall.borrow_mut();
        let ticks = recall.read(grain);
        self.diverged.set(recall.has_diverged());
        let much = recall.is_much();
        drop(recall);
        if much {
            self.pass_on_trace();
        }
        ticks
    }

    /// Hands the recorded trace on to the host.
    pub(super) fn pass_on_trace(&self) {
        let recorded = self.recall.borrow_mut().take_recorded();
        if let Some(outside) = self.outside().filter(|_| !recorded.is_empty()) {
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

impl Run {
    fn positions(&self) -> &Positions {
        self.positions
            .get_or_init(|| transpile::positions(&self.source, &self.file, self.language))
    }
}

/// Spreads the seed over all bits, and returns a state that is not 0.
fn start(seed: u64) -> u64 {
    let mut state = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (state ^ (state >> 31)).max(1)
}
