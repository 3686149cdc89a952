//! Making a jail: one thread makes them all, because the kernel kills a child when the *thread* that made it ends.

use std::ffi::NulError;
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use crate::child::{self, Ends, Stage};
use crate::compile::Compiled;
use crate::jailed::Jailed;
use crate::plan::{Ids, Plan};
use crate::sys::process::{self, Cloned};
use crate::sys::socket::{self, PairKind};

/// Building a root takes a millisecond; a host folder that does not answer must not hold everybody up.
const PATIENCE: Duration = Duration::from_secs(10);

const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// Why there is no jail.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A path or text of the plan holds a NUL.
    #[error("the plan holds a NUL character")]
    Nul(#[from] NulError),
    /// The sockets between host and child.
    #[error("cannot make the sockets of a sandbox")]
    Sockets(#[source] io::Error),
    /// New namespaces.
    #[error("cannot make the namespaces of a sandbox")]
    Namespaces(#[source] io::Error),
    /// The child's user and group numbers.
    #[error("cannot give the sandbox user {user}")]
    Identity {
        /// The host's number of that user.
        user: u32,
        /// Why.
        source: io::Error,
    },
    /// A place of the host that is to be mounted.
    #[error("cannot open `{path}` for the sandbox")]
    Source {
        /// Which.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// A step in the child.
    #[error("cannot confine the sandbox ({stage}, step {index})")]
    Confine {
        /// Which part of the way.
        stage: String,

        /// Which step of it.
        index: u16,

        /// Why.
        source: io::Error,
    },
    /// The child ended without a word.
    #[error("the sandbox ended before it began")]
    Vanished,
    /// The thread that makes jails is gone.
    #[error("the thread that makes sandboxes has ended")]
    Stopped,
}

type Answer = Box<dyn FnOnce(Result<Jailed, LaunchError>) + Send>;

/// The thread that makes jails. Dropping the last handle ends it, and every jail with it.
#[derive(Clone)]
pub struct Launcher {
    requests: mpsc::Sender<(Plan, Answer)>,
}

impl fmt::Debug for Launcher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Launcher").finish_non_exhaustive()
    }
}

impl Launcher {
    /// Starts the thread.
    pub fn start() -> io::Result<Launcher> {
        let (requests, inbox) = mpsc::channel::<(Plan, Answer)>();
        thread::Builder::new()
            .name("ringfence-launch".to_owned())
            .spawn(move || {
                for (plan, answer) in inbox {
                    answer(launch(&plan));
                }
            })?;
        Ok(Launcher { requests })
    }

    /// Makes a jail and hands it to `answer`, on the thread that makes them. Never called: the thread has ended.
    pub fn launch_then(&self, plan: Plan, answer: impl FnOnce(Result<Jailed, LaunchError>) + Send + 'static) {
        // A request that cannot be sent drops its answer, which is how its caller knows.
        let _ = self.requests.send((plan, Box::new(answer)));
    }

    /// Makes a jail; blocks for a few milliseconds.
    pub fn launch(&self, plan: Plan) -> Result<Jailed, LaunchError> {
        let (answer, result) = mpsc::sync_channel(1);
        self.launch_then(plan, move |jailed| {
            // A caller that has gone away lets its jail be dropped, which ends it.
            let _ = answer.send(jailed);
        });
        result.recv().map_err(|_| LaunchError::Stopped)?
    }
}

impl Ids {
    /// Who a new sandbox is on the host: as root a random unprivileged number of its own, else the caller.
    pub fn choose() -> io::Result<Ids> {
        const INSIDE: u32 = 1000;
        let (user, group) = process::effective_ids();
        if user != 0 {
            return Ok(Ids {
                inside: INSIDE,
                user,
                group,
            });
        }
        let map = fs::read_to_string("/proc/self/uid_map")?;
        let number = spare_number(&map, getrandom::u32()?).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::Unsupported,
                "no unprivileged user number is mapped here to run a sandbox as",
            )
        })?;
        Ok(Ids {
            inside: INSIDE,
            user: number,
            group: number,
        })
    }
}

/// An unprivileged number from a `uid_map`: high up where the whole range is there, else anything mapped but 0.
fn spare_number(map: &str, random: u32) -> Option<u32> {
    let ranges = map.lines().filter_map(|line| {
        let mut fields = line.split_whitespace().map(str::parse::<u32>);
        Some((fields.next()?.ok()?, fields.next()?.ok()?, fields.next()?.ok()?))
    });
    let (first, outside, count) = ranges.max_by_key(|(_, _, count)| *count)?;
    if count > 0x7fff_ffff {
        return Some(0x4000_0000 + random % 0x3000_0000);
    }
    match (first, count) {
        (0, 1) => (outside != 0).then_some(0),
        (0, _) => Some(1 + random % (count - 1)),
        (_, 0) => None,
        (_, _) => Some(first + random % count),
    }
}

