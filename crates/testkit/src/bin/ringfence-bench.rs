//! The benchmark of confined programs: medians, all in one run, beside their peers. `--brief` runs it for correctness only.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "the table is the output")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ringfence_sandbox::{Language, Native, Pool};
use ringfence_testkit::doors::Program;
use ringfence_testkit::peers::{self, BUBBLEWRAP};
use ringfence_testkit::sandboxes::{run, spec};
use ringfence_testkit::timing::{Row, median, middle, table};
use ringfence_testkit::traces::{Traces, tree_memory};

const LINE: (&str, &str) = ("[1, 2, 3].map(x => x * 2).reduce((a, b) => a + b)", "12");
const PYTHON_LINE: (&str, &str) = ("sum(x * 2 for x in [1, 2, 3])", "12");
const PRINCIPAL: &str = "bench";
/// The most memory in KiB that an idle worker may hold.
const IDLE: u64 = 4096;

struct Bench {
    brief: bool,
    native: Arc<Native>,
    rows: Vec<Row>,
}

fn main() -> Result<()> {
    let brief = std::env::args().any(|one| one == "--brief");
    let program = Program::beside()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let native = Arc::new(Native::new(&format!("ringfence-bench-{}", std::process::id()))?);
        let mut bench = Bench {
            brief,
            native,
            rows: Vec::new(),
        };
        let folder = tempfile::tempdir()?;
        bench
            .warm(&peers::static_true(folder.path())?.to_string_lossy())
            .await?;
        bench.cold().await?;
        bench.python().await?;
        bench.command(&program.path().to_string_lossy(), folder.path())?;
        println!("{}", table(&bench.rows));
        bench.idle_memory().await?;
        bench.no_growth().await
    })
}

impl Bench {
    fn count(&self, full: usize) -> usize {
        if self.brief { 3 } else { full }
    }

    fn row(&mut self, what: &'static str, time: Duration, most: u64, beside: Vec<(&'static str, Duration)>) {
        self.rows.push(Row {
            what,
            time,
            most: Some(Duration::from_micros(most)),
            beside,
        });
    }

    async fn warm(&mut self, tiny: &str) -> Result<()> {
        let time = self.pooled(Language::TypeScript, LINE, self.count(300)).await?;
        let spawn = median(self.count(300), || peers::run(&[tiny]))?;
        self.row(
            "fresh execution of one line of TypeScript, warm pool",
            time,
            800,
            vec![("spawn of a static `true`", spawn)],
        );
        Ok(())
    }

    async fn pooled(&self, language: Language, line: (&str, &str), count: usize) -> Result<Duration> {
        let spec = spec()?;
        let pool = Pool::new(Arc::clone(&self.native), 4);
        pool.warm(&spec, language, 2).await?;
        let mut times = Vec::new();
        for _ in 0..=count {
            let started = Instant::now();
            let mut sandbox = pool.take(&spec, language, PRINCIPAL).await?;
            run(&mut sandbox, language, line.0, line.1).await?;
            times.push(started.elapsed());
            pool.give_back(sandbox, language, PRINCIPAL).await;
        }
        ensure!(pool.counts().misses == 0, "the pool was empty: {:?}", pool.counts());
        times.remove(0);
        Ok(middle(times))
    }

    async fn cold(&mut self) -> Result<()> {
        let spec = spec()?;
        let mut times = Vec::new();
        for _ in 0..=self.count(100) {
            let started = Instant::now();
            let mut sandbox = self.native.launch(&spec).await?;
            run(&mut sandbox, Language::TypeScript, LINE.0, LINE.1).await?;
            times.push(started.elapsed());
            sandbox.end().await?;
        }
        times.remove(0);
        let mut beside = Vec::new();
        if peers::works(&[BUBBLEWRAP, &["true"]].concat()) {
            beside.push((
                "bubblewrap `true`",
                median(self.count(50), || peers::run(&[BUBBLEWRAP, &["true"]].concat()))?,
            ));
        }
        if peers::works(&["srt", "--", "true"]) {
            beside.push((
                "srt `true`",
                median(self.count(5), || peers::run(&["srt", "--", "true"]))?,
            ));
        }
        self.row("cold: jail, engine, result, no pool", middle(times), 5_000, beside);
        Ok(())
    }

    async fn python(&mut self) -> Result<()> {
        let time = self.pooled(Language::Python, PYTHON_LINE, self.count(100)).await?;
        let bare = median(self.count(30), || peers::run(&["/usr/bin/python3", "-c", "pass"]))?;
        self.row(
            "one line of Python from the zygote, in the jail",
            time,
            4_000,
            vec![("`python3 -c pass` bare", bare)],
        );
        Ok(())
    }

    fn command(&mut self, command: &str, folder: &std::path::Path) -> Result<()> {
        let file = folder.join("line.ts");
        std::fs::write(&file, LINE.0)?;
        let home = folder.join("home");
        let env = format!("RINGFENCE_HOME={}", home.display());
        let file = file.to_string_lossy().into_owned();
        let argv = ["env", env.as_str(), command, "run", "-q", file.as_str()];
        let time = median(self.count(50), || peers::run(&argv))?;
        let mut beside = Vec::new();
        for (name, program) in [
            ("bubblewrap `node -e 0`", ["node", "-e", "0"]),
            ("bubblewrap `python3 -c pass`", ["/usr/bin/python3", "-c", "pass"]),
        ] {
            let argv = [BUBBLEWRAP, &program].concat();
            if peers::works(&argv) {
                beside.push((name, median(self.count(20), || peers::run(&argv))?));
            }
        }
        self.row("`ringfence run` of one line, journal included", time, 30_000, beside);
        Ok(())
    }

    async fn idle_memory(&self) -> Result<()> {
        let mut sandbox = self.native.launch(&spec()?).await?;
        sandbox.prepare(Language::TypeScript).await?;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let kib = tree_memory(sandbox.pid()).context("memory of an idle sandbox")?;
        println!("idle warm worker: {kib} KiB PSS (at most {IDLE})");
        ensure!(kib <= IDLE, "an idle worker holds {kib} KiB");
        Ok(())
    }

    /// Runs 1,000 sandboxes in sequence and 64 at once: no resource of this process or the machine may grow.
    async fn no_growth(&self) -> Result<()> {
        let groups = self.native.remains();
        let once = self.pooled(Language::TypeScript, LINE, 20).await?;
        self.at_once(4).await?;
        settle().await;
        let before = Traces::now(&groups)?;
        self.pooled(Language::TypeScript, LINE, self.count(1_000)).await?;
        self.at_once(if self.brief { 8 } else { 64 }).await?;
        settle().await;
        let after = Traces::now(&groups)?;
        println!("before {before:?}\nafter  {after:?}\n(one execution {once:?})");
        ensure!(after.descriptors == before.descriptors, "descriptors grew");
        ensure!(after.mounts == before.mounts, "mounts grew");
        ensure!(after.groups == before.groups, "control groups grew");
        ensure!(after.memory_kib < before.memory_kib + 16 * 1024, "memory grew");
        Ok(())
    }

    async fn at_once(&self, count: usize) -> Result<()> {
        let spec = spec()?;
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..count {
            let (native, spec) = (Arc::clone(&self.native), Arc::clone(&spec));
            tasks.spawn(async move {
                let mut sandbox = native.launch(&spec).await?;
                run(&mut sandbox, Language::TypeScript, LINE.0, LINE.1).await?;
                sandbox.end().await?;
                anyhow::Ok(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(())
    }
}

/// Waits for dropped sandboxes, which are reaped in the background.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(500)).await;
}
