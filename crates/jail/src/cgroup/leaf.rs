//! The group of one execution: its limits, its usage, and its end.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, mpsc};
use std::thread;
use std::time::Duration;

use super::{CgroupError, CgroupTree, CgroupVersion, Controller, kill_all, make_group, remove_tree, write_setting};

/// What one execution may use in total.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeafLimits {
    /// Bytes of memory, including files in memory.
    pub memory: u64,
    /// Bytes in buffers of internet sockets, where the kernel counts them separately.
    pub sockets: u64,
    /// The number of processes and threads.
    pub processes: u64,
    /// Thousandths of one processor.
    pub cpu_millis: u64,
}

/// What one execution used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeafUsage {
    /// Processor time; `None`: this host does not count it.
    pub cpu: Option<Duration>,
    /// Peak memory in bytes; `None`: this host does not count it.
    pub peak_memory: Option<u64>,
    /// How often the kernel killed a process because memory was exhausted.
    pub memory_kills: u64,
    /// How often a new process was refused.
    pub processes_refused: u64,
}

/// What memory is used for, as far as the kernel cannot reclaim it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeafMemory {
    /// Bytes of private pages of the processes.
    pub own: u64,
    /// Bytes of files in memory and of shared memory, for the whole sandbox: what earlier executions left is included.
    pub shared: u64,
    /// Bytes of kernel memory: page tables, pipes, queues, and more.
    pub kernel: u64,
    /// How much of `kernel` the kernel can reclaim on request; `None`: this host does not report it, so it has to be tried.
    pub reclaimable: Option<u64>,
    /// Bytes in buffers of internet sockets, where they are counted separately.
    pub sockets: u64,
}

/// The groups of one execution. Dropping it kills the processes in them and removes the groups.
#[derive(Debug)]
pub struct Leaf {
    parts: Vec<CgroupTree>,
    /// Whether the kernel is reclaiming memory, which may go on while the program allocates more.
    reclaiming: Arc<AtomicBool>,
}

impl Leaf {
    pub(super) fn new(parents: &[CgroupTree], name: &str, limits: &LeafLimits) -> Result<Leaf, CgroupError> {
        let mut leaf = Leaf {
            parts: Vec::new(),
            reclaiming: Arc::default(),
        };
        for parent in parents {
            let folder = parent.folder.join(name);
            make_group(&folder)?;
            leaf.parts.push(CgroupTree {
                folder,
                ..parent.clone()
            });
        }
        for part in &leaf.parts {
            apply_limits(part, limits)?;
        }
        Ok(leaf)
    }

    /// Opens the task files: a process that writes `0` to each of them is in the leaf from then on.
    pub fn task_files(&self) -> Result<Vec<OwnedFd>, CgroupError> {
        let open = |part: &CgroupTree| {
            let path = part.folder.join(match part.version {
                CgroupVersion::V1 => "tasks",
                CgroupVersion::V2 => "cgroup.procs",
            });
            File::options()
                .write(true)
                .open(&path)
                .map(OwnedFd::from)
                .map_err(|source| CgroupError::Read { path, source })
        };
        self.parts.iter().map(open).collect()
    }

    /// What the execution has used so far.
    pub fn usage(&self) -> Result<LeafUsage, CgroupError> {
        let mut usage = LeafUsage::default();
        for part in &self.parts {
            for controller in &part.controllers {
                read_usage(part, *controller, &mut usage)?;
            }
        }
        Ok(usage)
    }

    fn memory_tree(&self) -> Option<&CgroupTree> {
        let mut parts = self.parts.iter();
        parts.find(|part| part.controllers.contains(&Controller::Memory))
    }

    /// Whether the kernel counts the memory and enforces a limit on it.
    pub fn counts_memory(&self) -> bool {
        self.memory_tree().is_some()
    }

    /// What the memory is used for; `None`: this host does not count it.
    pub fn memory(&self) -> Result<Option<LeafMemory>, CgroupError> {
        self.memory_tree().map(read_memory).transpose()
    }