fn launch(plan: &Plan) -> Result<Jailed, LaunchError> {
    let mut compiled = Compiled::new(plan)?;
    compiled.drop_groups = process::effective_ids().0 == 0;
    let (status, childs_status) = socket::pair(PairKind::Packet).map_err(LaunchError::Sockets)?;
    let (control, childs_control) = socket::pair(PairKind::Packet).map_err(LaunchError::Sockets)?;
    socket::limit_patience(status.as_fd(), PATIENCE).map_err(LaunchError::Sockets)?;
    process::block_signals(true).map_err(LaunchError::Namespaces)?;
    let ends = Ends {
        status: childs_status.as_fd(),
        control: childs_control.as_fd(),
        program: plan.program.as_fd(),
    };
    let cloned = process::clone_into(NAMESPACES);
    if let Ok(Cloned::Child) = cloned {
        child::run(&mut compiled, &ends);
    }
    process::block_signals(false).map_err(LaunchError::Namespaces)?;
    let Cloned::Parent { pid, handle } = cloned.map_err(LaunchError::Namespaces)? else {
        return Err(LaunchError::Vanished);
    };
    drop((childs_status, childs_control));
    // From here on an error drops `jailed`, which ends the child.
    let mut jailed = Jailed::new(pid, handle, control);
    give_identity(pid, plan.ids)?;
    socket::send(status.as_fd(), b"g", &[]).map_err(LaunchError::Sockets)?;
    follow(&status, &compiled, &mut jailed)?;
    Ok(jailed)
}

/// Listens to the child until it has become the worker.
fn follow(status: &OwnedFd, compiled: &Compiled, jailed: &mut Jailed) -> Result<(), LaunchError> {
    let mut message = [0u8; 16];
    loop {
        let (length, mut descriptors) = socket::receive(status.as_fd(), &mut message).map_err(LaunchError::Sockets)?;
        match (message.get(..length), descriptors.pop()) {
            (Some([child::TOLD_HANDLES]), Some(last)) => {
                descriptors.push(last);
                jailed.handles = descriptors;
            }
            (Some([child::TOLD_LISTENER, version]), Some(listener)) => {
                // Only becoming the worker is left; whether it did, its first word tells.
                jailed.listener = Some(listener);
                jailed.landlock = *version;
                return Ok(());
            }
            (Some([child::TOLD_FAILURE, stage, low, high, error @ ..]), None) => {
                let number = error.try_into().map_or(libc::EIO, i32::from_le_bytes);
                return Err(failure(*stage, u16::from_le_bytes([*low, *high]), number, compiled));
            }
            _ => return Err(LaunchError::Vanished),
        }
    }
}

fn failure(stage: u8, index: u16, number: i32, compiled: &Compiled) -> LaunchError {
    let source = io::Error::from_raw_os_error(number);
    if stage == Stage::Source as u8 {
        let path = compiled
            .sources
            .get(usize::from(index))
            .map_or_else(String::new, |source| source.named.clone());
        return LaunchError::Source { path, source };
    }
    let name = child::STAGES
        .iter()
        .find(|(known, _)| *known as u8 == stage)
        .map_or("unknown", |(_, name)| name);
    let detail = compiled
        .steps
        .get(usize::from(index))
        .filter(|_| stage == Stage::Build as u8);
    let stage = detail.map_or_else(|| name.to_owned(), |step| format!("{name} {step:?}"));
    LaunchError::Confine { stage, index, source }
}

/// Writes who the child is. It waits until then, and does nothing as root of the host at any time.
fn give_identity(pid: i32, ids: Ids) -> Result<(), LaunchError> {
    let failed = |source| LaunchError::Identity { user: ids.user, source };
    let privileged = process::effective_ids().0 == 0;
    if !privileged {
        // The kernel demands this before an ordinary user may write a group map.
        fs::write(format!("/proc/{pid}/setgroups"), "deny").map_err(failed)?;
    }
    fs::write(
        format!("/proc/{pid}/gid_map"),
        format!("{} {} 1", ids.inside, ids.group),
    )
    .map_err(failed)?;
    fs::write(format!("/proc/{pid}/uid_map"), format!("{} {} 1", ids.inside, ids.user)).map_err(failed)
}

/// A program for jails, shared by all of them.
pub type SharedProgram = Arc<crate::program::Program>;

#[cfg(test)]
mod tests;
