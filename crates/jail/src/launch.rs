//! The launch thread makes all jails: the kernel kills a child when the *thread* that made it ends.

mod template_process;

use std::ffi::{CStr, NulError};
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::handshake::{self, ConfinementStage};
use crate::jailed_process::JailedProcess;
use crate::plan::{Plan, UserIds};
use crate::program::SealedProgram;
use crate::steps::{BuildStep, ConfinementSteps};
use crate::sys::process;
use crate::sys::socket::{self, PairKind};
use template_process::{CopyError, TemplateProcess};

/// Building a root takes a millisecond; a host folder that does not respond must not delay everything else.
pub(crate) const LAUNCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a jail could not be made.
#[derive(Debug, thiserror::Error)]
pub enum LauncherError {
    /// A path or text of the plan contains a NUL byte.
    #[error("the plan holds a NUL character")]
    Nul(#[from] NulError),
    /// The sockets between host and child failed.
    #[error("cannot make the sockets of a sandbox")]
    Sockets(#[source] io::Error),
    /// The kernel refused to make new namespaces.
    #[error("cannot make the namespaces of a sandbox")]
    Namespaces(#[source] io::Error),
    /// The child's user and group numbers could not be mapped.
    #[error("cannot give the sandbox user {user}")]
    Identity {
        /// The user number on the host.
        user: u32,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A path of the host that is to be mounted cannot be opened.
    #[error("cannot open `{path}` for the sandbox")]
    Source {
        /// The path on the host.
        path: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The kernel cannot hide names in a folder of the host.
    #[error("cannot hide names in `{path}`: its file system takes no layer, show a copy on another one")]
    Layer {
        /// The path of the folder on the host.
        path: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A mount point lies behind a link that a program left in a kept place.
    #[error("a link lies where `{path}` is to be mounted: remove it from the kept place, or mount elsewhere")]
    Link {
        /// The path of the mount point inside the jail.
        path: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A step in the child failed.
    #[error("cannot confine the sandbox ({stage}, step {index})")]
    Confine {
        /// The stage of the confinement, as a phrase.
        stage: String,

        /// The index of the step in its stage.
        index: u16,

        /// The error of the operating system.
        source: io::Error,
    },
    /// The template process could not be started or used.
    #[error("cannot start the process that sandboxes are copies of")]
    Template(#[source] io::Error),
    /// The child ended without a message.
    #[error("the sandbox ended before it began")]
    Vanished,
    /// The launch thread is gone.
    #[error("the thread that makes sandboxes has ended")]
    Stopped,
}

type LaunchCallback = Box<dyn FnOnce(Result<JailedProcess, LauncherError>) + Send>;

/// The launch thread. Dropping the last handle ends it, and every jail with it.
#[derive(Clone)]
pub struct Launcher {
    requests: mpsc::Sender<(Plan, LaunchCallback)>,
}

impl fmt::Debug for Launcher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Launcher").finish_non_exhaustive()
    }
}

impl Launcher {
    /// Starts the thread, with `program` as the template.
    pub fn start(program: SealedProgram) -> io::Result<Launcher> {
        let (requests, inbox) = mpsc::channel::<(Plan, LaunchCallback)>();
        thread::Builder::new()
            .name("ringfence-launch".to_owned())
            .spawn(move || {
                let mut maker = LaunchThread::new(program);
                for (plan, answer) in inbox {
                    answer(maker.launch(&plan));
                    maker.replace_template();
                }
            })?;
        Ok(Launcher { requests })
    }

    /// Makes a jail and passes it to `answer`, on the launch thread. When the thread has ended, `answer` is dropped without
    /// a call.
    pub fn launch_with_callback(
        &self,
        plan: Plan,
        answer: impl FnOnce(Result<JailedProcess, LauncherError>) + Send + 'static,
    ) {
        // A request that cannot be sent drops its callback, which is how the caller notices.
        let _ = self.requests.send((plan, Box::new(answer)));
    }

    /// Makes a jail; blocks for a few milliseconds.
    pub fn launch(&self, plan: Plan) -> Result<JailedProcess, LauncherError> {
        let (answer, result) = mpsc::sync_channel(1);
        self.launch_with_callback(plan, move |jailed| {
            // When the caller is gone, its jail is dropped, which ends it.
            let _ = answer.send(jailed);
        });
        result.recv().map_err(|_| LauncherError::Stopped)?
    }
}

impl UserIds {
    /// The identity of a new sandbox on the host: as root a random unprivileged number of its own, else the caller's.
    pub fn choose() -> io::Result<UserIds> {
        const INSIDE: u32 = 1000;
        let (user, group) = process::effective_ids();
        if user != 0 {
            return Ok(UserIds {
                inside: INSIDE,
                user,
                group,
            });
        }
        let map = fs::read_to_string("/proc/self/uid_map")?;
        let number = unprivileged_number(&map, getrandom::u32()?).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::Unsupported,
                "no unprivileged user number is mapped here to run a sandbox as",
            )
        })?;
        Ok(UserIds {
            inside: INSIDE,
            user: number,
            group: number,
        })
    }
}

/// An unprivileged number from a `uid_map`: a high one where the whole range is mapped, else any mapped number but 0.
fn unprivileged_number(map: &str, random: u32) -> Option<u32> {
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

/// The state of the launch thread.
struct LaunchThread {
    program: SealedProgram,
    /// `None`: the template could not be started in advance; the next launch tries again and reports the error.
    template: Option<TemplateProcess>,
}

impl LaunchThread {
    fn new(program: SealedProgram) -> LaunchThread {
        let template = TemplateProcess::start(&program).ok();
        LaunchThread { program, template }
    }

    /// Starts another template while nothing else is to do.
    fn replace_template(&mut self) {
        if self.template.as_ref().is_none_or(TemplateProcess::is_used_up) {
            self.template = TemplateProcess::start(&self.program).ok();
        }
    }

    fn launch(&mut self, plan: &Plan) -> Result<JailedProcess, LauncherError> {
        let mut steps = ConfinementSteps::compile(plan)?;
        steps.drop_groups = process::effective_ids().0 == 0;
        if let Some(template) = &mut self.template {
            match launch_copy(plan.ids, &steps, template) {
                Err(CopyError::Template(_)) => self.template = None,
                Err(CopyError::Refused(error)) => return Err(error),
                Ok(jailed) => return Ok(jailed),
            }
        }
        // The template may have died since the last launch.
        let template = TemplateProcess::start(&self.program)?;
        match launch_copy(plan.ids, &steps, self.template.insert(template)) {
            Err(CopyError::Template(error)) => {
                self.template = None;
                Err(LauncherError::Template(error))
            }
            Err(CopyError::Refused(error)) => Err(error),
            Ok(jailed) => Ok(jailed),
        }
    }
}

fn launch_copy(
    ids: UserIds,
    steps: &ConfinementSteps,
    template: &mut TemplateProcess,
) -> Result<JailedProcess, CopyError> {
    let sockets = |source| CopyError::Refused(LauncherError::Sockets(source));
    let (status, childs_status) = socket::pair(PairKind::Packet).map_err(sockets)?;
    let (control, childs_control) = socket::pair(PairKind::Packet).map_err(sockets)?;
    socket::set_timeout(status.as_fd(), LAUNCH_TIMEOUT).map_err(sockets)?;
    template.request_copy(ids, [childs_status.as_fd(), childs_control.as_fd(), control.as_fd()])?;
    drop((childs_status, childs_control));
    let sent = send_steps(&status, steps);
    let copy = template.receive_copy(ids)?;
    // From here on an error drops `jailed`, which ends the copy.
    let mut jailed = JailedProcess::new(copy.pid, copy.handle, control);
    match sent {
        // A copy that did not wait for all steps has reported why.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(sockets(error)),
        _ => wait_until_confined(&status, steps, &mut jailed).map_err(CopyError::Refused)?,
    }
    Ok(jailed)
}

/// Sends the copy its steps.
fn send_steps(status: &OwnedFd, steps: &ConfinementSteps) -> io::Result<()> {
    let packed = steps.encode();
    if packed.len() > handshake::MAX_STEPS_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the plan is too long"));
    }
    let bytes = [&(packed.len() as u64).to_le_bytes(), packed.as_slice()].concat();
    for piece in bytes.chunks(handshake::PIECE_BYTES) {
        socket::send(status.as_fd(), piece, &[])?;
    }
    Ok(())
}

/// Waits until the copy is confined.
fn wait_until_confined(
    status: &OwnedFd,
    steps: &ConfinementSteps,
    jailed: &mut JailedProcess,
) -> Result<(), LauncherError> {
    let mut message = [0u8; 16];
    loop {
        let (length, mut descriptors) =
            socket::receive(status.as_fd(), &mut message).map_err(LauncherError::Sockets)?;
        match (message.get(..length), descriptors.pop()) {
            (Some([handshake::HANDLES_MESSAGE]), Some(last)) => {
                descriptors.push(last);
                jailed.handles = descriptors;
            }
            (Some([handshake::LISTENER_MESSAGE, version]), Some(last)) => {
                // The copy is confined; its first report on the control socket shows that it goes on.
                let (listener, sockets) = match descriptors.pop() {
                    Some(first) => (first, Some(last)),
                    None => (last, None),
                };
                jailed.listener = Some(listener);
                jailed.sockets = sockets;
                jailed.landlock = *version;
                return Ok(());
            }
            (Some([handshake::FAILURE_MESSAGE, stage, low, high, error @ ..]), None) => {
                let number = error.try_into().map_or(libc::EIO, i32::from_le_bytes);
                return Err(stage_error(*stage, u16::from_le_bytes([*low, *high]), number, steps));
            }
            _ => return Err(LauncherError::Vanished),
        }
    }
}

fn stage_error(stage: u8, index: u16, number: i32, steps: &ConfinementSteps) -> LauncherError {
    let source = io::Error::from_raw_os_error(number);
    if stage == ConfinementStage::Source as u8 {
        let path = steps
            .sources
            .get(usize::from(index))
            .map_or_else(String::new, |source| source.to_string_lossy().into_owned());
        return LauncherError::Source { path, source };
    }
    let step = steps
        .build
        .get(usize::from(index))
        .filter(|_| stage == ConfinementStage::Build as u8);
    if let Some(step) = step
        && let Some(error) = step_error(step, number, steps)
    {
        return error;
    }
    let name = handshake::STAGE_NAMES
        .iter()
        .find(|(known, _)| *known as u8 == stage)
        .map_or("unknown", |(_, name)| name);
    let stage = step.map_or_else(|| name.to_owned(), |step| format!("{name} {step:?}"));
    LauncherError::Confine { stage, index, source }
}

/// The error of a step where the host's own files are at fault, or a link that a program left.
fn step_error(step: &BuildStep<'_>, number: i32, steps: &ConfinementSteps) -> Option<LauncherError> {
    let text = |name: &CStr| name.to_string_lossy().into_owned();
    let source = io::Error::from_raw_os_error(number);
    match step {
        BuildStep::Folder { path: to }
        | BuildStep::Touch { path: to }
        | BuildStep::Bind { to, .. }
        | BuildStep::Memory { to, .. }
        | BuildStep::Layer { to, .. }
            if number == libc::ELOOP =>
        {
            let path = format!("/{}", text(to));
            Some(LauncherError::Link { path, source })
        }
        BuildStep::Layer { source: folder, .. } => {
            let path = steps.sources.get(*folder).map_or_else(String::new, |path| text(path));
            Some(LauncherError::Layer { path, source })
        }
        BuildStep::Folder { .. }
        | BuildStep::Touch { .. }
        | BuildStep::Bind { .. }
        | BuildStep::Memory { .. }
        | BuildStep::Device { .. }
        | BuildStep::Link { .. }
        | BuildStep::Write { .. }
        | BuildStep::Proc
        | BuildStep::ReadOnlyAgain { .. }
        | BuildStep::CoverOfProc { .. } => None,
    }
}

#[cfg(test)]
mod tests;