    /// Has the kernel reclaim what it can of the memory, where it does not report how much that is. Waits no longer than
    /// `patience`: some of it may be busy, and a program can allocate more meanwhile.
    pub fn reclaim(&self, patience: Duration) {
        let Some(part) = self.memory_tree().filter(|part| part.version == CgroupVersion::V1) else {
            return;
        };
        if self.reclaiming.swap(true, Ordering::AcqRel) {
            return;
        }
        let path = part.folder.join("memory.force_empty");
        let reclaiming = Arc::clone(&self.reclaiming);
        let (done, wait) = mpsc::channel::<()>();
        let reclaim = move || {
            let _ = fs::write(path, "0");
            reclaiming.store(false, Ordering::Release);
            drop(done);
        };
        if thread::Builder::new().spawn(reclaim).is_err() {
            // The machine has no thread left: then nothing is reclaimed, and all of it counts.
            self.reclaiming.store(false, Ordering::Release);
        }
        // The channel carries no message: the work is done when the sender is gone.
        let _ = wait.recv_timeout(patience);
    }

    /// Kills every process in the leaf.
    pub fn kill_all(&self) {
        if let Some(part) = self.parts.first() {
            kill_all(&part.folder);
        }
    }

    /// The folders of the leaf, one in each tree.
    pub fn folders(&self) -> Vec<PathBuf> {
        self.parts.iter().map(|part| part.folder.clone()).collect()
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        for part in &self.parts {
            remove_tree(&part.folder);
        }
    }
}

fn apply_limits(part: &CgroupTree, limits: &LeafLimits) -> Result<(), CgroupError> {
    const PERIOD: u64 = 100_000;
    let at = |name: &str| part.folder.join(name);
    let quota = (limits.cpu_millis * PERIOD / 1000).max(1000);
    for controller in &part.controllers {
        match (part.version, controller) {
            (CgroupVersion::V1, Controller::Memory) => {
                write_setting(&at("memory.limit_in_bytes"), &limits.memory.to_string())?;
                write_setting_if_present(&at("memory.memsw.limit_in_bytes"), &limits.memory.to_string())?;
                write_setting_if_present(&at("memory.kmem.tcp.limit_in_bytes"), &limits.sockets.to_string())?;
            }
            (CgroupVersion::V2, Controller::Memory) => {
                write_setting(&at("memory.max"), &limits.memory.to_string())?;
                write_setting_if_present(&at("memory.swap.max"), "0")?;
                write_setting_if_present(&at("memory.oom.group"), "1")?;
            }
            (_, Controller::Processes) => write_setting(&at("pids.max"), &limits.processes.to_string())?,
            (CgroupVersion::V1, Controller::Cpu) => {
                write_setting(&at("cpu.cfs_period_us"), &PERIOD.to_string())?;
                write_setting(&at("cpu.cfs_quota_us"), &quota.to_string())?;
            }
            (CgroupVersion::V2, Controller::Cpu) => write_setting(&at("cpu.max"), &format!("{quota} {PERIOD}"))?,
            (_, Controller::CpuTime) => {}
        }
    }
    Ok(())
}

/// Writes a setting that not every kernel has.
fn write_setting_if_present(path: &Path, value: &str) -> Result<(), CgroupError> {
    if path.exists() {
        write_setting(path, value)
    } else {
        Ok(())
    }
}

fn read_usage(part: &CgroupTree, controller: Controller, usage: &mut LeafUsage) -> Result<(), CgroupError> {
    let at = |name: &str| part.folder.join(name);
    match (part.version, controller) {
        (CgroupVersion::V1, Controller::Memory) => {
            // Buffers of sockets are counted separately, and the kernel grants some of them beyond their own limit.
            let sockets = read_number_if_present(&at("memory.kmem.tcp.max_usage_in_bytes"))?.unwrap_or(0);
            let peak = read_number(&at("memory.max_usage_in_bytes"))?;
            usage.peak_memory = Some(peak.saturating_add(sockets));
            usage.memory_kills = read_field(&at("memory.oom_control"), "oom_kill")?;
        }
        (CgroupVersion::V2, Controller::Memory) => {
            usage.peak_memory = read_number_if_present(&at("memory.peak"))?;
            usage.memory_kills = read_field(&at("memory.events"), "oom_kill")?;
        }
        (_, Controller::Processes) => usage.processes_refused = read_field(&at("pids.events"), "max")?,
        (CgroupVersion::V1, Controller::CpuTime) => {
            usage.cpu = Some(Duration::from_nanos(read_number(&at("cpuacct.usage"))?));
        }
        (CgroupVersion::V2, Controller::CpuTime) => {
            usage.cpu = Some(Duration::from_micros(read_field(&at("cpu.stat"), "usage_usec")?));
        }
        (_, Controller::Cpu) => {}
    }
    Ok(())
}

