//! A running jail: its first process, and the host's handles on it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use crate::sockets::SocketMemory;
pub use crate::sys::fd::DiskSpace;
use crate::sys::fd::{self, InputState};
use crate::sys::fence::{self, StoppedCall};
use crate::sys::process::{self, ProcessEnd};

/// A confined child. Dropping it kills every process in the jail.
#[derive(Debug)]
pub struct JailedProcess {
    pid: i32,
    handle: Option<OwnedFd>,
    control: OwnedFd,
    pub(crate) handles: Vec<OwnedFd>,
    pub(crate) listener: Option<OwnedFd>,
    pub(crate) sockets: Option<OwnedFd>,
    pub(crate) landlock: u8,
}

impl JailedProcess {
    pub(crate) fn new(pid: i32, handle: OwnedFd, control: OwnedFd) -> JailedProcess {
        JailedProcess {
            pid,
            handle: Some(handle),
            control,
            handles: Vec::new(),
            listener: None,
            sockets: None,
            landlock: 0,
        }
    }

    /// The number of the first process on the host.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The socket to the first process, which carries whole packets.
    pub fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// The handles that the plan asked for, in its order.
    pub fn handles(&self) -> &[OwnedFd] {
        &self.handles
    }

    /// The listener for notified system calls; `None` after the first call.
    pub fn take_listener(&mut self) -> Option<SyscallListener> {
        self.listener.take().map(SyscallListener)
    }

    /// Bytes that the kernel keeps for the jail's unix and internet sockets; `None`: it cannot be queried.
    pub fn socket_bytes(&self) -> io::Result<Option<SocketMemory>> {
        let asked = self
            .sockets
            .as_ref()
            .map(|list| crate::sockets::socket_memory(list.as_fd()));
        asked.transpose()
    }

    /// The Landlock version in force.
    pub fn landlock_version(&self) -> u8 {
        self.landlock
    }

    /// Kills every process in the jail immediately. The first process is reaped when this value is dropped.
    pub fn kill(&self) -> io::Result<()> {
        match self
            .handle
            .as_ref()
            .map(|handle| process::signal_handle(handle.as_fd(), libc::SIGKILL))
        {
            Some(Err(error)) if error.raw_os_error() != Some(libc::ESRCH) => Err(error),
            _ => Ok(()),
        }
    }

    /// Kills every process and waits until nothing of the jail is left.
    pub fn kill_and_wait(mut self) -> io::Result<Option<ProcessEnd>> {
        self.kill()?;
        let ended = self.handle.take().map(|handle| process::wait_handle(handle.as_fd()));
        ended.transpose()
    }

    /// Whether the first process is still running.
    pub fn is_alive(&self) -> bool {
        let ended = self.handle.as_ref().map(|handle| process::has_ended(handle.as_fd()));
        matches!(ended, Some(Ok(false)))
    }
}

impl Drop for JailedProcess {
    fn drop(&mut self) {
        let Some(handle) = self.handle.take() else { return };
        // A dead process needs no signal; reaping waits elsewhere until the kernel has removed the namespaces.
        let _ = process::signal_handle(handle.as_fd(), libc::SIGKILL);
        reap_in_background(handle);
    }
}

fn reap_in_background(handle: OwnedFd) {
    static REAPER: OnceLock<Option<mpsc::Sender<OwnedFd>>> = OnceLock::new();
    let reaper = REAPER.get_or_init(|| {
        let (sender, inbox) = mpsc::channel::<OwnedFd>();
        let reap = move || {
            for handle in inbox {
                // An error means that the process was already reaped, so it is gone as well.
                let _ = process::wait_handle(handle.as_fd());
            }
        };
        thread::Builder::new()
            .name("ringfence-reap".to_owned())
            .spawn(reap)
            .ok()
            .map(|_| sender)
    });
    let unsent = match reaper {
        Some(reaper) => reaper.send(handle).err().map(|error| error.0),
        None => Some(handle),
    };
    if let Some(handle) = unsent {
        // No thread is available: waiting here is better than leaving a zombie.
        let _ = process::wait_handle(handle.as_fd());
    }
}

/// The listener for notified system calls, which no ordinary program makes.
#[derive(Debug)]
pub struct SyscallListener(OwnedFd);

/// What a listener had to report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenerEvent {
    /// A call that was refused.
    Refused(StoppedCall),
    /// No call waits now.
    Idle,
    /// Every process under the filter is gone: no call will ever come, and the descriptor stays ready for ever.
    Closed,
}

impl SyscallListener {
    /// Receives the next notified call, refuses it, and returns what it was. Never blocks.
    pub fn refuse_next(&self) -> io::Result<ListenerEvent> {
        // Receiving blocks until there is a call, whatever the descriptor's flags are.
        match fd::poll_input(self.0.as_fd(), Duration::ZERO)? {
            InputState::Ready => {}
            InputState::Empty => return Ok(ListenerEvent::Idle),
            InputState::Closed => return Ok(ListenerEvent::Closed),
        }
        let stopped = match fence::receive_stopped(self.0.as_fd()) {
            // The calling process died meanwhile.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::Interrupted) => {
                return Ok(ListenerEvent::Idle);
            }
            other => other?,
        };
        fence::refuse_stopped(self.0.as_fd(), stopped)?;
        Ok(ListenerEvent::Refused(stopped))
    }
}

impl AsFd for SyscallListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl std::os::fd::AsRawFd for SyscallListener {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.0.as_raw_fd()
    }
}

/// The space of the file system behind a handle.
pub fn disk_space(place: BorrowedFd<'_>) -> io::Result<DiskSpace> {
    fd::disk_space(place)
}

/// Runs `work` on a thread whose new files belong to `user`; a jail's own file systems accept files of no other user.
pub fn run_as_file_user<T: Send>(user: u32, group: u32, work: impl FnOnce() -> T + Send) -> thread::Result<T> {
    thread::scope(|scope| {
        scope
            .spawn(|| {
                process::set_file_user(user, group);
                work()
            })
            .join()
    })
}
