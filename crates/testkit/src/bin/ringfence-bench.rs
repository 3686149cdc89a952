//! The benchmark of confined programs: medians, all in one run, beside their peers. `--brief` runs it for correctness only.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "the table is the output")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ringfence_sandbox::{Backend, BackendKind, JobLanguage, WarmPool};
use ringfence_testkit::front_door_bench::BenchProgram;
use ringfence_testkit::peers::{self, BUBBLEWRAP};
use ringfence_testkit::resource_counts::{ResourceCounts, tree_memory};
use ringfence_testkit::sandboxes::{built_in_spec, run_line};
use ringfence_testkit::timing::{TimingRow, median_of, table, time_median};

const TYPESCRIPT_LINE: (&str, &str) = ("[1, 2, 3].map(x => x * 2).reduce((a, b) => a + b)", "12");
const PYTHON_LINE: (&str, &str) = ("sum(x * 2 for x in [1, 2, 3])", "12");
const PRINCIPAL: &str = "bench";
/// The most memory in KiB that an idle worker may hold.
const MAX_IDLE_KIB: u64 = 4096;

struct SandboxBench {
    brief: bool,
    backend: Arc<Backend>,
    rows: Vec<TimingRow>,
}

fn main() -> Result<()> {
    let brief = std::env::args().any(|one| one == "--brief");
    let program = BenchProgram::find()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let backend = Arc::new(Backend::new(
            BackendKind::default(),
            &format!("ringfence-bench-{}", std::process::id()),
        )?);
        let mut bench = SandboxBench {
            brief,
            backend,
            rows: Vec::new(),
        };
        let folder = tempfile::tempdir()?;
        bench
            .measure_warm(&peers::static_true(folder.path())?.to_string_lossy())
            .await?;
        bench.measure_cold().await?;
        bench.measure_python().await?;
        bench.measure_command(&program.path().to_string_lossy(), folder.path())?;
        println!("{}", table(&bench.rows));
        bench.measure_idle_memory().await?;
        bench.check_no_growth().await
    })
}

impl SandboxBench {
    fn count(&self, full: usize) -> usize {
        if self.brief { 3 } else { full }
    }

