//! What the engine's native functions share: the output, the timers, the program's text.
use std::{
    cell::{Cell, OnceCell, RefCell},
    path::PathBuf,
    rc::Rc,
};

use super::{
    Language, Outside, Program,
    event_loop::{Rejections, Timers},
    positions::{self, Positions, Trace},
    transpile,
};

/// The Rust side of one engine. The program's part is set once, when its run begins.
pub(super) struct Host {
    pub(super) workspace: PathBuf,
    pub(super) memory_limit: Option<usize>,
    pub(super) timers: RefCell<Timers>,
    pub(super) rejections: RefCell<Rejections>,
    random: Cell<u64>,
    run: OnceCell<Run>,
}

struct Run {
    outside: Rc<RefCell<dyn Outside>>,
    source: String,
    file: String,
    language: Language,
    positions: OnceCell<Positions>,
}

/// The two streams a program writes to.
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
            random: Cell::new(0),
            run: OnceCell::new(),
        }
    }

    pub(super) fn begin(&self, program: &Program<'_>, language: Language, outside: Rc<RefCell<dyn Outside>>) {
        let run = Run {
            outside,
            source: program.source.to_owned(),
            file: program.file_name.replace('\0', ""),
            language,
            positions: OnceCell::new(),
        };
        // `Engine::run` takes the engine, so a second beginning cannot happen.
        let first = self.run.set(run).is_ok();
        debug_assert!(first, "an engine runs one program");
    }

    pub(super) fn print(&self, stream: Stream, text: &str) {
        if let Some(run) = self.run.get() {
            let mut output = run.outside.borrow_mut();
            match stream {
                Stream::Stdout => output.stdout(text.as_bytes()),
                Stream::Stderr => output.stderr(text.as_bytes()),
            }
        }
    }

    /// Who answers the program's calls, once it runs.
    pub(super) fn outside(&self) -> Option<&Rc<RefCell<dyn Outside>>> {
        self.run.get().map(|run| &run.outside)
    }

    /// An engine stack in terms of the original source.
    pub(super) fn trace(&self, stack: &str) -> Trace {
        match self.run.get() {
            Some(run) => positions::trace(stack, &run.file, || run.positions()),
            None => Trace::default(),
        }
    }

    pub(super) fn file(&self) -> &str {
        self.run.get().map_or("", |run| &run.file)
    }

    /// A number in [0, 1). Seeded on first use, so that engines forked from one parent differ.
    pub(super) fn random(&self) -> f64 {
        let mut state = self.random.get();
        if state == 0 {
            state = getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id())) | 1;
        }
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
