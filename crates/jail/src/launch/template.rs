//! The template process as the host sees it: started in advance, asked for copies, replaced after some.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use super::{LaunchError, PATIENCE};
use crate::identity::{self, Same, Writer};
use crate::plan::Ids;
use crate::program::Program;
use crate::sys::process::{self, Cloned, Parent};
use crate::sys::{
    fd,
    socket::{self, PairKind},
};
use crate::told::{Answer, MADE, NO_IDENTITY, NO_NAMESPACES};

/// Copies share their template's address layout, so a template is replaced after this many copies.
const MOST_COPIES: u32 = 64;

/// The number of the socket in the template.
const SOCKET: RawFd = 3;
/// Numbers from here on are unused by the launcher, so descriptors can be parked there before they are put in place.
const PARKED: RawFd = 64;

/// A running template. Dropping it ends it; its copies live on.
#[derive(Debug)]
pub(super) struct Template {
    socket: OwnedFd,
    handle: OwnedFd,
    copies: u32,
}

/// A copy that waits for its steps.
#[derive(Debug)]
pub(super) struct Copy {
    pub(super) pid: i32,
    pub(super) handle: OwnedFd,
}

/// Why a template made no copy.
#[derive(Debug)]
pub(super) enum NoCopy {
    /// The template is gone or answered with invalid data: another one may succeed.
    Template(io::Error),
    /// The kernel refused to make the copy.
    Refused(LaunchError),
}

impl Template {
    /// Starts the template; it becomes ready by itself.
    ///
    /// An ordinary user's template lives in a user namespace of its own, in which it keeps its user number. The kernel lets
    /// the owner of that namespace inspect the processes in it: so the host can count the memory of copies, and no other
    /// process can.
    pub(super) fn start(program: &Program) -> Result<Template, LaunchError> {
        let (socket, theirs) = socket::pair(PairKind::Packet).map_err(LaunchError::Sockets)?;
        socket::limit_patience(socket.as_fd(), PATIENCE).map_err(LaunchError::Sockets)?;
        let null = fd::open_at(None, c"/dev/null", libc::O_RDWR, 0).map_err(LaunchError::Template)?;
        let writer = Writer::here();
        let namespaces = match writer {
            Writer::Root => 0,
            Writer::Ordinary => libc::CLONE_NEWUSER,
        };
        // No signal handler of the host runs in the child before it executes another program.
        process::block_signals(true).map_err(LaunchError::Template)?;
        let cloned = process::clone_into(namespaces, Parent::Maker);
        if let Ok(Cloned::Child) = cloned {
            become_template(socket, theirs.as_fd(), null.as_fd(), program.as_fd());
        }
        process::block_signals(false).map_err(LaunchError::Template)?;
        let Cloned::Parent { pid, handle } = cloned.map_err(LaunchError::Namespaces)? else {
            return Err(LaunchError::Vanished);
        };
        // From here on an error drops `template`, which ends it.
        let template = Template {
            socket,
            handle,
            copies: 0,
        };
        if writer == Writer::Ordinary {
            let (user, group) = process::effective_ids();
            let same = |number| Same {
                inside: number,
                outside: number,
            };
            identity::give(pid, same(user), same(group), writer)
                .map_err(|source| LaunchError::Identity { user, source })?;
        }
        socket::send(template.socket.as_fd(), b"g", &[]).map_err(LaunchError::Template)?;
        Ok(template)
    }

    /// Whether the template has made so many copies that it should be replaced.
    pub(super) fn is_used_up(&self) -> bool {
        self.copies >= MOST_COPIES
    }

    /// Requests a copy with the identity `ids` and the sockets `ends`: status, control, and the host's end of control.
    pub(super) fn copy(&mut self, ids: Ids, ends: [BorrowedFd<'_>; 3]) -> Result<(), NoCopy> {
        self.copies += 1;
        let numbers = ends.map(|end| end.as_raw_fd());
        socket::send(self.socket.as_fd(), &ids.to_request(), &numbers)
            .map(drop)
            .map_err(NoCopy::Template)
    }

    /// Receives the copy that was requested.
    pub(super) fn copied(&self, ids: Ids) -> Result<Copy, NoCopy> {
        let mut answer = [0; 16];
        let (length, mut handles) = socket::receive(self.socket.as_fd(), &mut answer).map_err(NoCopy::Template)?;
        let Some(Answer { kind, pid, error }) = answer.get(..length).and_then(Answer::from_bytes) else {
            return Err(NoCopy::Template(io::ErrorKind::UnexpectedEof.into()));
        };
        let source = io::Error::from_raw_os_error(error);
        match (kind, handles.pop()) {
            (MADE, Some(handle)) => Ok(Copy { pid, handle }),
            (NO_IDENTITY, Some(handle)) => {
                end(&handle);
                let user = ids.user;
                Err(NoCopy::Refused(LaunchError::Identity { user, source }))
            }
            (NO_NAMESPACES, None) => Err(NoCopy::Refused(LaunchError::Namespaces(source))),
            _ => Err(NoCopy::Template(io::ErrorKind::InvalidData.into())),
        }
    }
}

impl Drop for Template {
    fn drop(&mut self) {
        end(&self.handle);
    }
}

/// Kills and reaps one process.
fn end(handle: &OwnedFd) {
    // An error means that the process has ended or was reaped already: then it is gone as well.
    let _ = process::signal_handle(handle.as_fd(), libc::SIGKILL);
    let _ = process::wait_handle(handle.as_fd());
}

/// What runs between the fork of the host and the start of the template: signal-safe calls only.
fn become_template(hosts: OwnedFd, socket: BorrowedFd<'_>, null: BorrowedFd<'_>, program: BorrowedFd<'_>) -> ! {
    // On any failure the host sees that the socket closes.
    let _ = try_become(hosts, socket, null, program);
    process::leave(1)
}

fn try_become(hosts: OwnedFd, socket: BorrowedFd<'_>, null: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    // The thread that started the template lives as long as the host.
    process::control(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong)?;
    // If the host ended before that, the socket is at its end once this copy of the host's end is closed.
    drop(hosts);
    // The host first writes the id maps of this process.
    if socket::receive_bytes(socket, &mut [0u8; 1])? != 1 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let park = |one: BorrowedFd<'_>| fd::dup_above(one.as_raw_fd(), PARKED);
    let (socket, null, parked) = (park(socket)?, park(null)?, park(program)?);
    for (from, to) in [(null, 0), (null, 1), (null, 2), (socket, SOCKET)] {
        fd::dup_onto(from, to, 0)?;
    }
    let program = fd::adopt(parked)?;
    let argv = [c"ringfence-worker".as_ptr(), std::ptr::null()];
    let envp = [std::ptr::null()];
    Err(process::become_program(program.as_fd(), &argv, &envp))
}