    fn add_row(&mut self, what: &'static str, time: Duration, most: u64, beside: Vec<(&'static str, Duration)>) {
        self.rows.push(TimingRow {
            what,
            time,
            most: Some(Duration::from_micros(most)),
            beside,
        });
    }

    async fn measure_warm(&mut self, tiny: &str) -> Result<()> {
        let time = self
            .measure_pooled(JobLanguage::TypeScript, TYPESCRIPT_LINE, self.count(300))
            .await?;
        let spawn = time_median(self.count(300), || peers::run(&[tiny]))?;
        self.add_row(
            "fresh execution of one line of TypeScript, warm pool",
            time,
            800,
            vec![("spawn of a static `true`", spawn)],
        );
        Ok(())
    }

    async fn measure_pooled(&self, language: JobLanguage, line: (&str, &str), count: usize) -> Result<Duration> {
        let spec = built_in_spec()?;
        let pool = WarmPool::new(Arc::clone(&self.backend), 4);
        pool.warm(&spec, language, 2).await?;
        let mut times = Vec::new();
        for _ in 0..=count {
            let started = Instant::now();
            let mut sandbox = pool.acquire(&spec, language, PRINCIPAL).await?;
            run_line(&mut sandbox, language, line.0, line.1).await?;
            times.push(started.elapsed());
            pool.release(sandbox, language, PRINCIPAL).await;
        }
        ensure!(pool.counts().misses == 0, "the pool was empty: {:?}", pool.counts());
        times.remove(0);
        Ok(median_of(times))
    }

    async fn measure_cold(&mut self) -> Result<()> {
        let spec = built_in_spec()?;
        let mut times = Vec::new();
        for _ in 0..=self.count(100) {
            let started = Instant::now();
            let mut sandbox = self.backend.launch(&spec).await?;
            run_line(
                &mut sandbox,
                JobLanguage::TypeScript,
                TYPESCRIPT_LINE.0,
                TYPESCRIPT_LINE.1,
            )
            .await?;
            times.push(started.elapsed());
            sandbox.end().await?;
        }
        times.remove(0);
        let mut beside = Vec::new();
        if peers::is_available(&[BUBBLEWRAP, &["true"]].concat()) {
            beside.push((
                "bubblewrap `true`",
                time_median(self.count(50), || peers::run(&[BUBBLEWRAP, &["true"]].concat()))?,
            ));
        }
        if peers::is_available(&["srt", "--", "true"]) {
            beside.push((
                "srt `true`",
                time_median(self.count(5), || peers::run(&["srt", "--", "true"]))?,
            ));
        }
        self.add_row("cold: jail, engine, result, no pool", median_of(times), 5_000, beside);
        Ok(())
    }

    async fn measure_python(&mut self) -> Result<()> {
        let time = self
            .measure_pooled(JobLanguage::Python, PYTHON_LINE, self.count(100))
            .await?;
        let bare = time_median(self.count(30), || peers::run(&["/usr/bin/python3", "-c", "pass"]))?;
        self.add_row(
            "one line of Python from the zygote, in the jail",
            time,
            4_000,
            vec![("`python3 -c pass` bare", bare)],
        );
        Ok(())
    }

    fn measure_command(&mut self, command: &str, folder: &std::path::Path) -> Result<()> {
        let file = folder.join("line.ts");
        std::fs::write(&file, TYPESCRIPT_LINE.0)?;
        let home = folder.join("home");
        let env = format!("RINGFENCE_HOME={}", home.display());
        let file = file.to_string_lossy().into_owned();
        let argv = ["env", env.as_str(), command, "run", "-q", file.as_str()];
        let time = time_median(self.count(50), || peers::run(&argv))?;
        let mut beside = Vec::new();
        for (name, program) in [
            ("bubblewrap `node -e 0`", ["node", "-e", "0"]),
            ("bubblewrap `python3 -c pass`", ["/usr/bin/python3", "-c", "pass"]),
        ] {
            let argv = [BUBBLEWRAP, &program].concat();
            if peers::is_available(&argv) {
                beside.push((name, time_median(self.count(20), || peers::run(&argv))?));
            }
        }
        self.add_row("`ringfence run` of one line, journal included", time, 30_000, beside);
        Ok(())
    }

    async fn measure_idle_memory(&self) -> Result<()> {
        let mut sandbox = self.backend.launch(&built_in_spec()?).await?;
        sandbox.prepare(JobLanguage::TypeScript).await?;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let kib = tree_memory(sandbox.pid()).context("memory of an idle sandbox")?;
        println!("idle warm worker: {kib} KiB PSS (at most {MAX_IDLE_KIB})");
        ensure!(kib <= MAX_IDLE_KIB, "an idle worker holds {kib} KiB");
        Ok(())
    }

    /// Runs 1,000 sandboxes in sequence and 64 at once: no resource of this process or the machine may grow.
    async fn check_no_growth(&self) -> Result<()> {
        let groups = self.backend.leftover_folders();
        let once = self
            .measure_pooled(JobLanguage::TypeScript, TYPESCRIPT_LINE, 20)
            .await?;
        self.run_concurrent(4).await?;
        wait_for_reaping().await;
        let before = ResourceCounts::measure(&groups)?;
        self.measure_pooled(JobLanguage::TypeScript, TYPESCRIPT_LINE, self.count(1_000))
            .await?;
        self.run_concurrent(if self.brief { 8 } else { 64 }).await?;
        wait_for_reaping().await;
        let after = ResourceCounts::measure(&groups)?;
        println!("before {before:?}\nafter  {after:?}\n(one execution {once:?})");
        ensure!(after.descriptors == before.descriptors, "descriptors grew");
        ensure!(after.mounts == before.mounts, "mounts grew");
        ensure!(after.groups == before.groups, "control groups grew");
        ensure!(after.memory_kib < before.memory_kib + 16 * 1024, "memory grew");
        Ok(())
    }

    async fn run_concurrent(&self, count: usize) -> Result<()> {
        let spec = built_in_spec()?;
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..count {
            let (backend, spec) = (Arc::clone(&self.backend), Arc::clone(&spec));
            tasks.spawn(async move {
                let mut sandbox = backend.launch(&spec).await?;
                run_line(
                    &mut sandbox,
                    JobLanguage::TypeScript,
                    TYPESCRIPT_LINE.0,
                    TYPESCRIPT_LINE.1,
                )
                .await?;
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
async fn wait_for_reaping() {
    tokio::time::sleep(Duration::from_millis(500)).await;
}