fn read_memory(part: &CgroupTree) -> Result<LeafMemory, CgroupError> {
    let at = |name: &str| part.folder.join(name);
    let (stat, above) = (
        read_text(&at("memory.stat"))?,
        read_text(&part.folder.join("..").join("memory.stat"))?,
    );
    match part.version {
        CgroupVersion::V1 => {
            let (own, kernel) = (
                parse_field(&stat, "rss"),
                read_number_if_present(&at("memory.kmem.usage_in_bytes"))?.unwrap_or(0),
            );
            let told = own + parse_field(&stat, "cache") + kernel;
            Ok(LeafMemory {
                own: own + uncounted_memory(read_number(&at("memory.usage_in_bytes"))?, told),
                shared: parse_field(&above, "total_shmem"),
                kernel,
                reclaimable: None,
                sockets: read_number_if_present(&at("memory.kmem.tcp.usage_in_bytes"))?.unwrap_or(0),
            })
        }
        CgroupVersion::V2 => {
            let own = parse_field(&stat, "anon");
            let kernel = ["kernel_stack", "pagetables", "percpu", "sock", "slab"]
                .map(|name| parse_field(&stat, name))
                .iter()
                .sum::<u64>()
                .max(parse_field(&stat, "kernel") + parse_field(&stat, "sock"));
            let told = own + parse_field(&stat, "file") + kernel;
            Ok(LeafMemory {
                own: own + uncounted_memory(read_number(&at("memory.current"))?, told),
                shared: parse_field(&above, "shmem"),
                kernel,
                reclaimable: Some(parse_field(&stat, "slab_reclaimable")),
                sockets: 0,
            })
        }
    }
}

/// Memory of the group beyond its statistics: pages that no process or file has any more and that something still holds. The
/// kernel also charges in advance for each processor, which the statistics do not include.
fn uncounted_memory(usage: u64, told: u64) -> u64 {
    const LEAST: u64 = 4 << 20;
    const EACH_PROCESSOR: u64 = 512 << 10;
    static CHARGED_AHEAD: LazyLock<u64> = LazyLock::new(|| {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        LEAST.max(EACH_PROCESSOR.saturating_mul(processors as u64))
    });
    usage.saturating_sub(told).saturating_sub(*CHARGED_AHEAD)
}

/// A number of a list; 0 when this kernel does not have the name.
fn parse_field(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

fn read_text(path: &Path) -> Result<String, CgroupError> {
    fs::read_to_string(path).map_err(|source| CgroupError::Read {
        path: path.to_owned(),
        source,
    })
}

fn read_number(path: &Path) -> Result<u64, CgroupError> {
    read_text(path)?
        .trim()
        .parse()
        .map_err(|_| CgroupError::Understand { path: path.to_owned() })
}

/// A number that not every kernel has. A file that cannot be read for another reason is an error, because it does not mean
/// that nothing was used.
fn read_number_if_present(path: &Path) -> Result<Option<u64>, CgroupError> {
    match read_number(path) {
        Err(CgroupError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

fn read_field(path: &Path, name: &str) -> Result<u64, CgroupError> {
    let text = read_text(path)?;
    let value = text.lines().find_map(|line| {
        line.split_once(' ')
            .filter(|(key, _)| *key == name)
            .map(|(_, value)| value)
    });
    value
        .and_then(|value| value.trim().parse().ok())
        .ok_or_else(|| CgroupError::Understand { path: path.to_owned() })
}
