//! Resource hogs take more than their share: each has a bound of its own, so that it ends even without a limit.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ringfence_jail::attack;
use rustix::fs::{FallocateFlags, inotify};
use rustix::process::{DumpableBehavior, Resource, getrlimit, set_dumpable_behavior};
use serde::{Deserialize, Serialize};

use super::{AttemptResult, ProbeAttempt, kernel_memory, new_attempt, print_json_line, unnamed_files};

/// How long a hog keeps what it holds before it reports: long enough for the watch to check.
pub(super) const HOLD_TIME: Duration = Duration::from_millis(400);
/// How long hogs may take to reach their bound.
const HOG_TIMEOUT: Duration = Duration::from_secs(10);
pub(super) const MIB: usize = 1 << 20;

/// How much of a resource a hog held or made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeldAmount {
    /// The amount in the hog's own unit.
    pub(crate) held: usize,
}

/// Runs the hog `what` with the bound in `rest`.
pub(super) fn run_hog(what: &str, rest: &[&str]) -> io::Result<()> {
    let number = |index: usize| rest.get(index).and_then(|word| word.parse::<usize>().ok()).unwrap_or(0);
    let most = number(0);
    let held = match what {
        "processes" => attack::fork_until_refused(most, HOLD_TIME * 4, || ())?,
        "threads" => start_threads(most),
        "memory" => touch_memory(most),
        "many" => run_in_processes(most, number(1), fill_memory)?,
        "hidden" => run_in_processes(most, number(1), fill_hidden_memory)?,
        "segments" => (0..most)
            .take_while(|_| attack::leak_shared_segment(MIB).is_ok())
            .count(),
        "memory-files" => usize::from(attack::make_memory_file().is_ok()),
        "unix-queues" => fill_in_each_process(most, kernel_memory::unix_queues)?,
        "netlink-queues" => fill_in_each_process(most, kernel_memory::netlink_queues)?,
        "udp-queues" => fill_in_each_process(most, kernel_memory::udp_queues)?,
        "tcp-buffers" => fill_in_each_process(most, kernel_memory::tcp_buffers)?,
        "pipes" => fill_in_each_process(most, kernel_memory::pipes)?,
        "event-queues" => fill_in_each_process(most, kernel_memory::event_queues)?,
        "page-tables" => fill_in_each_process(most, kernel_memory::page_tables)?,
        "unaccepted" => fill_in_each_process(most, kernel_memory::unaccepted_connections)?,
        "held-datagrams" => fill_in_each_process(most, kernel_memory::held_datagrams)?,
        "error-queues" => fill_in_each_process(most, kernel_memory::error_queues)?,
        "record-locks" => fill_in_each_process(most, kernel_memory::record_locks)?,
        "locked" => hard_limit(Resource::Memlock),
        "places" => fill_writable_places(most),
        "file" => write_file("big", most),
        "allocate" => allocate_file(most),
        "sparse" => make_sparse_files(most, number(1)),
        "nameless" => unnamed_files::open(most),
        "sent" => unnamed_files::in_connections(most)?,
        "queued" => unnamed_files::in_a_queue(most)?,
        "mapped" => unnamed_files::mapped(most),
        "running" => unnamed_files::running(most),
        "inodes" => (0..most)
            .take_while(|index| File::create(format!("i{index}")).is_ok())
            .count(),
        "deep" => make_deep_folders(most),
        "descriptors" => open_descriptors(most),
        "flood" => flood_output(&mut io::stdout().lock(), most),
        "complain" => flood_output(&mut io::stderr().lock(), most),
        "busy" => burn_processors(most)?,
        "processors" => attack::use_every_processor()?,
        "blocked" => block_forever()?,
        "daemon" => attack::leave_daemon(Duration::from_mins(5)).map(|()| 1)?,
        "orphans" => (0..most).take_while(|_| attack::make_orphan().is_ok()).count(),
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    std::thread::sleep(if what == "flood" || what == "complain" {
        Duration::ZERO
    } else {
        HOLD_TIME
    });
    print_json_line(&HeldAmount { held })
}

/// The attempts of the hogs that need no execution of their own.
pub(super) fn attempts(id: u16) -> Vec<ProbeAttempt> {
    if id == 88 {
        return vec![new_attempt("core size", || match hard_limit(Resource::Core) {
            // A core limit of one byte allows no core file, and keeps the kernel from starting a program that would take
            // one.
            size @ (0 | 1) => AttemptResult::WithoutEffect(size.to_string()),
            size => AttemptResult::Succeeded(format!("{size} bytes")),
        })];
    }
    vec![
        new_attempt("inotify", try_watchers),
        new_attempt("timers", try_timers),
        new_attempt("asynchronous requests", try_pool),
    ]
}

fn hard_limit(resource: Resource) -> usize {
    getrlimit(resource)
        .maximum
        .map_or(usize::MAX, |value| usize::try_from(value).unwrap_or(usize::MAX))
}

fn read_setting(path: &str) -> io::Result<usize> {
    fs::read_to_string(path)?
        .trim()
        .parse()
        .map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Two sandboxes could starve the host's user when one gets more than half of what that user may have.
fn try_watchers() -> AttemptResult {
    const MAX_WATCHERS: usize = 200;
    let take = || -> io::Result<AttemptResult> {
        let all = read_setting("/proc/sys/fs/inotify/max_user_instances")?;
        let own = read_setting("/proc/sys/user/max_inotify_instances")?;
        let wanted = all / 2 + 1;
        let held: Vec<_> = (0..wanted.min(MAX_WATCHERS))
            .map_while(|_| inotify::init(inotify::CreateFlags::CLOEXEC).ok())
            .collect();
        let too_many = held.len() >= wanted || (held.len() == MAX_WATCHERS && own >= all);
        let words = format!("{} of the host user's {all}", held.len());
        Ok(if too_many {
            AttemptResult::Succeeded(words)
        } else {
            AttemptResult::WithoutEffect(words)
        })
    };
    take().unwrap_or_else(AttemptResult::Refused)
}

fn try_timers() -> AttemptResult {
    const MAX_TIMERS: usize = 4000;
    match attack::make_timers(MAX_TIMERS) {
        MAX_TIMERS => AttemptResult::Succeeded(format!("{MAX_TIMERS} timers")),
        made => AttemptResult::WithoutEffect(format!("{made} timers")),
    }
}

/// Takes from the one pool that the machine has for all users.
fn try_pool() -> AttemptResult {
    let take = || -> io::Result<()> {
        let half = read_setting("/proc/sys/fs/aio-max-nr")? / 2;
        attack::reserve_async_io(u32::try_from(half).unwrap_or(u32::MAX))
    };
    match take() {
        Ok(()) => AttemptResult::Succeeded("half of the machine's pool".to_owned()),
        Err(error) => AttemptResult::Refused(error),
    }
}

fn start_threads(most: usize) -> usize {
    let wait = || {
        std::thread::Builder::new()
            .stack_size(64 * 1024)
            .spawn(|| std::thread::sleep(HOLD_TIME * 4))
    };
    (0..most).take_while(|_| wait().is_ok()).count()
}

/// Touches up to `most` mebibytes; returns their number.
fn touch_memory(most: usize) -> usize {
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    while blocks.len() < most {
        let mut block = Vec::new();
        if block.try_reserve_exact(MIB).is_err() {
            break;
        }
        block.resize(MIB, 1);
        blocks.push(block);
    }
    std::thread::sleep(HOLD_TIME);
    // Checked afterwards, so that every block was in memory at the same time.
    blocks.iter().filter(|block| block.last() == Some(&1)).count()
}

/// How much each child takes; set before the children start.
static CHILD_SHARE: AtomicUsize = AtomicUsize::new(0);

/// Starts `count` processes that do `work`, each of which takes `share`; returns the number of remaining processes times
/// `share`.
fn run_in_processes(count: usize, share: usize, work: fn()) -> io::Result<usize> {
    CHILD_SHARE.store(share, Ordering::Relaxed);
    attack::fork_until_refused(count, HOLD_TIME * 6, work)?;
    let begun = Instant::now();
    // On a busy machine a child that still runs has not taken its part yet, and was refused nothing.
    while begun.elapsed() < HOG_TIMEOUT && count_children(|state| matches!(state, "R" | "D"))? > 0 {
        std::thread::sleep(HOLD_TIME / 8);
    }
    std::thread::sleep(HOLD_TIME * 2);
    Ok(count_children(|state| state != "Z")? * share.max(1))
}

/// Counts the children of this process whose state matches.
fn count_children(counts: impl Fn(&str) -> bool) -> io::Result<usize> {
    let own = std::process::id().to_string();
    let mut living = 0;
    for entry in fs::read_dir("/proc")? {
        let Ok(text) = fs::read_to_string(entry?.path().join("stat")) else {
            continue;
        };
        let Some((_, after)) = text.rsplit_once(')') else {
            continue;
        };
        let mut fields = after.split_whitespace();
        let (state, parent) = (fields.next(), fields.next());
        living += usize::from(parent == Some(&own) && state.is_some_and(&counts));
    }
    Ok(living)
}

fn fill_memory() {
    if touch_memory(CHILD_SHARE.load(Ordering::Relaxed)) < CHILD_SHARE.load(Ordering::Relaxed) {
        attack::exit_now(1);
    }
}

/// Fills memory in a process that is not dumpable.
fn fill_hidden_memory() {
    if set_dumpable_behavior(DumpableBehavior::NotDumpable).is_err() {
        attack::exit_now(1);
    }
    fill_memory();
}

/// What each child fills and the pipe for its report; set before the children start.
static CHILD_FILL: OnceLock<(fn() -> usize, io::PipeWriter)> = OnceLock::new();

/// Runs `fill` in `count` processes and in this one; returns the mebibytes that they reported.
fn fill_in_each_process(count: usize, fill: fn() -> usize) -> io::Result<usize> {
    let (mut reports, writer) = io::pipe()?;
    CHILD_FILL.get_or_init(|| (fill, writer));
    run_in_processes(count, 0, fill_and_report)?;
    rustix::io::ioctl_fionbio(&reports, true)?;
    let (mut bytes, mut report) = (fill(), [0; size_of::<usize>()]);
    while reports.read_exact(&mut report).is_ok() {
        bytes += usize::from_ne_bytes(report);
    }
    Ok(bytes / MIB)
}

fn fill_and_report() {
    let told = CHILD_FILL
        .get()
        .map(|(fill, writer)| (&*writer).write_all(&fill().to_ne_bytes()));
    if !matches!(told, Some(Ok(()))) {
        attack::exit_now(1);
    }
}

/// Fills every writable place; returns mebibytes.
fn fill_writable_places(most: usize) -> usize {
    ["/workspace/fill", "/tmp/fill", "/dev/shm/fill"]
        .iter()
        .map(|path| write_file(path, most))
        .sum()
}

fn write_file(path: &str, most: usize) -> usize {
    let block = vec![1u8; MIB];
    let Ok(mut file) = File::create(path) else { return 0 };
    (0..most).take_while(|_| file.write_all(&block).is_ok()).count()
}

fn allocate_file(most: usize) -> usize {
    let Ok(file) = File::create("allocated") else { return 0 };
    let one = |index: usize| rustix::fs::fallocate(&file, FallocateFlags::empty(), (index * MIB) as u64, MIB as u64);
    (0..most).take_while(|index| one(*index).is_ok()).count()
}

/// Makes `count` files of `size` mebibytes that take no space; returns mebibytes in total.
fn make_sparse_files(count: usize, size: usize) -> usize {
    let one = |index: usize| File::create(format!("sparse-{index}")).and_then(|file| file.set_len((size * MIB) as u64));
    (0..count).take_while(|index| one(*index).is_ok()).count() * size
}

fn make_deep_folders(most: usize) -> usize {
    let down = || fs::create_dir("deep").and_then(|()| std::env::set_current_dir("deep"));
    (0..most).take_while(|_| down().is_ok()).count()
}

fn open_descriptors(most: usize) -> usize {
    let held: Vec<File> = (0..most).map_while(|_| File::open("/dev/null").ok()).collect();
    held.len()
}

fn flood_output(out: &mut dyn io::Write, most: usize) -> usize {
    let block = vec![b'x'; MIB];
    (0..most).take_while(|_| out.write_all(&block).is_ok()).count()
}

/// Uses every processor for `milliseconds`; returns the milliseconds of processor time that it got.
fn burn_processors(milliseconds: usize) -> io::Result<usize> {
    const THREADS: usize = 8;
    let until = Instant::now() + Duration::from_millis(milliseconds as u64);
    let spin = move || {
        // A refusal means that its affinity is fixed.
        let _ = attack::use_every_processor();
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    };
    let threads: Vec<_> = (0..THREADS)
        .filter_map(|_| std::thread::Builder::new().spawn(spin).ok())
        .collect();
    for thread in threads {
        thread.join().map_err(|_| io::ErrorKind::Other)?;
    }
    let text = fs::read_to_string("/proc/self/stat")?;
    let (_, after) = text.rsplit_once(')').ok_or(io::ErrorKind::InvalidData)?;
    let ticks: usize = after
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<usize>().ok())
        .sum();
    Ok(ticks * 1000 / usize::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(100))
}

/// Reads from a pipe that is never written.
fn block_forever() -> io::Result<usize> {
    let (mut reader, _writer) = io::pipe()?;
    reader.read(&mut [0; 1])
}
